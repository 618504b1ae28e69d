/* SPDX-License-Identifier: MIT
 *
 * loader/state.c: the state.
 */
#include "loader/loader.h"

struct loader loader_state;
_Static_assert(offsetof(struct loader, mmap_return) == 0, "start/entry.S jumps back through it");
_Static_assert(offsetof(struct loader, cpuid_return) == 32, "and host/entry.S through these");
