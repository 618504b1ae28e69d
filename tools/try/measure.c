/* SPDX-License-Identifier: MIT
 *
 * try/measure.c: runs a program by several methods, and compares them.
 *
 * The machine's speed drifts, so methods are compared within a round of random order; the median of
 * these ratios is reported.  Its interval is computed from ranks (binomial distribution): of n
 * ratios the k-th smallest and the k-th largest enclose the true median in 95 of 100 cases,
 * whatever the distribution of times.
 */
#include "tools/try/try.h"
#include "tools/common/tools.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LONGEST 10 /* seconds, limit of a run */
#define FEWEST 6u  /* rounds: fewer give no 95 % interval */
#define PATIENCE 60 /* seconds, for all runs until these rounds are done */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double seconds_of(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec / 1e6; }

int try_enter(const struct try_place *p)
{
    return p->mounts >= 0 && (setns(p->mounts, CLONE_NEWNS) || fchdir(p->root) || chroot(".") || fchdir(p->folder))
               ? -1 : 0;
}

static void become(const struct try_way *way)
{
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++)
        dup2(null, fd);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* children end when we are interrupted */
    if (try_enter(&way->place))
        _exit(127);
    execve(way->argv[0], way->argv, way->environment);
    _exit(127);
}

static pid_t running;

static void end_it(int signal)
{
    (void)signal;
    kill(-running, SIGKILL);
}

/* Returns the status; -1: it could not be started, or did not end in time. */
static int run_once(const struct try_way *way, struct sample *s)
{
    struct rusage usage;
    int status;
    double start = now();
    pid_t pid = fork();

    if (pid < 0)
        return -1;
    if (!pid)
        become(way);
    setpgid(pid, pid);
    running = pid;
    alarm(LONGEST);
    while (wait4(pid, &status, 0, &usage) < 0)
        if (errno != EINTR)
            return -1;
    int in_time = alarm(0) != 0;
    s->figure[TRY_WALL] = now() - start;
    s->figure[TRY_CPU] = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
    s->figure[TRY_MEMORY] = (double)usage.ru_maxrss;
    return in_time ? status : -1;
}

static void shuffle(size_t *order, size_t n)
{
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    for (size_t i = n; i-- > 1;) {
        size_t k = (size_t)random() % (i + 1), was = order[i];
        order[i] = order[k];
        order[k] = was;
    }
}

const char *try_plainly(struct try_runs *r)
{
    struct sample first;

    sigaction(SIGALRM, &(struct sigaction){.sa_handler = end_it}, NULL);
    r->status = run_once(&r->ways[0], &first);
    r->first = first.figure[TRY_WALL];
    return r->status >= 0 ? NULL : must_print("it did not end within %d seconds: name arguments with which it does, "
                                              "such as --version", LONGEST);
}

/* The first run of each method fills caches, and is not counted. */
static void warm_up(struct try_runs *r)
{
    struct sample ignored;
    for (size_t i = 1; i < r->n_ways; i++)
        if (!r->ways[i].wrong && run_once(&r->ways[i], &ignored) != r->status)
            r->ways[i].wrong = "it ends with another status than plainly";
}

const char *try_measure(struct try_runs *r, double seconds, size_t most)
{
    double start = now(), end = start + seconds, patience = start - r->first + PATIENCE, latest = end > patience ? end : patience;
    size_t order[16];

    srandom((unsigned)now() ^ (unsigned)getpid());
    warm_up(r);
    double round = (now() - start) * (double)r->n_ways / (double)(r->n_ways - 1); /* as long as one may take */
    for (size_t i = 0; i < r->n_ways; i++)
        r->ways[i].samples = must_alloc(most, sizeof(struct sample));
    while (r->n_rounds < most && (r->n_rounds < FEWEST || now() < end) && now() + round < latest) {
        double began = now();
        shuffle(order, r->n_ways);
        for (size_t k = 0; k < r->n_ways; k++) {
            struct try_way *way = &r->ways[order[k]];
            if (!way->wrong && run_once(way, &way->samples[r->n_rounds]) != r->status)
                way->wrong = "it ended with another status than plainly";
        }
        r->n_rounds++;
        round = now() - began;
        progress("%zu rounds", r->n_rounds);
    }
    progress(NULL);
    if (r->ways[0].wrong)
        return "it ends with one status or another, so that runs cannot be compared";
    if (r->n_rounds < FEWEST)
        return must_print("%zu rounds are too few to tell: name arguments with which it ends sooner, or more --seconds", r->n_rounds);
    return NULL;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double *sorted_figures(const struct try_runs *r, size_t way, int figure, int relative)
{
    double *v = must_alloc(r->n_rounds, sizeof *v);
    for (size_t i = 0; i < r->n_rounds; i++) {
        double plain = r->ways[0].samples[i].figure[figure];
        v[i] = r->ways[way].samples[i].figure[figure] / (relative && plain > 0 ? plain : 1);
    }
    qsort(v, r->n_rounds, sizeof *v, compare_doubles);
    return v;
}

double try_median(const struct try_runs *r, size_t way, int figure)
{
    double *v = sorted_figures(r, way, figure, 0), median = v[r->n_rounds / 2];
    free(v);
    return median;
}

struct ratio try_ratio(const struct try_runs *r, size_t way, int figure)
{
    double *v = sorted_figures(r, way, figure, 1), n = (double)r->n_rounds, between;
    size_t k = 0;

    /* The rank from 0: (n - 1.96 sqrt(n)) / 2 - 1, rounded down; without libm, which each `mvld run` would load. */
    while ((between = n - 2 * (double)(k + 2)) > 0 && between * between >= 1.96 * 1.96 * n)
        k++;
    struct ratio ratio = {v[k], v[r->n_rounds / 2], v[r->n_rounds - 1 - k]};
    free(v);
    return ratio;
}
