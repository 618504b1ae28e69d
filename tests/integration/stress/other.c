/* SPDX-License-Identifier: MIT */
#include "stress.h"

CALLERS(other)

extern __attribute__((visibility("hidden"))) const struct stress_straddling straddling_table[];

const struct stress_straddling *stress_straddling(void)
{
    return straddling_table;
}
