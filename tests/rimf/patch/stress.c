/* SPDX-License-Identifier: MIT
 *
 * patch_stress METHOD COMMITS: threads call through sites in all bad places while
 * another one changes them COMMITS times.  A failure means that a running thread
 * can execute half-written code, or that a call made after a commit ran the code
 * from before it; or that a page was writable and executable for a moment (support.h
 * looks at each system call of the engine).
 *
 * With "remap" callers must get through, in some of the commits before each system call.  The others need that
 * nothing else runs: a signal's handler calls instead, and the signal is raised before each system call of a
 * commit.
 */
#include <pthread.h>
#include <signal.h>

#include "sites.h"

enum { CALLERS = 3, AT_REST = 50, WATCHED = 1000 /* one commit of so many */ };

/* Odd while a commit is under way; state_of[stage / 2 % 3] holds when even. */
static unsigned stage;
static int stop, started, go;
static unsigned long calls, settled, during; /* during: calls that began and ended in one commit */

static int state_at(unsigned s)
{
    return 1 + (int)(s / 2 % PATCH_STATES);
}

static void call_all(unsigned long *n_calls, unsigned long *n_settled)
{
    for (size_t i = 0; i < PATCH_SITES; i++) {
        unsigned before = __atomic_load_n(&stage, __ATOMIC_SEQ_CST);
        int value = patch_sites_table[i].caller();
        unsigned after = __atomic_load_n(&stage, __ATOMIC_SEQ_CST);
        CHECK(value >= 1 && value <= PATCH_STATES, "(site %zu gave %d)", i, value);
        ++*n_calls;
        if (before == after && before % 2 == 0) {
            CHECK(value == state_at(before), "(site %zu gave %d after a commit to %d)", i, value,
                  state_at(before));
            ++*n_settled;
        } else if (before == after) {
            __atomic_add_fetch(&during, 1, __ATOMIC_RELAXED);
        }
    }
}

static void *caller(void *unused)
{
    unsigned long n_calls, n_settled;

    __atomic_add_fetch(&started, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&go, __ATOMIC_SEQ_CST))
        usleep(1000);
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        n_calls = n_settled = 0;
        for (int i = 0; i < 64; i++)
            call_all(&n_calls, &n_settled);
        sched_yield(); /* there are more threads than CPUs: let the commits go on */
        __atomic_add_fetch(&calls, n_calls, __ATOMIC_RELAXED);
        __atomic_add_fetch(&settled, n_settled, __ATOMIC_RELAXED);
    }
    return unused;
}

static void on_alarm(int number)
{
    (void)number;
    call_all(&calls, &settled);
}

/* Between two commits: somebody must see the new code, without a commit around. */
static void let_call(int alone)
{
    unsigned long seen = __atomic_load_n(&settled, __ATOMIC_RELAXED);

    if (alone)
        raise(SIGALRM);
    else
        while (__atomic_load_n(&settled, __ATOMIC_RELAXED) == seen)
            sched_yield();
}

/* Before each system call of a commit: the program goes on there. */
static void signal_at_each(struct patch_kernel *k, long nr)
{
    (void)k, (void)nr;
    raise(SIGALRM); /* at the latest when the commit no longer blocks it */
}

static void wait_at_each(struct patch_kernel *k, long nr)
{
    unsigned long seen = __atomic_load_n(&during, __ATOMIC_RELAXED);

    (void)k, (void)nr;
    while (__atomic_load_n(&during, __ATOMIC_RELAXED) == seen)
        sched_yield();
}

static struct patch_text t;

/* To the next state, and the name of the method. */
static const char *commit(long i)
{
    struct mvld_batch *b = patch_sites_batch(t.patcher, state_at(stage), state_at(stage + 2));
    struct mvld_patch_report report = {0, 0, NULL};
    int r;

    __atomic_add_fetch(&stage, 1, __ATOMIC_SEQ_CST);
    r = rimf_patch_commit(b, &report);
    CHECK(r == 0 && report.refused == 0, "(commit %ld: %d, %zu refused, %s)", i, r, report.refused,
          t.sentence);
    __atomic_add_fetch(&stage, 1, __ATOMIC_SEQ_CST);
    rimf_patch_end(b);
    return report.method;
}

static void start_callers(pthread_t *threads, const char *method)
{
    for (int i = 0; i < CALLERS; i++)
        CHECK(pthread_create(&threads[i], NULL, caller, NULL) == 0);
    while (__atomic_load_n(&started, __ATOMIC_SEQ_CST) < CALLERS)
        usleep(100); /* libc starts threads with all signals blocked */
    for (long i = 0; i < AT_REST; i++) /* while nobody calls, nothing is in the way of the method */
        CHECK_STR(commit(i), method);
    __atomic_store_n(&go, 1, __ATOMIC_SEQ_CST);
}

int main(int argc, char **argv)
{
    pthread_t threads[CALLERS];
    const char *method = argc > 1 ? argv[1] : "";
    long commits = argc > 2 ? atol(argv[2]) : 1000;
    int alone = strcmp(method, "remap") != 0;

    patch_sites_open(&t);
    CHECK(rimf_patcher_set_method(t.patcher, method) == 0, "(%s)", t.sentence);
    if (alone) {
        signal(SIGALRM, on_alarm);
        t.kernel.before = signal_at_each;
    } else {
        start_callers(threads, method);
    }
    for (long i = 0; i < commits; i++) {
        if (!alone)
            t.kernel.before = i % WATCHED ? NULL : wait_at_each;
        CHECK_STR(commit(i), method);
        if (alone || i % 50 == 0)
            let_call(alone);
    }
    t.kernel.before = NULL;
    stop = 1;
    for (int i = 0; !alone && i < CALLERS; i++)
        pthread_join(threads[i], NULL);
    patch_text_all_rx(&t);
    printf("%s: %ld commits, %lu calls, %lu of them settled, %lu in a commit\n", method, commits, calls, settled,
           during);
    CHECK(calls > 0 && settled > 0 && (alone || during > 0), "(nobody called)");
    CHECK(t.kernel.executable >= (strcmp(method, "selfmem") ? commits : 0), "(whose rights were looked at?)");
    rimf_patcher_destroy(t.patcher);
    CHECK(t.blocks == 0);
    return 0;
}
