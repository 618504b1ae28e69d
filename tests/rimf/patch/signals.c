/* SPDX-License-Identifier: MIT
 *
 * Breakpoints are the engine's for the time of a batch only, and the application
 * must not notice: threads that block SIGTRAP, handlers of its own, int3 of its
 * own.  A failure means that a program with a SIGTRAP handler, a crash reporter
 * or blocked signals dies or loses signals during a commit.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "sites.h"

static struct patch_text t;
static int stop, started, state = 1;
static unsigned long own_traps, sent_traps;

static const char *commit_next(void)
{
    static struct mvld_patch_report report;
    int next = state % PATCH_STATES + 1;
    struct mvld_batch *b = patch_sites_batch(t.patcher, state, next);

    CHECK(rimf_patch_commit(b, &report) == 0, "(%s)", t.sentence);
    CHECK(report.refused == 0);
    rimf_patch_end(b);
    state = next;
    return report.method;
}

static void call_sites(void)
{
    for (size_t i = 0; i < PATCH_SITES; i++) {
        int value = patch_sites_table[i].caller();
        CHECK(value >= 1 && value <= PATCH_STATES);
    }
}

static void *blocking_caller(void *unused)
{
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    __atomic_store_n(&started, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
        call_sites();
    return unused;
}

static void start(pthread_t *thread, void *(*run)(void *))
{
    stop = started = 0;
    CHECK(pthread_create(thread, NULL, run, NULL) == 0);
    while (!__atomic_load_n(&started, __ATOMIC_SEQ_CST))
        usleep(100);
}

static void end(pthread_t thread)
{
    __atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
    pthread_join(thread, NULL);
}

static void thread_that_blocks_sigtrap(void)
{
    pthread_t thread;
    struct mvld_batch *b;

    start(&thread, blocking_caller);
    for (int i = 0; i < 50; i++)
        CHECK(!strcmp(commit_next(), "remap"));
    /* With no other way left the batch is refused whole. */
    b = patch_sites_batch(t.patcher, state, state % PATCH_STATES + 1);
    t.kernel.fail_number = SYS_mmap;
    t.kernel.fail_from = 1;
    t.kernel.error = -EPERM;
    CHECK(rimf_patch_commit(b, NULL) < 0);
    t.kernel.fail_from = 0;
    t.kernel.fail_number = -1;
    rimf_patch_end(b);
    for (size_t i = 0; i < PATCH_SITES; i++)
        CHECK(patch_sites_table[i].caller() == state);
    end(thread);
}

static void on_trap(int signal, siginfo_t *info, void *context)
{
    sigset_t now;

    (void)context;
    CHECK(signal == SIGTRAP);
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    CHECK(sigismember(&now, SIGUSR2) && sigismember(&now, SIGTRAP) && !sigismember(&now, SIGHUP));
    if (info->si_code == SI_TKILL)
        sent_traps++;
    else
        own_traps++;
}

static unsigned long trapped, sent;

static void *trapping_caller(void *unused)
{
    __atomic_store_n(&started, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        __asm__ volatile("int3");
        trapped++;
        pthread_kill(pthread_self(), SIGTRAP);
        sent++;
        call_sites();
    }
    return unused;
}

/* Every trap of the application reaches its handler, under its mask, and the
 * action is bit for bit what it was. */
static void handler_of_the_application(void)
{
    struct sigaction action, before, after;
    pthread_t thread;

    memset(&action, 0, sizeof(action));
    action.sa_sigaction = on_trap;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaddset(&action.sa_mask, SIGUSR2);
    CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
    CHECK(sigaction(SIGTRAP, NULL, &before) == 0);
    start(&thread, trapping_caller);
    for (int i = 0, used = 0; used < 300; i++) {
        used += !strcmp(commit_next(), "selfmem"); /* a thread inside its handler: remap */
        CHECK(i < 30000, "(breakpoints were used only %d times)", used);
    }
    end(thread);
    CHECK(trapped > 0 && own_traps == trapped, "(%lu of %lu)", own_traps, trapped);
    CHECK(sent > 0 && sent_traps == sent, "(%lu of %lu)", sent_traps, sent);
    CHECK(sigaction(SIGTRAP, NULL, &after) == 0);
    CHECK(before.sa_sigaction == after.sa_sigaction && before.sa_flags == after.sa_flags &&
          !memcmp(&before.sa_mask, &after.sa_mask, 8 /* what the kernel keeps */) &&
          before.sa_restorer == after.sa_restorer);
    signal(SIGTRAP, SIG_DFL);
}

static void *late_int3(void *unused)
{
    __atomic_store_n(&started, 1, __ATOMIC_SEQ_CST);
    usleep(20000);
    __asm__ volatile("int3");
    return unused;
}

/* Without a handler an int3 of the application ends it, as ever. */
static void default_action(void)
{
    pid_t child = fork();
    pthread_t thread;
    int status;

    if (child == 0) {
        start(&thread, late_int3);
        for (;;)
            commit_next();
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTRAP, "(%x)", status);
}

/* ---- a commit inside a commit ---- */

static struct mvld_batch *inner;
static int inner_result, inner_tried;

static void commit_again(struct patch_kernel *k, long nr)
{
    if (nr != SYS_mprotect || inner_tried)
        return;
    inner_tried = 1;
    k->before = NULL;
    inner_result = rimf_patch_commit(inner, NULL);
    CHECK(rimf_patch_at(inner, 0)->result == -EDEADLK);
}

static void re_entry(void)
{
    CHECK(rimf_patcher_set_method(t.patcher, "auto") == 0);
    inner = patch_sites_batch(t.patcher, state, state % PATCH_STATES + 1);
    t.kernel.before = commit_again;
    commit_next();
    CHECK(inner_tried && inner_result == -EDEADLK);
    rimf_patch_end(inner);
    commit_next();
    for (size_t i = 0; i < PATCH_SITES; i++)
        CHECK(patch_sites_table[i].caller() == state);
}

int main(void)
{
    patch_sites_open(&t);
    CHECK(rimf_patcher_set_method(t.patcher, "selfmem") == 0, "(%s)", t.sentence);
    thread_that_blocks_sigtrap();
    handler_of_the_application();
    default_action();
    re_entry();
    patch_text_all_rx(&t);
    return 0;
}
