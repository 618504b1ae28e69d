// SPDX-License-Identifier: MIT
#include "shared.h"
extern "C" MV int weak_or_strong(int x) { return mode ? x + 10 : x + 20; }
