/* SPDX-License-Identifier: MIT
 *
 * rimf/patch/process.c: what this process may do to its own code, and its other threads.  Queried at
 * every commit: programs start threads, give up privileges and load filters at any time, and each query
 * costs less than a microsecond.
 */
#include <fcntl.h>
#include <linux/sched.h>
#include <sys/stat.h>

#include "rimf/patch/private.h"

int patch_signals_off(const struct rimf_sys *sys, uint64_t *before)
{
    const uint64_t others = ~PATCH_SYNCHRONOUS;

    return (int)SYS6(sys, SYS_rt_sigprocmask, 0 /* SIG_BLOCK */, &others, before, 8, 0, 0);
}

void patch_signals_back(const struct rimf_sys *sys, const uint64_t *before)
{
    for (int tries = 0; tries < 3; tries++) {
        if (SYS6(sys, SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, before, 0, 8, 0, 0) == 0)
            return;
    }
}

/* mov $15, %eax    b8 0f 00 00 00     rt_sigreturn
 * syscall          0f 05 */
__attribute__((naked)) void patch_restorer(void)
{
    __asm__("mov $15, %eax; syscall");
}

/* The default, or SIG_IGN, which the kernel ignores if it raises such a signal itself. */
static int is_handled(const struct rimf_sys *sys, int signal)
{
    struct sys_action action;

    return SYS6(sys, SYS_rt_sigaction, signal, 0, &action, 8, 0, 0) ||
           (action.handler > 1 && !patch_is_crash_handler(action.handler));
}

int patch_handlers_may_run(const struct rimf_sys *sys)
{
    for (int signal = 1; PATCH_SYNCHRONOUS >> (signal - 1); signal++)
        if (PATCH_SYNCHRONOUS >> (signal - 1) & 1 && is_handled(sys, signal))
            return 1;
    return 0;
}

int patch_single_thread(const struct rimf_sys *sys)
{
    struct stat st;

    return SYS6(sys, SYS_newfstatat, AT_FDCWD, "/proc/self/task", &st, 0, 0, 0) == 0 && st.st_nlink == 3;
}

/* unshare(2) of memory, signal handlers and thread group does nothing in a process that shares its memory
 * with nobody, and fails in any other: this is the kernel's own answer, and it includes vfork's parent and
 * bare CLONE_VM.  If a filter forbids the call, the links of /proc/self/task are counted (itself, its
 * parent, and one for each thread); no answer means "not alone".  While the answer is used, signals are
 * blocked, so this thread starts none. */
int patch_alone(const struct rimf_sys *sys)
{
    long r = SYS3(sys, SYS_unshare, CLONE_VM | CLONE_SIGHAND | CLONE_THREAD, 0, 0);

    return r == 0 || (r != -EINVAL && patch_single_thread(sys));
}

/* Asks to make a page executable that already is: nothing changes, but a seccomp filter against new
 * executable memory shows itself.  The page was first written and then made executable, which shows
 * SELinux's execmem.  PR_SET_MDWE has its own query. */
#define PR_GET_MDWE 66
#define SCRATCH_MARK 64 /* a byte that is not 0, except in a child of fork: see patch_is_child */

static int scratch(struct rimf_patcher *p)
{
    long r;

    if (p->scratch)
        return 0;
    r = sys_mmap(p->host.sys, 0, RIMF_PAGE, PATCH_RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (sys_failed(r))
        return (int)r;
    *(volatile uint8_t *)r = 0xc3;
    *(volatile uint8_t *)(r + SCRATCH_MARK) = 1;
    p->scratch = (uintptr_t)r;
    return 0;
}

int patch_mprotect_allowed(struct rimf_patcher *p)
{
    const struct rimf_sys *sys = p->host.sys;
    long r = scratch(p);

    if (r)
        return (int)r;
    if (SYS6(sys, SYS_prctl, PR_GET_MDWE, 0, 0, 0, 0, 0) > 0)
        return -EPERM;
    do {
        r = sys_mprotect(sys, p->scratch, RIMF_PAGE, PATCH_RX);
    } while (r == -EINTR);
    return (int)r;
}

/* A process number would not do: a child in a new namespace may have its parent's.  The kernel clears the
 * page in the child, whoever called fork. */
int patch_is_child(struct rimf_patcher *p)
{
    return p->wiped && !*(volatile uint8_t *)(p->scratch + SCRATCH_MARK);
}

int patch_mark_parent(struct rimf_patcher *p)
{
    const struct rimf_sys *sys = p->host.sys;
    int r;

    if (patch_is_child(p)) { /* another page, as this one cannot be written */
        sys_munmap(sys, p->scratch, RIMF_PAGE);
        p->scratch = 0;
        p->wiped = 0;
    }
    if (p->wiped)
        return 0;
    r = scratch(p);
    if (r == 0)
        r = (int)SYS3(sys, SYS_madvise, p->scratch, RIMF_PAGE, MADV_WIPEONFORK);
    p->wiped = r == 0;
    return r;
}

/* ---- /proc/self/mem ---- */

int patch_mem_write(struct rimf_patcher *p, uintptr_t at, const void *bytes, size_t n)
{
    const uint8_t *from = bytes;

    while (n) {
        long r = sys_pwrite(p->host.sys, p->mem, from, n, at);
        if (r == -EINTR)
            continue;
        if (r <= 0)
            return r ? (int)r : -EIO;
        from += r;
        at += (size_t)r;
        n -= (size_t)r;
    }
    return 0;
}

void patch_mem_close(struct rimf_patcher *p)
{
    sys_close(p->host.sys, p->mem);
}

/* Opening proves little: a kernel may refuse writes to pages that are not writable
 * (proc_mem.force_override).  The scratch page shows it. */
int patch_mem_open(struct rimf_patcher *p)
{
    const uint8_t ret = 0xc3;
    int r = scratch(p);

    if (r)
        return r;
    do {
        p->mem = (int)sys_openat(p->host.sys, p->alone ? "/proc/self/mem" : "/proc/thread-self/mem",
                                 O_RDWR | O_CLOEXEC, 0);
    } while (p->mem == -EINTR);
    if (p->mem < 0)
        return p->mem;
    r = patch_mem_write(p, p->scratch, &ret, 1);
    if (r)
        patch_mem_close(p);
    return r;
}

/* ---- other CPUs ---- */

#define CMD_SYNC_CORE 32    /* MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE */
#define CMD_REGISTER_SYNC 64 /* its registration */

/* Registration makes later switches between processes slightly slower and may take milliseconds under
 * threads, so it waits for the first batch that needs it.  It belongs to the address space: repeated when
 * refused. */
int patch_sync_cores(struct rimf_patcher *p)
{
    const struct rimf_sys *sys = p->host.sys;
    long r = SYS3(sys, SYS_membarrier, CMD_SYNC_CORE, 0, 0);

    if (r == -EPERM) {
        r = SYS3(sys, SYS_membarrier, CMD_REGISTER_SYNC, 0, 0);
        if (r == 0)
            r = SYS3(sys, SYS_membarrier, CMD_SYNC_CORE, 0, 0);
    }
    return (int)r;
}
