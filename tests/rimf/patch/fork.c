/* SPDX-License-Identifier: MIT
 *
 * patch_fork: a thread commits without pause, another forks.  Each child must find
 * whole sites, whichever moment of a batch was copied, be able to commit, and leave its
 * parent's code alone.  A failure means that a server that forks workers gets ones that
 * crash or hang.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "sites.h"

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

/* Any mixture of states will do, but no lock that nobody releases. */
static int whole_sites(int commit_first)
{
    struct mvld_patch_report report;
    struct mvld_batch *b = rimf_patcher_begin(t.patcher);
    uint8_t old[5], new[5];

    alarm(10);
    for (int i = 0; i < 2; i++) { /* either ends a batch of which this process has a copy */
        if (commit_first == i)
            for (size_t site = 0; site < PATCH_SITES; site++)
                patch_sites_table[site].caller();
        else if (rimf_patch_commit(b, NULL))
            return 4;
    }
    for (size_t i = 0; i < PATCH_SITES; i++) {
        uint8_t *site = patch_sites_table[i].site;
        int seen = patch_sites_table[i].caller();
        if (seen < 1 || seen > PATCH_STATES)
            return 5;
        patch_sites_encode(site, seen, old);
        patch_sites_encode(site, 1, new);
        rimf_patch_add(b, (uintptr_t)site, old, new, 5);
    }
    if (rimf_patch_commit(b, &report) || report.refused)
        return 6;
    for (size_t i = 0; i < PATCH_SITES; i++) {
        if (patch_sites_table[i].caller() != 1)
            return 7;
    }
    return 0;
}

int main(void)
{
    pthread_t thread;
    int status;

    patch_sites_open(&t);
    CHECK(pthread_create(&thread, NULL, committer, NULL) == 0);
    for (int i = 0; i < FORKS; i++) {
        pid_t pid = i & 2 ? (pid_t)syscall(SYS_fork) : fork();
        CHECK(pid >= 0);
        if (pid == 0)
            _exit(whole_sites(i & 1));
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
