/* SPDX-License-Identifier: MIT
 *
 * The objects of the linking matrix: a switch `mode`, a variation point `point`,
 * call sites of it, each in any of the executable (E) and two libraries (A, B).
 */
#ifndef PART_H
#define PART_H

#include <multiverse.h>

#include <stdint.h>

#ifndef POINT_ATTRIBUTES
# define POINT_ATTRIBUTES
#endif

#ifdef PLAIN_POINT
extern int mode;
#else
extern __attribute__((multiverse("values", 0, 1, 2))) int mode;
# if !defined VERSIONED
__attribute__((multiverse)) POINT_ATTRIBUTES int point(int x);
# elif defined HAS_POINT
__attribute__((multiverse)) int point_1(int x), point_2(int x);
#  define point point_2
# elif defined OLD_VERSION
__attribute__((multiverse)) int point(int x) __asm__("point_of_old");
__asm__(".symver point_of_old, point@V1");
# else
__attribute__((multiverse)) int point(int x);
# endif
#endif

/* As the descriptor has it: distances from the fields. */
struct part_site {
    int32_t site, slot;
};
struct part_range {
    const struct part_site *start, *stop;
};

int call_E(int x), call_A(int x), call_B(int x);
struct part_range sites_E(void), sites_A(void), sites_B(void);

#endif
