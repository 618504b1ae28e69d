/* SPDX-License-Identifier: MIT
 *
 * Preloaded: the program loads a filter when it begins.
 */
#include "../../start/programs/expected.h"

#include <stdlib.h>

__attribute__((constructor)) static void load_filter(void)
{
    if (expected_only())
        exit(77);
}
