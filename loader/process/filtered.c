/* SPDX-License-Identifier: MIT
 *
 * loader/process/filtered.c: a filter of system calls (seccomp) is in force.
 *
 * Sandboxes and services start programs under filters, or programs load them themselves;
 * and what a filter does with a call that it does not expect cannot be asked: it refuses
 * it, or it kills.  A filter is made for what the program does under the host loader.  So
 * what we do unasked, before the program begins and at each dlopen, keeps to calls that
 * the host loader makes, and to those with which anybody reads files and looks at threads.
 * Others are refused here, as a filter would refuse them, and each place that makes a call
 * knows how to go on without it: whoever asks by unshare(2) whether there are other
 * threads counts them in /proc, and who would need membarrier(2) changes nothing.
 *
 * A filter may also answer by a signal, SIGSYS, as browsers' sandboxes do: the program's handler
 * makes the call in another way, or refuses it and says so.  Where there is one, what is done at a
 * dlopen keeps to what the host loader calls.
 *
 * Commits that the program asks for are its own calls, and are made.  So is what
 * MVLD_SNAPSHOT asks for (`mvld build`).
 *
 * Whether there is a filter stands in /proc/self/status, and so does whether a debugger is
 * there, which is asked at a start from a snapshot: one question for both.
 */
#include "loader/loader.h"

#include "rimf/image/image.h"
#include "rimf/base/status.h"

#include <errno.h> /* numbers only */

/* The host loader's and malloc's; and of which thread this is, its locks and signals. */
static int is_hosts(long nr)
{
    switch (nr) {
    case SYS_openat:
    case SYS_read:
    case SYS_pread64:
    case SYS_fstat:
    case SYS_newfstatat:
    case SYS_close:
    case SYS_mmap:
    case SYS_mprotect:
    case SYS_munmap:
    case SYS_mremap: /* realloc's; when a page cannot be made executable again, the last help */
    case SYS_brk:
    case SYS_write:
    case SYS_exit_group:
    case SYS_getpid:
    case SYS_gettid:
    case SYS_geteuid:
    case SYS_futex:
    case SYS_rt_sigaction:
    case SYS_rt_sigprocmask: return 1;
    default: return 0;
    }
}

static int is_plain(long nr)
{
    switch (nr) {
    case SYS_readlinkat:
    case SYS_faccessat:
    case SYS_getdents64:
    case SYS_pwrite64: /* of code, where mprotect was refused */
    case SYS_madvise:
    case SYS_prlimit64:
    case SYS_getrandom:
    case SYS_clock_gettime: return 1; /* for MVLD_DEBUG=statistics */
    default: return is_hosts(nr);
    }
}

/* Threads that live have different ones: the address of the control block (psABI, 3.4.6). */
static uintptr_t own_thread(void)
{
    uintptr_t self;

    __asm__("movq %%fs:0, %0" : "=r"(self));
    return self;
}

/* The host loader has not made the first thread's before it starts. */
static int is_unasked(const struct filtered *filtered)
{
    uintptr_t event = __atomic_load_n(&filtered->event, __ATOMIC_RELAXED);

    return filtered->starting || (event && event == own_thread());
}

static long call(const struct rimf_sys *sys, long nr, long a, long b, long c, long d, long e,
                 long f)
{
    const struct filtered *filtered = (const struct filtered *)sys;

    if (filtered->on && !(filtered->answered ? is_hosts : is_plain)(nr) && is_unasked(filtered))
        return -EPERM;
    return filtered->kernel->call(filtered->kernel, nr, a, b, c, d, e, f);
}

#define SIGSYS_BIT (1ul << 30)

/* The program answers calls that the filter stops, and may take note of each one that it does not
 * expect; or it could, but blocks the signal in this thread: then the kernel ends the process. */
static int is_answered(const struct loader *l)
{
    struct {
        uintptr_t handler, flags, restorer;
        uint64_t mask;
    } action;
    uint64_t blocked;

    return SYS6(l->sys, SYS_rt_sigaction, 31 /* SIGSYS */, 0, &action, sizeof action.mask, 0, 0) ||
           action.handler > 1 ||
           SYS6(l->sys, SYS_rt_sigprocmask, 0 /* SIG_BLOCK */, 0, &blocked, sizeof blocked, 0, 0) ||
           blocked & SIGSYS_BIT;
}

/* Where /proc is not there nobody knows of a filter; the program's own sandbox may be why. */
static void look(struct loader *l)
{
    struct filtered *filtered = &l->filtered;
    struct status status;

    filtered->untraced = 0;
    if (status_read(l->sys, &status)) {
        filtered->on |= !filtered->starting && !l->knobs.snapshot;
        return;
    }
    filtered->untraced = !status.traced;
    if (!status.filtered || filtered->on || l->knobs.snapshot)
        return;
    filtered->on = 1;
    rimf_log(&l->log, MVLD_LOG_FILES, "a filter of system calls is in force: unasked, none are "
                                      "made but those that it must expect");
}

void filtered_start(struct loader *l)
{
    l->filtered = (struct filtered){.sys = {call}, .kernel = l->sys, .starting = 1};
    look(l);
    l->sys = &l->filtered.sys;
}

void filtered_end(struct loader *l)
{
    if (l->filtered.kernel)
        l->sys = l->filtered.kernel;
    l->filtered = (struct filtered){.on = 0};
}

void filtered_enter(struct loader *l, int new)
{
    if (!l->pipeline || !new)
        return;
    look(l);
    l->filtered.answered = l->filtered.on && is_answered(l);
    rimf_image_set_untraced(l->image, l->filtered.untraced);
    rimf_image_set_filtered(l->image, l->filtered.on);
    __atomic_store_n(&l->filtered.event, own_thread(), __ATOMIC_RELAXED);
}

void filtered_leave(struct loader *l)
{
    rimf_image_set_untraced(l->image, 0);
    l->filtered.starting = 0;
    __atomic_store_n(&l->filtered.event, 0, __ATOMIC_RELAXED);
}
