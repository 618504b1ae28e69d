/* SPDX-License-Identifier: MIT
 *
 * Tail calls at each distance from a boundary of 32 bytes, where the assembler moves jumps away from it, so that what
 * was padded before is not where it was.  A call that is then no site follows commits by the entry.
 * only: -O2 -fPIE -pie -Wa,-mbranches-within-32B-boundaries
 */
#include <multiverse.h>
#include <stdio.h>

__attribute__((multiverse)) int mode;
__attribute__((multiverse, noinline)) int value(int x)
{
    return mode ? x * 3 : x + 1;
}

#define CALLER(n)                                                     \
    __attribute__((noinline, aligned(32))) int caller_##n(int x)      \
    {                                                                 \
        __asm__ volatile(".skip " #n ", 0x90");                       \
        return value(x + 1);                                          \
    }
#define EACH(what) what(0) what(1) what(2) what(3) what(4) what(5) what(6) what(7) what(8) what(9) what(10) what(11)    \
    what(12) what(13) what(14) what(15) what(16) what(17) what(18) what(19) what(20) what(21) what(22) what(23) what(24) \
    what(25) what(26) what(27) what(28) what(29) what(30) what(31)
EACH(CALLER)
#define NAME(n) caller_##n,
static int (*const callers[])(int) = {EACH(NAME)};

static int wrong(int x, int expected)
{
    int n = 0;

    for (unsigned i = 0; i < sizeof callers / sizeof *callers; i++)
        n += callers[i](x) != expected;
    return n;
}

int main(void)
{
    int n = wrong(4, 6);

    for (mode = 1; mode >= 0; mode--) {
        if (multiverse_commit() < 0)
            return puts(multiverse_error()), 1;
        n += wrong(4, mode ? 15 : 6);
    }
    if (multiverse_revert() < 0)
        return puts(multiverse_error()), 1;
    mode = 1;
    n += wrong(4, 15);
    printf("%d calls ran another variant\n", n);
    return n != 0;
}
