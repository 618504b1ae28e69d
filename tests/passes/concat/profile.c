/* SPDX-License-Identifier: MIT
 *
 * profile.c: functions, of which a profile names some.
 */
#include <stdio.h>

#define FUNCTION(name) \
    __attribute__((noinline, aligned(16))) int name(int n) { return n * 3 + #name[0]; }
FUNCTION(alpha)
FUNCTION(beta)
FUNCTION(gamma)
__attribute__((noinline)) static int local(int n)
{
    return alpha(n) + beta(n) - gamma(n) + n;
}

int main(int argc, char **argv)
{
    (void)argv;
    printf("%d\n", local(argc));
    return 0;
}
