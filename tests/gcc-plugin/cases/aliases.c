/* SPDX-License-Identifier: MIT
 *
 * Second names: of a variation point, with the attribute or without, of a switch, of a function pointer.
 * A failure means that a call by one name does not do what the same call by the other does, or that
 * an alias of any function counts as a variation point.
 * compilers: gcc g++
 * options: -Wno-attributes
 */
#include "../descriptors.h"
#include <multiverse.h>
#define MV __attribute__((multiverse))
#ifdef __cplusplus
extern "C" {
#endif
MV int sw;
MV int point(void) { return sw ? 1 : 0; }
MV int point_too(void) __attribute__((alias("point")));
int point_unmarked(void) __attribute__((alias("point")));
int any(void) { return sw ? 11 : 10; }
MV int any_marked(void) __attribute__((alias("any")));

extern MV int sw_too __attribute__((alias("sw")));
MV int reads_alias(void) { return sw_too ? 21 : 20; }

int one(void) { return 31; }
int two(void) { return 32; }
MV int (*pointer)(void) = one;
extern MV int (*pointer_too)(void) __attribute__((alias("pointer")));
#ifdef __cplusplus
}
#endif

static void all(int n)
{
    CHECK(point() == n && point_too() == n && point_unmarked() == n);
    CHECK(reads_alias() == 20 + n);
}

int main(void)
{
    descriptors_read();
    CHECK(find_function((void *)point) && !find_function((void *)any) && !find_named("any_marked"));
    for (int i = 0; i < 2; i++) {
        all(sw = i);
        CHECK(any_marked() == 10 + i);
        pointer = i ? two : one;
        CHECK(multiverse_commit() > 0);
        sw = !i;
        all(i);
        CHECK(any_marked() == 11 - i);
        CHECK(pointer() == 31 + i && pointer_too() == 31 + i);
        CHECK(multiverse_revert() > 0);
        all(!i);
    }
    return 0;
}
