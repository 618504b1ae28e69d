/* SPDX-License-Identifier: MIT */
#include "mixed.h"

MV int level;
__attribute__((multiverse("values", 1, 3))) uint64_t chosen = 1;

MV int library(int x) { return level == 9 ? x << 2 : level > 9 ? x | 64 : x; }
MV int library_ranges(int x) { int r = x; for (int i = 0; i < 4; i++) r += level >= 3 && level < 10 ? i : r & 5; return r; }
MV int library_chosen(int x) { return x * (int)chosen; }
int call_library(int x) { return library(x) + 7 * library_ranges(x) + 31 * library_chosen(x); }
