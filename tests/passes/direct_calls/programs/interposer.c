/* SPDX-License-Identifier: MIT
 *
 * Preloaded: stands before the library, and calls it by RTLD_NEXT.
 */
#define _GNU_SOURCE
#include <dlfcn.h>

int interposed(void)
{
    int (*next)(void) = (int (*)(void))dlsym(RTLD_NEXT, "interposed");

    return 40 + next();
}
