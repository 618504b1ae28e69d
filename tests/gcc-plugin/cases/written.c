/* SPDX-License-Identifier: MIT
 *
 * Every constant that a function compares its switch with, however it is written, has a variant; what a
 * sanitizer asks has none.  A failure means that the compiler's own form of a comparison (a range
 * test, a cast to unsigned) hid what the author wrote.
 * compilers: gcc g++
 * not for: -flto-partition=1to1
 * not for clang: -fsanitize=address,undefined -fsanitize=undefined
 */
#include "../descriptors.h"
#include <multiverse.h>
#include <stdint.h>

#define MV __attribute__((multiverse))
MV int s;
MV unsigned u;
MV int8_t c;
MV uint8_t o;
MV int64_t l;
MV int table;

MV int either(int x) { return s == 0 || s == 1 ? x : 2 * x; }
MV int cases(int x) { switch (s) { case 0: case 1: case 2: return x; } return 2 * x; }
MV int range(int x) { switch (s) { case 3 ... 6: return x; } return 2 * x; }
MV int order(int x) { return s > 3 ? x : 2 * x; }
MV int four(int x) { return s == 1 || s == 2 || s == 4 || s == 8 ? x : 2 * x; }
MV int unsigned_constant(int x) { return s == 0xffffffffu ? x : 2 * x; }
MV int cast(int x) { return (uint8_t)c == 200 ? x : 2 * x; }
MV int between(int x) { return u >= 7 && u <= 9 ? x : 2 * x; }
MV int at_the_end(int x) { return u >= 0xfffffffeu ? x : 2 * x; }
MV int turned(int x) { return u - 5u != 4014762853l ? x : 2 * x; } /* the smallest values become the largest */
MV int turned_switch(int x) { switch ((int64_t)(u - 5u)) { case 4014762853l: return 2 * x; } return x; }
MV int shifted(int x) { return l - 3 == 4 ? x : 2 * x; }
MV int letters(int x) { switch (o) { case 'a' ... 'c': return x; case 'x': return x + 1; } return 2 * x; }
MV int dense(int x)
{
    switch (table) {
    case 10: return x + 3; case 11: return x * 7; case 12: return x ^ 5; case 13: return x - 9;
    case 14: return x * x; case 15: return 77; case 16: return -x;
    }
    return 0;
}
/* Only sanitizers compare here. */
MV int divides(int x) { return x / s; }
MV int moves(int x) { return s ? x << s : x; }
int array[8];
MV int indexes(void) { return array[u]; }

#define HAS(sw, function, ...)                                                                     \
    do {                                                                                           \
        static const long long values_[] = {__VA_ARGS__};                                         \
        for (unsigned i_ = 0; i_ < sizeof values_ / sizeof *values_; i_++) {                       \
            sw = values_[i_];                                                                      \
            CHECK(variant_of((void *)function) != (void *)function);                               \
            CHECK(((int (*)(int))variant_of((void *)function))(21) == function(21));               \
        }                                                                                          \
    } while (0)

int main(void)
{
    descriptors_read();
    HAS(s, either, 0, 1);
    HAS(s, cases, 0, 1, 2);
    HAS(s, range, 3, 4, 5, 6);
    HAS(s, order, 3, 4);
    HAS(s, four, 1, 2, 4, 8);
    HAS(s, unsigned_constant, -1);
    HAS(c, cast, -56);
    HAS(u, between, 7, 8, 9);
    HAS(u, at_the_end, 0xfffffffd, 0xfffffffe, 0xffffffff);
    HAS(u, turned, 4, 5, 4014762857, 4014762858);
    HAS(u, turned_switch, 4, 5, 4014762857, 4014762858);
    HAS(l, shifted, 7);
    HAS(o, letters, 'a', 'b', 'c', 'x');
    HAS(table, dense, 10, 11, 12, 13, 14, 15, 16);
    HAS(s, moves, 0, 1);
    CHECK(find_function((void *)divides)->n_variants == 2);
    CHECK(find_function((void *)moves)->n_variants == 2);
    CHECK(find_function((void *)indexes)->n_variants == 2);
    return 0;
}
