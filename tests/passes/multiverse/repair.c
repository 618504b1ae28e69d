/* SPDX-License-Identifier: MIT
 *
 * A bare fork copies a process at each system call of a commit, as it may when another
 * thread commits: the copy has half of the commit, a lock whose owner is not in it, and
 * must find out what its code really holds.  A failure means that a forked server runs
 * the wrong variant, or refuses every commit.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "own_sources.h"

#include "passes/multiverse/engine/engine.h"
#include "rimf/base/log.h"

static const struct rimf_log no_log = {.sys = &rimf_sys_kernel, .fd = -1};
static struct mv_engine *engine;
static long left = -1; /* system calls until the fork; -1: none */

const char *multiverse_error(void) { return ""; }
const char *multiverse_report(void) { return ""; }

static int apply(enum mv_action action, enum mv_scope scope, void *what)
{
    return mv_ops_apply(engine, action, scope, what, NULL);
}

static void in_the_copy(void)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    alarm(20);
    for (const struct caller *c = callers; c->name; c++) {
        int is = c->call();

        CHECK(is == 1000 || is == 1001 || is == 100 || is == 101, "(%s gives %d)", c->name, is);
    }
    for (int i = 0; i < 4; i++) {
        mode = !mode;
        CHECK(apply(MV_COMMIT, MV_ALL, NULL) >= 0);
        check_calls("committed", 1000 + mode, 1000 + mode);
    }
    mode = !mode;
    CHECK(apply(MV_COMMIT, MV_FUNCTION, decide) == 1);
    check_calls("one function", 1000 + mode, 1000 + mode);
    CHECK(apply(MV_REVERT, MV_ALL, NULL) == 1);
    check_calls("reverted", 100 + mode, 100 + mode);
    _exit(0);
}

static long forking(const struct rimf_sys *sys, long nr, long a, long b, long c, long d, long e,
                    long f)
{
    int status;
    pid_t child;

    (void)sys;
    if (left < 0 || left-- > 0)
        return rimf_syscall(nr, a, b, c, d, e, f);
    child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (!child)
        in_the_copy();
    CHECK(waitpid(child, &status, 0) == child && status == 0, "(before call %ld: status %x)", nr,
          (unsigned)status);
    return rimf_syscall(nr, a, b, c, d, e, f);
}

static void *park(void *unused)
{
    for (;;)
        pause();
    return unused;
}

/* 1: a copy was made. */
static int copied(long after, enum mv_action action, enum mv_scope scope)
{
    left = after;
    CHECK(apply(action, scope, scope == MV_FUNCTION ? decide : NULL) == 1);
    if (left >= 0)
        return left = -1, 0;
    return 1;
}

int main(void)
{
    static const struct rimf_sys sys = {forking};
    struct own_sources sources;
    struct rimf_change change;
    struct mvld_image *image;
    pthread_t thread;

    own_sources_read(&sources);
    CHECK(rimf_image_create(&sys, &no_log, &image) == 0);
    CHECK(rimf_image_update(image, sources.at, sources.n, &change) == 0);
    CHECK(mv_create(image, rimf_api(), &sys, &engine) == 0);
    CHECK(mv_added(engine, change.added, change.n_added) == 0);
    CHECK(pthread_create(&thread, NULL, park, NULL) == 0);
    for (int scope = 0; scope < 2; scope++) {
        enum mv_scope what = scope ? MV_FUNCTION : MV_ALL;
        long n, more = 1;

        for (n = 0; more; n++) {
            mode = n & 1;
            more = copied(n, MV_COMMIT, what);
            check_calls("in the original", 1000 + mode, 1000 + mode);
            mode = !mode; /* from one variant to the other */
            more |= copied(n, MV_COMMIT, what);
            check_calls("in the original", 1000 + mode, 1000 + mode);
            more |= copied(n, MV_REVERT, what);
            check_calls("in the original", 100 + mode, 100 + mode);
        }
        CHECK(n > 10, "(only %ld system calls)", n);
    }
    return 0;
}
