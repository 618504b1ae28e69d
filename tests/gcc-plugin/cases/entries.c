/* SPDX-License-Identifier: MIT
 *
 * What a function begins with does not matter: a call, a loop head, nothing at
 * all, in any of the first bytes.  A failure means that the entry jump of a
 * commit would overwrite a call site or the target of a branch.
 * compilers: gcc g++
 */
#include "../descriptors.h"
#include <multiverse.h>
#define MV __attribute__((multiverse))
MV int sw;
int log_;
MV __attribute__((noinline)) int leaf(int x) { return sw ? x + 1 : x; }
/* The first instruction is a tail call of another variation point. */
MV int begins_with_call(int x) { return leaf(x); }
MV int begins_with_two(int x) { leaf(x); return leaf(x + 1); }
/* The first instruction is the head of a loop. */
MV void begins_with_loop(volatile int *p) { while (*p) { *p -= 1; if (sw) log_++; } }
MV void begins_with_goto(int *p) { again: if (--*p > 0) goto again; log_ += sw; }
MV int recursion(int n) { return n <= 0 ? sw : recursion(n - 1); }
MV void empty(void) {}
MV int only_return(void) { return sw; }
MV __attribute__((noreturn)) void leaves(void) { exit(leaf(0) + sw); }

int main(void)
{
    descriptors_read();
    for (int i = 0; i < 2; i++) {
        sw = i;
        CHECK(multiverse_commit() >= 0);
        sw = 5 - 5 * i; /* has no effect now */
        CHECK(begins_with_call(3) == 3 + i);
        CHECK(begins_with_two(3) == 4 + i);
        int n = 4; log_ = 0;
        begins_with_loop(&n);
        CHECK(n == 0 && log_ == (i ? 4 : 0));
        n = 6; begins_with_goto(&n); CHECK(n == 0);
        CHECK(recursion(5) == i);
        CHECK(only_return() == i);
        empty();
        int (*volatile p)(int) = leaf; /* through the entry */
        CHECK(p(1) == 1 + i);
    }
    sw = 0;
    CHECK(multiverse_revert() > 0);
    CHECK(leaf(1) == 1);
    sw = 9;
    CHECK(only_return() == 9 && recursion(3) == 9);
    CHECK(find_named("empty")->n_variants == 0);
    sw = 0;
    leaves();
}
