/* SPDX-License-Identifier: MIT
 *
 * A variant of `outer` is nothing but a call of `inner`, which a commit may take out.
 */
#include <multiverse.h>
#include <stdio.h>

__attribute__((multiverse("values", 0, 1))) int calls, counts;
static int n;

__attribute__((multiverse)) void inner(void)
{
    if (counts)
        n++;
}

__attribute__((multiverse)) void outer(void)
{
    if (calls)
        inner();
}

static void commit(int calls_now, int counts_now)
{
    calls = calls_now;
    counts = counts_now;
    multiverse_commit();
}

int main(void)
{
    commit(1, 0); /* outer's variant, which calls inner, becomes empty */
    commit(0, 0);
    commit(1, 0); /* and is bound anew */
    commit(1, 1);
    outer();
    printf("counted %d\n", n);
    return 0;
}
