/* SPDX-License-Identifier: MIT
 *
 * rimf/patch/int3.c: changes bytes behind a breakpoint, while threads run.
 *
 *     e8 11 22 33 44     call old
 *     cc 11 22 33 44     1. arriving threads trap and wait in on_trap
 *        sync            2. every CPU has seen it: nobody decodes the old call
 *     cc 55 66 77 88     3. the tail, which nobody executes
 *        sync
 *     e8 55 66 77 88     4. the first byte: waiting threads run the site again
 *        sync
 *
 * This is the order of the kernel's own text patching, for all sites of the batch at once.  Writes go
 * through /proc/self/mem; sync is membarrier's SYNC_CORE.
 *
 * SIGTRAP belongs to the application.  Its action is replaced during the batch and then restored; a trap
 * that is not ours is passed to it (its mask and SA_RESETHAND are obeyed; the stack is ours, with
 * SA_ONSTACK).  A default action is not restored: a thread that has trapped may still be inside the kernel,
 * before its signal is queued; nobody can see that, and the default action would end the process.  So our
 * handler stays, and acts like the default for every trap that is not ours.
 *
 * This is not the first choice (patch/remap.c is).  The kernel kills a thread that traps while it blocks
 * SIGTRAP.  All masks are checked before the first breakpoint; if one blocks it, or there is a tracer, the
 * method is refused.  These gaps remain:
 *   - a thread that blocks SIGTRAP between that look and the end of the batch;
 *   - a thread that has trapped, and is preempted inside the kernel before its
 *     signal is queued, until the batch is over and an action of the application's own
 *     put back.  Queued ones are seen in /proc and waited for, in two looks a moment
 *     apart: only who stands there for longer is missed;
 *   - a child of vfork in the middle of its life: its signal actions are its own;
 *   - a fork by another thread that nobody keeps from it: the kernel copies
 *     the signal actions before the memory, so the child may have breakpoints and
 *     no handler;
 *   - a thread with no space for a signal frame on its stack.
 */
#include <linux/futex.h>
#include <ucontext.h>

#include "rimf/patch/private.h"

#define SIGTRAP 5
#define TRAP_BY_KERNEL 0x80 /* si_code SI_KERNEL: an instruction, not a kill(2) */
#define SIG_IGNORE ((void *)1)
#define FLAG_ONSTACK 0x08000000u
#define FLAG_NODEFER 0x40000000u

/* The batch that is being written.  The handler has no other way to find it. */
static struct {
    struct mvld_batch *batch; /* NULL: none */
    const struct rimf_sys *sys;
    struct patch_action before; /* the application's */
    int32_t writer;       /* the committing thread */
    uint32_t done;        /* counts batches; waiting threads sleep on it */
    uint32_t users;       /* threads inside the handler */
} live;

/* ---- in the thread that trapped ---- */

static int is_site(const struct mvld_batch *b, uintptr_t address)
{
    size_t low = 0, high = b->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct mvld_patch *patch = patch_nth(b, middle);
        if (patch->address == address)
            return patch->result == 0;
        if (patch->address < address)
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}

static uint8_t byte_at(uintptr_t address)
{
    return *(const volatile uint8_t *)address;
}

/* fork() copied this process in the middle of a batch, whose writer is not in the copy: the only thread
 * here completes it.  The descriptor in the patcher is the parent's memory, so another is opened. */
static void adopt(struct mvld_batch *b)
{
    struct rimf_patcher *p = b->patcher;
    int r;

    if (SYS3(live.sys, SYS_tgkill, SYS3(live.sys, SYS_getpid, 0, 0, 0), live.writer, 0) != -ESRCH ||
        !patch_alone(live.sys))
        return;
    patch_mem_close(p);
    r = patch_mem_open(p);
    for (size_t i = 0; r == 0 && i < b->n; i++) {
        const struct mvld_patch *patch = patch_nth(b, i);
        if (patch->result == 0 &&
            !patch_same((const void *)patch->address, patch->replace, patch->length))
            r = patch_mem_write(p, patch->address, patch->replace, patch->length);
    }
    if (r)
        return;
    patch_mem_close(p);
    __atomic_store_n(&live.batch, NULL, __ATOMIC_SEQ_CST);
    SYS6(live.sys, SYS_rt_sigaction, SIGTRAP, &live.before, 0, 8, 0, 0);
}

/* Waits until the site has an instruction again.  1: it was a site. */
static int wait_for(uintptr_t site)
{
    struct {
        int64_t seconds, nanoseconds;
    } timeout = {0, 1000 * 1000};
    uint32_t done = __atomic_load_n(&live.done, __ATOMIC_ACQUIRE);
    struct mvld_batch *b = __atomic_load_n(&live.batch, __ATOMIC_SEQ_CST);

    /* No breakpoint any more: the batch ended between the trap and now. */
    if (byte_at(site) != 0xcc)
        return 1;
    if (!b || !is_site(b, site))
        return 0;
    while (byte_at(site) == 0xcc && __atomic_load_n(&live.batch, __ATOMIC_SEQ_CST) == b) {
        if (SYS6(live.sys, SYS_futex, &live.done, FUTEX_WAIT_PRIVATE, done, &timeout, 0, 0) ==
            -ETIMEDOUT)
            adopt(b);
    }
    return 1;
}

/* Calls the application's action as if the kernel had delivered the signal. */
static void hand_on(int signal, struct patch_siginfo *info, ucontext_t *context)
{
    const struct rimf_sys *sys = live.sys;
    struct patch_action theirs = live.before;
    const struct patch_action none = {0};
    uint64_t mask;

    if (theirs.handler == SIG_IGNORE && info->code != TRAP_BY_KERNEL)
        return;
    if (theirs.handler == SIG_IGNORE || theirs.handler == SIG_DEFAULT) {
        /* The default action ends the process; the same siginfo goes into its core. */
        SYS6(sys, SYS_rt_sigaction, SIGTRAP, &none, 0, 8, 0, 0);
        SYS6(sys, SYS_rt_tgsigqueueinfo, SYS3(sys, SYS_getpid, 0, 0, 0),
             SYS3(sys, SYS_gettid, 0, 0, 0), SIGTRAP, info, 0, 0);
        return;
    }
    if (theirs.flags & FLAG_RESETHAND)
        live.before = none;
    memcpy(&mask, &context->uc_sigmask, sizeof(mask));
    mask |= theirs.mask;
    if (!(theirs.flags & FLAG_NODEFER))
        mask |= 1u << (SIGTRAP - 1);
    SYS6(sys, SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, &mask, 0, 8, 0, 0);
    ((void (*)(int, void *, void *))theirs.handler)(signal, info, context);
}

/* Somebody sent a SIGTRAP to the committing thread.  The application's handler could meet a breakpoint,
 * which only that thread can remove.  So the signal is sent again, and stays blocked until the commit is
 * over (patch_signals_back). */
static int put_off(struct patch_siginfo *info, ucontext_t *context)
{
    int32_t self = (int32_t)SYS3(live.sys, SYS_gettid, 0, 0, 0);

    if (!__atomic_load_n(&live.batch, __ATOMIC_SEQ_CST) || self != live.writer)
        return 0;
    context->uc_sigmask.__val[0] |= PATCH_SIGTRAP;
    SYS6(live.sys, SYS_rt_tgsigqueueinfo, SYS3(live.sys, SYS_getpid, 0, 0, 0), self, SIGTRAP, info,
         0, 0);
    return 1;
}

static void on_trap(int signal, struct patch_siginfo *info, ucontext_t *context)
{
    uintptr_t site = (uintptr_t)context->uc_mcontext.gregs[REG_RIP] - 1;
    int ours;

    if (info->code != TRAP_BY_KERNEL && put_off(info, context))
        return;
    __atomic_add_fetch(&live.users, 1, __ATOMIC_SEQ_CST);
    ours = info->code == TRAP_BY_KERNEL && wait_for(site);
    __atomic_sub_fetch(&live.users, 1, __ATOMIC_SEQ_CST);
    if (ours)
        context->uc_mcontext.gregs[REG_RIP] = (greg_t)site;
    else
        hand_on(signal, info, context);
}

/* ---- in the thread that commits ---- */

void patch_adopt(void)
{
    struct mvld_batch *b = __atomic_load_n(&live.batch, __ATOMIC_SEQ_CST);

    if (b)
        adopt(b);
}

/* Records the previous action; if that is ours, it had stayed instead of the default. */
static void note_before(const struct patch_action *was)
{
    if (was->handler != (void *)on_trap)
        live.before = *was;
}

static int install(struct mvld_batch *b)
{
    /* A handler of the application that ran on top of ours could meet a breakpoint with SIGTRAP blocked.
     * There is none for signals that are not blocked (patch_int3). */
    const struct patch_action ours = {(void *)on_trap,
                                FLAG_SIGINFO | FLAG_RESTORER | FLAG_ONSTACK,
                                (void *)patch_restorer, ~PATCH_SYNCHRONOUS};

    struct patch_action was;
    int r;

    live.sys = b->patcher->host.sys;
    live.writer = (int32_t)SYS3(live.sys, SYS_gettid, 0, 0, 0);
    /* Before ours is set, because a trap of the application could come between. */
    r = (int)SYS6(live.sys, SYS_rt_sigaction, SIGTRAP, 0, &was, 8, 0, 0);
    if (r)
        return r;
    note_before(&was);
    __atomic_store_n(&live.batch, b, __ATOMIC_SEQ_CST);
    r = (int)SYS6(live.sys, SYS_rt_sigaction, SIGTRAP, &ours, &was, 8, 0, 0);
    if (r == 0)
        note_before(&was);
    return r;
}

/* Waits for threads in the handler or on the way to it, then restores the action; but see the top for the
 * default.  Between the exception and its signal, with interrupts on, the kernel shows nothing: so no
 * thread may be seen in two looks, a moment apart. */
static void uninstall(struct rimf_patcher *p)
{
    const int64_t moment[2] = {0, 100000}; /* seconds, nanoseconds */
    struct patch_threads threads;
    struct patch_action was = {0};
    int quiet = 0;

    __atomic_store_n(&live.batch, NULL, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&live.done, 1, __ATOMIC_RELEASE);
    SYS3(live.sys, SYS_futex, &live.done, FUTEX_WAKE_PRIVATE, 0x7fffffff);
    for (int i = 0; i < 1000 && live.before.handler != SIG_DEFAULT; i++) {
        if (__atomic_load_n(&live.users, __ATOMIC_SEQ_CST) || patch_threads_look(p, &threads) ||
            threads.pending) {
            quiet = 0;
            SYS3(live.sys, SYS_sched_yield, 0, 0, 0);
        } else if (quiet++) {
            break;
        } else {
            SYS3(live.sys, SYS_nanosleep, moment, 0, 0);
        }
    }
    while (__atomic_load_n(&live.users, __ATOMIC_SEQ_CST)) /* they may read the batch */
        SYS3(live.sys, SYS_sched_yield, 0, 0, 0);
    if (live.before.handler == SIG_DEFAULT)
        return;
    for (int tries = 0; tries < 3; tries++) {
        if (SYS6(live.sys, SYS_rt_sigaction, SIGTRAP, &live.before, &was, 8, 0, 0) == 0)
            break;
    }
    if (was.handler != (void *)on_trap) /* the application has set another one meanwhile */
        SYS6(live.sys, SYS_rt_sigaction, SIGTRAP, &was, 0, 8, 0, 0);
}

enum step { BREAK, TAIL, FIRST };

/* One step for all sites, then sync. */
static int step(struct mvld_batch *b, enum step step, int back)
{
    static const uint8_t int3 = 0xcc;
    struct rimf_patcher *p = b->patcher;
    int r = 0, first = 0;

    for (size_t i = 0; i < b->n && (r == 0 || back); i++) {
        const struct mvld_patch *patch = patch_nth(b, i);
        const uint8_t *bytes = back ? patch->expect : patch->replace;
        size_t tail = step == TAIL, n = step == TAIL ? patch->length - 1u : 1u;
        if (patch->result || n == 0)
            continue;
        r = 1;
        for (int tries = 0; r && tries < 3; tries++)
            r = patch_mem_write(p, patch->address + tail, step == BREAK ? &int3 : bytes + tail, n);
        first = first ? first : r;
    }
    r = patch_sync_cores(p);
    if (r)
        r = patch_sync_cores(p);
    return first ? first : r;
}

static int protocol(struct mvld_batch *b)
{
    int reached = BREAK, r = step(b, BREAK, 0);

    if (r == 0) {
        reached = TAIL;
        r = step(b, TAIL, 0);
    }
    if (r == 0) {
        reached = FIRST;
        r = step(b, FIRST, 0);
    }
    if (r == 0)
        return 0;
    /* Undo by the same steps; if even that fails, by fresh pages. */
    if ((reached == FIRST && step(b, BREAK, 1)) ||
        (reached >= TAIL && step(b, TAIL, 1)) || step(b, FIRST, 1)) {
        if (patch_runs(b, 0) || patch_remap_runs(b, b->n_runs, 1))
            return patch_finish(b, r);
    }
    return r;
}

int patch_int3(struct mvld_batch *b)
{
    struct rimf_patcher *p = b->patcher;
    struct patch_threads threads;
    int r = patch_threads_look(p, &threads);

    /* A thread that starts, or is about to return from on_trap, blocks everything for a moment; a thread
     * that blocks intentionally continues to. */
    for (int tries = 0; r == 0 && threads.blocked && !threads.traced && tries < 64; tries++) {
        SYS3(p->host.sys, SYS_sched_yield, 0, 0, 0);
        r = patch_threads_look(p, &threads);
    }
    if (r)
        return r;
    if (threads.traced || threads.blocked) {
        patch_say(p, 0, "no breakpoints: %s", threads.traced ? "the process is traced"
                                                             : "a thread blocks SIGTRAP");
        return -EDEADLK;
    }
    if (!b->unentered &&
        patch_handlers_may_run(p->host.sys, PATCH_SYNCHRONOUS & ~PATCH_SIGTRAP)) {
        patch_say(p, 0, "no breakpoints: a handler of the program could run into one in the thread "
                        "that commits");
        return -EBUSY;
    }
    r = patch_sync_cores(p); /* first, to know that it works */
    if (r == 0)
        r = install(b);
    if (r) {
        __atomic_store_n(&live.batch, NULL, __ATOMIC_SEQ_CST);
        return r;
    }
    r = protocol(b);
    uninstall(p);
    return r;
}
