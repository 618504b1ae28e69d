/* SPDX-License-Identifier: MIT
 *
 * rimf/patch/crash.c: if a fault ends the process, reports where.
 *
 * The kernel restores the default action when it calls the handler (SA_RESETHAND).  When the handler
 * returns, the instruction faults again, and the default action ends the process.  A signal that somebody
 * sent does not recur: it is queued again, unchanged.
 *
 * A filter of system calls may be in force, unknown to us: all calls but that one are among the host
 * loader's (loader/process/limits.c).
 */
#include "rimf/patch/crash.h"

#include <ucontext.h>

#include "rimf/patch/private.h"

static const uint8_t signals[RIMF_CRASH_SIGNALS] = {11 /* SIGSEGV */, 7 /* SIGBUS */, 4 /* SIGILL */, 8 /* SIGFPE */};

/* A handler gets no pointer of ours. */
static const struct rimf_crash *live;

static void on_crash(int signal, struct patch_siginfo *info, ucontext_t *context)
{
    if (info->code > 0) /* from the kernel, not kill(2) */
        live->tell(live->cookie, signal, (uintptr_t)context->uc_mcontext.gregs[REG_RIP]);
    else /* even if `sys` refuses calls */
        SYS6(&rimf_sys_kernel, SYS_rt_tgsigqueueinfo, SYS3(live->sys, SYS_getpid, 0, 0, 0),
             SYS3(live->sys, SYS_gettid, 0, 0, 0), signal, info, 0, 0);
}

int patch_is_crash_handler(uintptr_t handler)
{
    return handler == (uintptr_t)on_crash;
}

void rimf_crash_watch(struct rimf_crash *f)
{
    const struct sys_action ours = {(uintptr_t)on_crash, FLAG_SIGINFO | FLAG_RESTORER | FLAG_RESETHAND,
                                    (uintptr_t)patch_restorer, ~0ul};
    struct sys_action theirs;

    f->watched = 0;
    if (!patch_single_thread(f->sys))
        return;
    live = f;
    for (size_t i = 0; i < RIMF_CRASH_SIGNALS; i++)
        if (!SYS6(f->sys, SYS_rt_sigaction, signals[i], 0, &theirs, 8, 0, 0) && !theirs.handler &&
            !SYS6(f->sys, SYS_rt_sigaction, signals[i], &ours, 0, 8, 0, 0))
            f->watched |= 1u << i;
}

void rimf_crash_leave(struct rimf_crash *f)
{
    const struct sys_action none = {0};

    for (size_t i = 0; i < RIMF_CRASH_SIGNALS; i++)
        if (f->watched >> i & 1)
            SYS6(f->sys, SYS_rt_sigaction, signals[i], &none, 0, 8, 0, 0);
}
