/* SPDX-License-Identifier: MIT
 *
 * One program of three modules: switches in the program and in a library,
 * variation points in both, call sites in a third.  A failure means that a
 * variation point is not one function of the whole process.
 */
#include "../../descriptors.h"
#include "modules.h"
#include <multiverse.h>

bool in_program;
int local(int x) { return in_library == 7 ? x + 100 : x + 200; }

static int expected(int x, bool p, int l)
{
    int d = x + (p ? 1 : 0) + (l == 7 ? 10 : 0);
    return d * 2 + (l == 7 ? x + 100 : x + 200);
}

int main(void)
{
    descriptors_read();
    CHECK(find_function((void *)decide) && find_function((void *)local));
    CHECK(find_function((void *)decide)->n_sites >= 2 && find_function((void *)sum)->n_sites >= 1);
    hook = plus;
    for (int l = 6; l < 9; l++)
        for (int p = 0; p < 2; p++) {
            in_program = p;
            in_library = l;
            CHECK(multiverse_commit() >= 0);
            CHECK(calls(3) == expected(3, p, l) && calls_tail(4) == (p ? 4 : -4));
            CHECK(decide(3) == 3 + p + (l == 7 ? 10 : 0));
            in_program = !p; /* nothing changes until the next commit */
            CHECK(calls_tail(4) == (p ? 4 : -4));
        }
    CHECK(calls_hook(1) == 3);
    hook = minus;
    CHECK(calls_hook(1) == 3); /* still plus() */
    CHECK(multiverse_commit_fn(&hook) == 1);
    CHECK(calls_hook(1) == -3);
    CHECK(multiverse_revert() > 0);
    in_program = false; in_library = 7;
    CHECK(calls(3) == expected(3, false, 7));
    return 0;
}
