/* SPDX-License-Identifier: MIT
 *
 * patch_fork METHOD: a thread commits without pause, another forks.  Each child
 * must find whole code, be able to commit, and leave its parent's code alone.  A
 * failure means that a server that forks workers gets ones that crash or hang.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "patch_sites.h"

enum { FORKS = 150 };

static struct patch_text t;
static int state = 1, stop;

static int commit_next(void)
{
    int next = state % PATCH_STATES + 1;
    struct mvld_batch *b = patch_sites_batch(t.patcher, state, next);
    struct mvld_patch_report report;
    int r = rimf_patch_commit(b, &report);

    rimf_patch_end(b);
    if (r == 0 && report.refused == 0)
        state = next;
    return r ? r : (int)report.refused;
}

static void *committer(void *unused)
{
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
        CHECK(commit_next() == 0, "(%s)", t.sentence);
    return unused;
}

static void prepare(void) { rimf_patcher_fork_prepare(t.patcher); }
static void parent(void) { rimf_patcher_fork_parent(t.patcher); }
static void child(void) { rimf_patcher_fork_child(t.patcher); }

/* All sites agree; then whatever the parent was about to do, this process goes on. */
static int whole(void)
{
    int seen = patch_sites_table[0].caller();

    alarm(10);
    for (size_t i = 0; i < PATCH_SITES; i++) {
        if (patch_sites_table[i].caller() != seen)
            return 2;
    }
    state = seen;
    for (int i = 0; i < PATCH_STATES; i++) {
        if (commit_next() || patch_sites_table[PATCH_SITES - 1].caller() != state)
            return 3;
    }
    return 0;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    int status;

    patch_sites_open(&t);
    CHECK(rimf_patcher_set_method(t.patcher, argc > 1 ? argv[1] : "auto") == 0);
    CHECK(pthread_atfork(prepare, parent, child) == 0);
    CHECK(pthread_create(&thread, NULL, committer, NULL) == 0);
    for (int i = 0; i < FORKS; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0)
            _exit(whole());
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK(status == 0, "(child %d: %x)", i, status);
    }
    stop = 1;
    pthread_join(thread, NULL);
    for (size_t i = 0; i < PATCH_SITES; i++)
        CHECK(patch_sites_table[i].caller() == state);
    patch_text_all_rx(&t);
    return 0;
}
