/* SPDX-License-Identifier: MIT
 *
 * A commit needs no signal of the program: threads may block all of them.  And a handler that runs in the
 * middle of a commit cannot commit.  A failure means that a program whose threads block signals is left as it
 * is, or that one which commits in a handler hangs.
 */
#include <pthread.h>
#include <signal.h>

#include "sites.h"

static struct patch_text t;
static int stop, started, state = 1;

static void commit_next(void)
{
    struct mvld_patch_report report;

    CHECK(patch_sites_commit(t.patcher, &state, &report) == 0 && report.refused == 0, "(%s)", t.sentence);
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

static void thread_that_blocks_signals(void)
{
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, blocking_caller, NULL) == 0);
    while (!__atomic_load_n(&started, __ATOMIC_SEQ_CST))
        usleep(100);
    for (int i = 0; i < 50; i++)
        commit_next();
    __atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
    pthread_join(thread, NULL);
}

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

static void commit_in_a_commit(void)
{
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
    thread_that_blocks_signals();
    commit_in_a_commit();
    patch_text_all_rx(&t);
    return 0;
}
