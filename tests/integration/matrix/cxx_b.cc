// SPDX-License-Identifier: MIT
#include "cxx.h"

namespace {
struct Guard {
    int *n;
    ~Guard() { ++*n; }
};
}
MV int between(int x, int *destroyed)
{
    Guard guard{destroyed};
    return level ? thrower(x) + 100 : thrower(x);
}
USE(from_b, 200)
