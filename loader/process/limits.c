/* SPDX-License-Identifier: MIT
 *
 * loader/process/limits.c: what limits this process, or watches it: RLIMIT_AS; auditors and profilers that count
 * calls in PLT and GOT, so that calls must go through these; filters of system calls (seccomp).
 */
#include "loader/loader.h"

#include "loader/process/process.h"
#include "rimf/base/status.h"
#include "rimf/image/image.h"

#include <errno.h>        /* numbers only */
#include <sys/resource.h> /* numbers only */

/* 0: no program can start with such a limit. */
static uint64_t space(struct loader *l)
{
    struct rlimit limit;

    if (!l->space)
        l->space = SYS6(l->sys, SYS_prlimit64, 0, RLIMIT_AS, NULL, &limit, 0, 0) ? SPACE_SHORT : limit.rlim_cur;
    return l->space;
}

/* If address space is limited, a library of hundreds of MB cannot be mapped, and the host loader
 * reports this on standard error; or the program gets too little. */
int space_is_limited(struct loader *l)
{
    return space(l) != RLIM_INFINITY;
}

int space_is_short(struct loader *l)
{
    return space(l) < SPACE_SHORT;
}

/* The sentence for a variable of the host loader that lets an auditor see calls in the PLT, or
 * changes how slots are bound; or NULL. */
const char *auditor_of(const char *setting)
{
    static const struct {
        const char *name, *why;
    } settings[] = {
        {"LD_AUDIT=", "an auditing library is loaded (LD_AUDIT)"},
        {"LD_PROFILE=", "calls are profiled (LD_PROFILE)"},
        {"LD_BIND_NOT=", "slots are not to be bound (LD_BIND_NOT)"},
        {"LD_DYNAMIC_WEAK=", "weak definitions are overridden (LD_DYNAMIC_WEAK)"},
    };

    for (size_t i = 0; i < RIMF_COUNT(settings); i++) {
        const char *value = rimf_after(setting, settings[i].name);

        if (value && *value)
            return settings[i].why;
    }
    return NULL;
}

/* The request RUNNING_ON_VALGRIND (0x1001) of valgrind.h.  On a CPU these instructions have no
 * effect: %rdi is rotated by 128 bits. */
static int under_valgrind(void)
{
    volatile uint64_t request[6] = {0x1001};
    uint64_t answer;

    __asm__ volatile("rolq $3, %%rdi\n\trolq $13, %%rdi\n\t"
                     "rolq $61, %%rdi\n\trolq $51, %%rdi\n\t"
                     "xchgq %%rbx, %%rbx"
                     : "=d"(answer)
                     : "a"(request), "0"(0ul)
                     : "cc", "memory");
    return answer != 0;
}

/* Called before any decision that an auditor would miss. */
void auditor_look(struct loader *l)
{
    if (!l->knobs->watcher && under_valgrind())
        l->knobs->watcher = "valgrind forgets the names of code that is changed";
}

/* ---- filters of system calls ------------------------------------------------------------- */

/* Sandboxes and services start programs under filters, or programs load them themselves.  What a
 * filter does with an unexpected call cannot be queried: it refuses the call, or it kills.  A
 * filter is made for what the program does under the host loader.  So our own work, before the
 * program begins and at each dlopen, keeps to calls that the host loader makes, and to those by
 * which everybody reads files and looks at threads.  Other calls are refused here, as a filter
 * would refuse them, and each caller can continue without: threads are counted in /proc instead of
 * by unshare(2), and what needs membarrier(2) is not changed.
 *
 * A filter may also send a signal, SIGSYS, as browsers' sandboxes do: the program's handler makes
 * the call in another way, or refuses and reports it.  If there is a handler, our work at a dlopen
 * keeps to the host loader's calls.
 *
 * Commits that the program requests are its own calls, and are made.  So is the work of
 * MVLD_SNAPSHOT (`mvld build`).
 *
 * /proc/self/status tells whether there is a filter, and also whether there is a debugger, which a
 * start from a snapshot must know: one read for both.
 */

/* Calls of the host loader and malloc; and those that identify this thread, its locks and signals. */
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
    case SYS_mremap: /* realloc's; the last resort if a page cannot be made executable again */
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
    case SYS_pwrite64: /* of code, if mprotect was refused */
    case SYS_madvise:
    case SYS_prlimit64:
    case SYS_getrandom:
    case SYS_clock_gettime: return 1; /* for MVLD_DEBUG=statistics */
    default: return is_hosts(nr);
    }
}

/* Identifies a running thread: the address of its control block (psABI, 3.4.6). */
static uintptr_t own_thread(void)
{
    uintptr_t self;

    __asm__("movq %%fs:0, %0" : "=r"(self));
    return self;
}

/* The first thread has none before the host loader starts. */
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

/* The program handles calls that the filter stops, and may log unexpected ones; or it blocks the
 * signal in this thread, and then the kernel ends the process. */
static int is_answered(const struct loader *l)
{
    struct sys_action action;
    uint64_t blocked;

    return SYS6(l->sys, SYS_rt_sigaction, 31 /* SIGSYS */, 0, &action, sizeof action.mask, 0, 0) ||
           action.handler > 1 ||
           SYS6(l->sys, SYS_rt_sigprocmask, 0 /* SIG_BLOCK */, 0, &blocked, sizeof blocked, 0, 0) ||
           blocked & SIGSYS_BIT;
}

/* Without /proc a filter is unknown; the program's own sandbox may be the reason. */
static void look(struct loader *l)
{
    struct filtered *filtered = l->filtered;
    struct status status;

    filtered->untraced = 0;
    if (status_read(l->sys, filtered->starting, &status)) {
        filtered->on |= !filtered->starting && !l->knobs->snapshot;
        return;
    }
    filtered->untraced = !status.traced;
    if (!status.filtered || filtered->on || l->knobs->snapshot)
        return;
    filtered->on = 1;
    rimf_log(&l->log, MVLD_LOG_FILES, "a filter of system calls is in force: unasked, none are "
                                      "made but those that it must expect");
}

void filtered_start(struct loader *l)
{
    *l->filtered = (struct filtered){.sys = {call}, .kernel = l->sys, .starting = 1};
    look(l);
    l->sys = &l->filtered->sys;
}

void filtered_end(struct loader *l)
{
    if (l->filtered->kernel)
        l->sys = l->filtered->kernel;
    *l->filtered = (struct filtered){.on = 0};
}

void filtered_enter(struct loader *l, int new)
{
    if (!l->pipeline || !new)
        return;
    look(l);
    l->filtered->answered = l->filtered->on && is_answered(l);
    rimf_image_feeder(l->image)->untraced = l->filtered->untraced;
    __atomic_store_n(&l->filtered->event, own_thread(), __ATOMIC_RELAXED);
}

void filtered_leave(struct loader *l)
{
    rimf_image_feeder(l->image)->untraced = 0;
    l->filtered->starting = 0;
    __atomic_store_n(&l->filtered->event, 0, __ATOMIC_RELAXED);
}
