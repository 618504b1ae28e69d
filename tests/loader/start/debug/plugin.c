/* SPDX-License-Identifier: MIT
 *
 * A library that debug/main.c opens; in_plugin(2) writes behind a block.
 */
#include <stdlib.h>

static int initialised;

__attribute__((constructor)) static void plugin_constructor(void)
{
    initialised = 1;
}

int in_plugin(int x);
int in_plugin(int x)
{
    char *block = malloc(8);

    block[7 + (x > 1)] = (char)initialised;
    x += block[7 + (x > 1)];
    free(block);
    return x;
}
