/* SPDX-License-Identifier: MIT
 *
 * patch_stress METHOD COMMITS: threads call through sites in all bad places while
 * another one changes them COMMITS times.  A failure means that a running thread
 * can execute half-written code, that a call made after a commit ran the code
 * from before it, or that a page was writable and executable for a moment (seen
 * by a second process that reads /proc/PID/maps all the while).
 *
 * With "mprotect" there are no threads; a timer's signal handler calls instead.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "sites.h"

enum { CALLERS = 3 };

/* Odd while a commit is under way; state_of[stage / 2 % 3] holds when even. */
static unsigned stage;
static int stop, started;
static unsigned long calls, settled;

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
        }
    }
}

static void *caller(void *unused)
{
    unsigned long n_calls, n_settled;

    __atomic_add_fetch(&started, 1, __ATOMIC_SEQ_CST);
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

static void on_alarm(int signal)
{
    (void)signal;
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

/* Looks until it is killed or sees the worst; exits 3 then. */
static pid_t watch(void)
{
    pid_t parent = getpid(), child = fork();
    char path[64], line[4400], prot[5];

    CHECK(child >= 0);
    if (child)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    snprintf(path, sizeof(path), "/proc/%d/maps", (int)parent);
    for (;;) {
        FILE *maps = fopen(path, "r");
        while (maps && fgets(line, sizeof(line), maps)) {
            if (sscanf(line, "%*x-%*x %4s", prot) == 1 && prot[1] == 'w' && prot[2] == 'x') {
                fprintf(stderr, "writable and executable: %s", line);
                _exit(3);
            }
        }
        if (maps)
            fclose(maps);
        usleep(200);
    }
}

int main(int argc, char **argv)
{
    struct itimerval often = {{0, 500}, {0, 500}};
    struct mvld_patch_report report = {0, 0, NULL};
    struct patch_text t;
    pthread_t threads[CALLERS];
    long commits = argc > 2 ? atol(argv[2]) : 1000, others = 0;
    const char *method = argc > 1 ? argv[1] : "auto";
    int alone = !strcmp(method, "mprotect");
    int status = 0;
    pid_t watcher = watch();

    patch_sites_open(&t);
    CHECK(rimf_patcher_set_method(t.patcher, method) == 0, "(%s)", t.sentence);
    if (alone) {
        signal(SIGALRM, on_alarm);
        setitimer(ITIMER_REAL, &often, NULL);
    }
    for (int i = 0; !alone && i < CALLERS; i++)
        CHECK(pthread_create(&threads[i], NULL, caller, NULL) == 0);
    while (!alone && __atomic_load_n(&started, __ATOMIC_SEQ_CST) < CALLERS)
        usleep(100); /* libc starts threads with all signals blocked */
    for (long i = 0; i < commits; i++) {
        struct mvld_batch *b = patch_sites_batch(t.patcher, state_at(stage), state_at(stage + 2));
        int r;
        __atomic_add_fetch(&stage, 1, __ATOMIC_SEQ_CST);
        r = rimf_patch_commit(b, &report);
        CHECK(r == 0 && report.refused == 0, "(commit %ld: %d, %zu refused, %s)", i, r,
              report.refused, t.sentence);
        __atomic_add_fetch(&stage, 1, __ATOMIC_SEQ_CST);
        rimf_patch_end(b);
        if (alone || i % 50 == 0)
            let_call(alone);
        others += strcmp(report.method, method) != 0;
    }
    /* A caller that is preempted inside the handler of a breakpoint blocks all signals: then
     * the engine waits a while and takes another method, rightly. */
    CHECK(!strcmp(method, "auto") || others <= commits / 100,
          "(%ld of %ld commits by other methods)", others, commits);
    stop = 1;
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    for (int i = 0; !alone && i < CALLERS; i++)
        pthread_join(threads[i], NULL);
    CHECK(waitpid(watcher, &status, WNOHANG) == 0, "(the watcher ended: %x)", status);
    kill(watcher, SIGKILL);
    patch_text_all_rx(&t);
    printf("%s: %ld commits, %lu calls, %lu of them settled\n", report.method, commits, calls,
           settled);
    CHECK(calls > 0 && settled > 0, "(nobody called)");
    rimf_patcher_destroy(t.patcher);
    CHECK(t.blocks == 0);
    return 0;
}
