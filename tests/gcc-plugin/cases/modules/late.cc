// SPDX-License-Identifier: MIT
#include "late.h"
__attribute__((multiverse("inline"))) static int own(int x) { return on ? x * 100 : -x; }
static int call_shared(int x) { return shared(x) + 1; }
static int call_own(int x) { return own(x) + 1; }
extern "C" __attribute__((visibility("default"))) const late late = {call_shared, call_own};
