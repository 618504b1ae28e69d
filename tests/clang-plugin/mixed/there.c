/* SPDX-License-Identifier: MIT */
#include "mixed.h"

MV enum mode mode = PLAIN;

static inline __attribute__((always_inline)) int helper(int x) { return mode == FAST ? x + 90 : x; }

MV int there(int x)
{
    switch (mode) {
    case FAST: return x;
    case SLOW: return helper(-x);
    default: return helper(x) * 5;
    }
}
MV int there_ranges(int x) { return level < -1 || level == 9 ? x + 4 : x ^ 3; }
MV int there_calls(int x) { return mode == FAST ? here(x) : chosen == 3 ? library_chosen(x) : here_ranges(x); }
int call_there(int x) { return there(x) + 7 * there_ranges(x) + 31 * there_calls(x); }
