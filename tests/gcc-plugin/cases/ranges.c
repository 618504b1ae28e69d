/* SPDX-License-Identifier: MIT
 *
 * Variants for ranges: of an integer that is only compared every value has one, whatever it is compared
 * with and by; a body that still uses the value of a switch believes nothing about it.  A failure
 * means a value that a commit leaves generic, a border at the wrong place, or code that runs
 * with a value that it did not check.
 * compilers: gcc g++
 */
#include "../descriptors.h"
#include <multiverse.h>
#include <stdint.h>

#define MV __attribute__((multiverse))
MV int8_t s8;
MV uint8_t u8;
MV int16_t s16;
MV uint16_t u16;
MV int32_t s32;
MV uint32_t u32;
MV int64_t s64;
MV uint64_t u64;
MV int level, depth;

/* All six comparisons, a switch, a range of it, a range test, casts and an added constant. */
#define POINT(sw, one, two, three)                                                                 \
    MV int point_##sw(int x)                                                                       \
    {                                                                                              \
        if (sw > one) x += 3;                                                                      \
        if (sw <= two) x ^= 5;                                                                     \
        if (sw != three) x *= 7;                                                                   \
        if (sw >= one && sw < two) x -= 11;                                                        \
        if (sw == one || sw == three) x ^= 13;                                                     \
        switch (sw) { case one: x += 17; break; case 20 ... 40: x *= 19; break; default: x ^= 23; }\
        return x;                                                                                  \
    }
POINT(s8, -100, 3, 127)
POINT(u8, 1, 127, 255)
POINT(s16, -30000, 300, 32767)
POINT(u16, 7, 32768, 65535)
POINT(s32, -70000, 0, 0x7fffffff)
POINT(u32, 9, 0x80000000u, 0xffffffffu)
POINT(s64, -0x7fffffffffff, 9, 0x7fffffffffffffff)
POINT(u64, 3, 0x8000000000000000u, 0xffffffffffffffffu)
MV int casts(int x) { return (unsigned)s32 > 5 && (int8_t)u8 < 3 && s16 + 3 < 8 ? x : -x; }
MV int both(int x) { if (level > 3) x += 1; if (depth < -2) x += 2; return x; }

/* More ranges than variants are allowed, but few that differ. */
MV int joined(int x)
{
    switch (level) { case 1: case 3: case 5: case 7: case 9: case 11: case 13: case 15: case 17: x++; break; case 18 ... 90: x--; }
    switch (depth) { case 2: case 3: case 4: case 5: case 6: case 7: case 8: case 9: case 10: case 11: x *= 3; }
    return x;
}

/* The value is used behind a check, which is made when the variant runs. */
static int array[4] = {2, 3, 5, 7};
MV int checked(void) { return level >= 0 && level < 4 ? array[level] : -1; }
MV int partly(int x) { if (level > 3) return x * level; return depth == 1 ? x : -x; }

#define EVERY(sw, type, from, to)                                                                  \
    for (long long v_ = (from), n_ = 0; n_ < 400 && v_ <= (long long)(to); v_++, n_++)             \
        bound(sw = (type)v_, point_##sw)

static void bound(long long value, int (*f)(int))
{
    (void)value;
    CHECK(variant_of((void *)f) != (void *)f);
    CHECK(((int (*)(int))variant_of((void *)f))(21) == f(21));
}

int main(void)
{
    descriptors_read();
    EVERY(s8, int8_t, -128, 127);
    EVERY(u8, uint8_t, 0, 255);
    EVERY(s16, int16_t, -32768, 32767);
    EVERY(s16, int16_t, 100, 32767);
    EVERY(s16, int16_t, 32700, 32767);
    EVERY(u16, uint16_t, 0, 65535);
    EVERY(u16, uint16_t, 32600, 65535);
    EVERY(u16, uint16_t, 65400, 65535);
    EVERY(s32, int32_t, -0x7fffffff - 1, 0x7fffffff);
    EVERY(s32, int32_t, -70100, 0x7fffffff);
    EVERY(s32, int32_t, -100, 0x7fffffff);
    EVERY(s32, int32_t, 0x7ffffff0, 0x7fffffff);
    EVERY(u32, uint32_t, 0, 0xffffffff);
    EVERY(u32, uint32_t, 0x7fffff80, 0xffffffff);
    EVERY(u32, uint32_t, 0xffffff80, 0xffffffff);
    EVERY(s64, int64_t, -0x7fffffffffffffff - 1, 0);
    EVERY(s64, int64_t, -0x7fffffffffff - 100, 0);
    EVERY(s64, int64_t, -100, 300);
    EVERY(s64, int64_t, 0x7ffffffffffffff0, 0x7ffffffffffffffe);
    EVERY(u64, uint64_t, -100, 100);
    EVERY(u64, uint64_t, -0x7fffffffffffffff - 1, -0x7fffffffffffffff + 100);
    EVERY(u64, uint64_t, 0x7ffffffffffffff0, 0x7ffffffffffffffe);
    for (s32 = -8; s32 < 9; s32++)
        for (int i = 0; i < 256; i++)
            bound((u8 = i, s16 = i - 128), casts);
    for (level = 0; level < 8; level++)
        for (depth = -5; depth < 2; depth++)
            bound(0, both);
    CHECK(find_function((void *)both)->n_variants == 4);
    for (level = -2; level < 95; level++)
        for (depth = 0; depth < 14; depth++)
            bound(0, joined);

    /* A commit, and then other values: what is read anew is checked anew. */
    level = 2;
    CHECK(multiverse_commit() >= 0);
    for (level = -1000; level < 1000; level += 7) {
        int now = checked();
        CHECK(now == (level >= 0 && level < 4 ? array[level] : -1) || now == 5);
    }
    level = 9;
    CHECK(multiverse_commit() >= 0);
    for (level = -1000; level < 1000; level += 7)
        CHECK(checked() == (level >= 0 && level < 4 ? array[level] : -1) || checked() == -1);
    level = 9, depth = 1;
    CHECK(multiverse_commit() >= 0);
    level = 1000, depth = 7;
    CHECK(partly(3) == 3000);
    CHECK(multiverse_revert() >= 0);
    return 0;
}
