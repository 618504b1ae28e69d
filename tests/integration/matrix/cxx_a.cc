// SPDX-License-Identifier: MIT
#include "cxx.h"

__attribute__((multiverse("values", 0, 1, 2))) int level;
MV int thrower(int x)
{
    if (level == 2)
        throw std::runtime_error("two");
    return level == 1 ? x + 1 : x;
}
USE(from_a, 100)
