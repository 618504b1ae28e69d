// SPDX-License-Identifier: MIT
#include "cxx.h"

#include <cstdio>
#include <cstdlib>

USE(from_main, 300)

static void check(const char *who, const Results &r, int l, int number, int line)
{
    bool good = r.inlined == 40 + l && r.scaled_int == (l == 1 ? 30 : l == 2 ? 60 : 3) &&
                r.scaled_double == (l == 1 ? 5 : l == 2 ? 10 : 0.5) && r.stepped == 5 + 2 * l &&
                r.own == 1000 + (l == 1 ? 2 * number : l == 2 ? -2 * number : 0) &&
                r.thrown == (l == 2 ? -1 : l == 1 ? 108 : 7) && r.destroyed == 1;
    if (good)
        return;
    printf("line %d: %s, level %d: %d %d %g %d %d %d %d\n%s%s\n", line, who, l, r.inlined,
           r.scaled_int, r.scaled_double, r.stepped, r.own, r.thrown, r.destroyed,
           multiverse_error(), multiverse_report());
    exit(1);
}

static void check_all(int l, int line)
{
    check("main", from_main(), l, 300, line);
    check("a", from_a(), l, 100, line);
    check("b", from_b(), l, 200, line);
}

// thrower, between, three times own, and in each object shared, scaled<int>,
// scaled<double>, step: the dynamic linker uses one of each, all are bound.
int main(int argc, char **)
{
    int expected = argc > 1 ? 9 : 17;
    multiverse_revert();
    for (int l = 0; l < 3; l++) {
        level = l;
        check_all(l, __LINE__);
    }
    for (int i = 0; i < 12; i++) {
        int now = i % 3;
        level = now;
        int n = multiverse_commit();
        if (n < 0 || (i == 0 && n != expected)) {
            printf("commit: %d, %d expected\n%s%s\n", n, expected, multiverse_error(),
                   multiverse_report());
            return 2;
        }
        level = (now + 1) % 3;
        check_all(now, __LINE__);
        if (i % 4 == 3 && multiverse_revert() != expected)
            return 3;
        if (i % 4 == 3)
            check_all(level, __LINE__);
    }
    return 0;
}
