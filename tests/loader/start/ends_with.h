/* SPDX-License-Identifier: MIT
 *
 * Which object a test's pass is about: names of objects are whole paths, in a folder of the test's.
 */
#ifndef MVLD_TESTS_ENDS_WITH_H
#define MVLD_TESTS_ENDS_WITH_H

#include <stddef.h>

static int ends_with(const char *text, const char *end)
{
    for (; *text; text++) {
        size_t i = 0;

        while (text[i] && text[i] == end[i])
            i++;
        if (!text[i] && !end[i])
            return 1;
    }
    return 0;
}

#endif
