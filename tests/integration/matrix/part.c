/* SPDX-License-Identifier: MIT
 *
 * One object of the linking matrix (matrix.py): PART is E, A or B, and HAS_SWITCH,
 * HAS_POINT (a number that its results carry), HAS_SITES say what is in it.
 */
#include "part.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

#ifdef HAS_SWITCH
__attribute__((multiverse("values", 0, 1, 2))) int mode;
#endif

#ifdef HAS_POINT
/* An IFUNC beside it, called beside it: not ours, must stay as it is. */
static int neighbour_body(int x)
{
    return x ^ 0x5a;
}
static void *choose(void)
{
    return (void *)neighbour_body;
}
int neighbour(int x) __attribute__((ifunc("choose"), visibility("hidden")));
# define BODY(number)                                                                             \
    {                                                                                             \
        if (mode == 0)                                                                            \
            return number * 1000;                                                                 \
        if (mode == 1)                                                                            \
            return number * 1000 + x * 3;                                                         \
        return mode == 2 ? number * 1000 + (neighbour(neighbour(x)) & 0xff) : number * 1000 + 99; \
    }
# ifdef VERSIONED
__attribute__((multiverse, symver("point@V1"))) int point_1(int x) BODY(9)
__attribute__((multiverse, symver("point@@V2"))) int point_2(int x) BODY(HAS_POINT)
# else
__attribute__((multiverse)) POINT_ATTRIBUTES int point(int x) BODY(HAS_POINT)
# endif
#endif

#ifdef PLAIN_POINT /* interposes, and knows nothing of multiverse */
int point(int x)
{
    return mode * 7 + 7000 + x;
}
#endif

#ifdef HAS_SITES
__attribute__((noinline)) static int tail(int x)
{
    return point(x);
}

int JOIN(call_, PART)(int x)
{
    int one = point(x), two = tail(x), three = point(x + 1);

    if (one != two || three - one > 3)
        return -1;
    return one;
}

extern const struct part_site sites_start[] __asm__("__start_multiverse_callsites");
extern const struct part_site sites_stop[] __asm__("__stop_multiverse_callsites");
# pragma GCC visibility push(hidden)
extern const struct part_site sites_start[], sites_stop[];
# pragma GCC visibility pop

struct part_range JOIN(sites_, PART)(void)
{
    return (struct part_range){sites_start, sites_stop};
}
#endif
