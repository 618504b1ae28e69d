/* SPDX-License-Identifier: MIT
 *
 * A library that holds all of it: switch, variation point, calls.  `seen` is what its
 * constructor saw, with the switch set to another value meanwhile.
 */
#include "program.h"

__attribute__((multiverse("values", 0, 1, 2))) int mode;

__attribute__((multiverse)) int which(void)
{
    return mode == 0 ? 0 : mode == 1 ? 1 : 2;
}

static int seen = -1;

__attribute__((constructor)) static void look(void)
{
    int before = mode;

    mode = 2;
    seen = which();
    mode = before;
}

int whole_seen(void);
int whole_seen(void)
{
    return seen;
}
