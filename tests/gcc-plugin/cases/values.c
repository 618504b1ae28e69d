/* SPDX-License-Identifier: MIT
 *
 * Values at the ends of every type, given by hand and as enumerators, bind: what the compiler wrote
 * into a guard is what the run time reads in the switch.  A failure means that one of them extends
 * a value by a sign that its type does not have.
 * compilers: gcc g++
 */
#include "../descriptors.h"
#include <multiverse.h>
#include <stdbool.h>
#include <string.h>

#define V(...) __attribute__((multiverse("values", __VA_ARGS__)))
#define MV __attribute__((multiverse))

V(0, 1) bool truth;
V(1, 128, 255) uint8_t u8;
V(-128, -1, 127) int8_t s8;
V(3, 0x8000, 0xffff) uint16_t u16;
V(-0x8000, -1, 0x7fff) int16_t s16;
V(5, 0x80000000u, 0xffffffffu) uint32_t u32;
V(-0x7fffffff - 1, -1, 0x7fffffff) int32_t s32;
V(7, 0x8000000000000000u, 0xffffffffffffffffu) uint64_t u64;
V(-0x7fffffffffffffff - 1, -1, 0x7fffffffffffffff) int64_t s64;
enum large { FEW, SOME = 0x80000000u, ALL = 0xffffffffu };
MV enum large large;
enum small { DOWN = -2, MIDDLE, UP };
MV enum small small;

MV long f_truth(void) { return truth ? 1 : 2; }
MV long f_u8(void) { return u8; }
MV long f_s8(void) { return s8; }
MV long f_u16(void) { return u16; }
MV long f_s16(void) { return s16; }
MV long f_u32(void) { return u32; }
MV long f_s32(void) { return s32; }
MV long f_u64(void) { return u64; }
MV long f_s64(void) { return s64; }
MV long f_large(void) { return large; }
MV long f_small(void) { return small; }
/* Of one body: a guard is a range, across the border where a sign would begin. */
V(126, 127, 128) uint8_t around;
MV long f_around(void) { return around >= 127 ? 1 : 2; }

#define BINDS(sw, type, function, ...)                                                            \
    do {                                                                                          \
        static const long long values_[] = {__VA_ARGS__};                                        \
        for (unsigned i_ = 0; i_ < sizeof values_ / sizeof *values_; i_++) {                      \
            sw = (type)values_[i_];                                                               \
            CHECK(variant_of((void *)function) != (void *)function);                              \
            CHECK(multiverse_commit_fn((void *)function) >= 0);                                   \
            CHECK(multiverse_is_committed((void *)function) == 1);                                \
            CHECK(multiverse_info_fn((void *)function)->active == variant_of((void *)function));  \
            long now_ = function();                                                               \
            CHECK(multiverse_revert() >= 0);                                                      \
            CHECK(function() == now_);                                                            \
        }                                                                                         \
    } while (0)

int main(void)
{
    descriptors_read();
    BINDS(truth, bool, f_truth, 0, 1);
    BINDS(u8, uint8_t, f_u8, 1, 128, 255);
    BINDS(around, uint8_t, f_around, 126, 127, 128);
    CHECK(find_function((void *)f_around)->n_variants == 2);
    BINDS(s8, int8_t, f_s8, -128, -1, 127);
    BINDS(u16, uint16_t, f_u16, 3, 0x8000, 0xffff);
    BINDS(s16, int16_t, f_s16, -0x8000, -1, 0x7fff);
    BINDS(u32, uint32_t, f_u32, 5, 0x80000000, 0xffffffff);
    BINDS(s32, int32_t, f_s32, -0x7fffffff - 1, -1, 0x7fffffff);
    BINDS(u64, uint64_t, f_u64, 7, -0x7fffffffffffffff - 1, -1);
    BINDS(s64, int64_t, f_s64, -0x7fffffffffffffff - 1, -1, 0x7fffffffffffffff);
    BINDS(large, enum large, f_large, FEW, SOME, ALL);
    BINDS(small, enum small, f_small, DOWN, MIDDLE, UP);
    u64 = -1;
    CHECK(strstr(variant_name((void *)f_u64), ".multiverse.u64_18446744073709551615"));
    s64 = -1;
    CHECK(strstr(variant_name((void *)f_s64), ".multiverse.s64_m1"));
    return 0;
}
