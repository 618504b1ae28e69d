/* SPDX-License-Identifier: MIT
 *
 * Which variant runs: widths, signs, the most specific match, tracked switches.
 * A failure means that a program runs code for a value it does not have.
 */
#include <stdint.h>

#include "check.h"

extern int8_t s8;
extern uint8_t u8;
extern int16_t s16;
extern uint16_t u16;
extern int32_t s32, watched;
extern uint32_t u32;
extern int64_t s64;
extern uint64_t u64;

#define CALLS(f) int call_##f(void), f(void)
CALLS(f_s8); CALLS(f_u8); CALLS(f_s16); CALLS(f_u16);
CALLS(f_s32); CALLS(f_u32); CALLS(f_s64); CALLS(f_u64);
CALLS(specific); CALLS(tracking); CALLS(absent);

#define BINDS(sw, value, f, want)                                                         \
    do {                                                                                  \
        sw = value;                                                                       \
        CHECK(multiverse_commit_refs(&sw) >= 0);                                          \
        CHECK(call_##f() == want, "(" #sw " = " #value ": variant %d)", call_##f());      \
    } while (0)

#define WIDTH(bits)                                                                       \
    do {                                                                                  \
        BINDS(s##bits, -1, f_s##bits, 1);                                                 \
        BINDS(s##bits, INT##bits##_MIN, f_s##bits, 2);                                    \
        BINDS(s##bits, INT##bits##_MAX, f_s##bits, 3);                                    \
        BINDS(s##bits, 0, f_s##bits, 0);                                                  \
        BINDS(s##bits, -2, f_s##bits, 0);                                                 \
        BINDS(u##bits, UINT##bits##_MAX, f_u##bits, 1);                                   \
        BINDS(u##bits, (uint##bits##_t)INT##bits##_MAX + 1, f_u##bits, 2);                \
        BINDS(u##bits, INT##bits##_MAX, f_u##bits, 3);                                    \
        BINDS(u##bits, 0, f_u##bits, 0);                                                  \
    } while (0)

static void specificity(void)
{
    u32 = 0;
    BINDS(s32, 5, specific, 1);
    BINDS(s32, 12, specific, 2);
    BINDS(s32, 18, specific, 2); /* 2 and 3 are as narrow: the first */
    BINDS(s32, 22, specific, 3);
    BINDS(s32, 200, specific, 6);
    BINDS(s32, 101, specific, 0);
    CHECK(strstr(multiverse_report(), "specific"));
    u32 = 7;
    BINDS(s32, 18, specific, 4); /* more guards beat narrower ranges */
    BINDS(s32, 12, specific, 5);
}

static void tracked(void)
{
    watched = 3;
    s32 = 1;
    CHECK(multiverse_bind(&watched, -1) == 0);
    CHECK(multiverse_info_var(&watched)->is_tracked == 1);
    CHECK(multiverse_commit() >= 0);
    CHECK(call_tracking() == 2);
    CHECK(multiverse_bind(&watched, 1) == 1);
    CHECK(call_tracking() == 2, "(takes effect with the next commit)");
    CHECK(multiverse_commit() == 1);
    CHECK(call_tracking() == 1);
    CHECK(multiverse_bind(&watched, 0) == 0);
    CHECK(multiverse_commit_fn(tracking) == 1);
    CHECK(call_tracking() == 2);
    CHECK(multiverse_bind(&s32, 1) == -1 && errno == EINVAL);
    CHECK(multiverse_bind(&watched, 2) == -1 && errno == EINVAL);
}

int main(void)
{
    WIDTH(8);
    WIDTH(16);
    WIDTH(32);
    WIDTH(64);
    specificity();
    tracked();
    CHECK(multiverse_commit_fn(absent) == 0);
    CHECK(call_absent() == 0);
    CHECK(multiverse_info_var(&s64)->n_functions == 1);
    CHECK(multiverse_info_var(&s32)->n_functions == 3);
    CHECK(multiverse_info_var(&s32)->width == 4 && multiverse_info_var(&s32)->is_signed);
    return 0;
}
