/* SPDX-License-Identifier: MIT */
#include "mixed.h"

MV bool verbose;
static MV unsigned char octet;

MV int here(int x) { return verbose ? x + 1 : x * 2; }
MV int here_ranges(int x) { return (level > 3 ? x * 3 : x) + (mode == SLOW ? 100 : octet ? 1 : 0); }
MV int here_calls(int x) { return verbose ? there(x) + library(x) : there_ranges(x) - 1; }
int call_here(int x) { octet = !octet; octet = 0; return here(x) + 7 * here_ranges(x) + 31 * here_calls(x); }
