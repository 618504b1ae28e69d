// SPDX-License-Identifier: MIT
#define MV __attribute__((multiverse))
extern MV int mode;
extern MV int (*pointer)(int);
__attribute__((multiverse("inline"))) inline int small(int x) { return mode ? x * 3 : x + 4; }
inline MV int comdat(int x) { return mode ? x + 3 : x + 4; }
