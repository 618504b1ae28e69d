/* SPDX-License-Identifier: MIT
 *
 * Libraries that come and go (late_main.c): late.c twice, as liblate1.so and
 * liblate2.so, which call each other; both have a switch, a variation point and
 * call sites of their own, and call which() of the executable.
 */
#include <multiverse.h>

extern __attribute__((multiverse("values", 0, 1, 2))) int mode;
__attribute__((multiverse)) int which(void);

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

struct late {
    int of_constructor; /* what which() gave there, the switch being 2 */
    int committed_there; /* what a commit in the constructor gave, or -2: none */
    int *mode;
    int (*which)(void);   /* the executable's, called from here */
    int (*own)(void);     /* the library's own point, by its own switch */
    int (*other)(void);   /* the other library's point */
};
