/* SPDX-License-Identifier: MIT
 *
 * tests/count_descriptors.h: for tests of what stays open.  After a header with CHECK.
 */
#ifndef TESTS_COUNT_DESCRIPTORS_H
#define TESTS_COUNT_DESCRIPTORS_H

#include <dirent.h>

/* How many are open, and always the same few more. */
static inline int count_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    int n = 0;

    CHECK(directory);
    while (readdir(directory))
        n++;
    closedir(directory);
    return n;
}

#endif
