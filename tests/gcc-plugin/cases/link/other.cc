// SPDX-License-Identifier: MIT
#include "shared.h"
int other_inline(int x) { return comdat(x); }
int other_small(int x) { return small(x) + 1; }
int other_pointer(int x) { return pointer(x) + 1; }
extern "C" MV __attribute__((weak)) int weak_or_strong(int x) { return mode ? x + 100 : x + 200; }
extern "C" int call_weak(int x) { return weak_or_strong(x); }
