/* SPDX-License-Identifier: MIT
 *
 * library.c: code to be moved: a jump table, calls inside and out, a pointer to its
 * own code, data.
 */
#include <stddef.h>

static int counted;

__attribute__((noinline)) static int pick(int n)
{
    switch (n) {
    case 0: return 11;
    case 1: return counted++;
    case 2: return 7 + n;
    case 3: return counted * 3;
    case 4: return 5;
    case 5: return --counted;
    case 6: return counted ^ n;
    default: return -1;
    }
}

static int (*volatile const by_pointer)(int) = pick;

__attribute__((noinline)) static int sum(int n)
{
    int total = 0;

    for (int i = 0; i < n; i++)
        total += pick(i % 8) + by_pointer(i % 7);
    return total;
}

/* What is the same whenever it is asked. */
int moved_sum(int n)
{
    counted = 3;
    return sum(n);
}

/* What `visit` gives, called from here, one more, and not by a jump. */
int moved_call(int (*visit)(void *), void *cookie)
{
    return visit(cookie) + 1;
}
