/* SPDX-License-Identifier: MIT
 *
 * tests/check.h: what the C tests share.  CHECK ends the test at the
 * first thing that is not so; a test's main returns 0, or SKIP after saying why.
 * Who has more to tell then defines CHECK_TELL() before.
 */
#ifndef TESTS_CHECK_H
#define TESTS_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SKIP 77

#ifndef CHECK_TELL
# define CHECK_TELL() (void)0
#endif

#define CHECK(condition, ...)                                                          \
    do {                                                                               \
        if (!(condition)) {                                                            \
            fprintf(stderr, "%s:%d: not so: %s ", __FILE__, __LINE__, #condition);     \
            fprintf(stderr, " " __VA_ARGS__);                                          \
            fprintf(stderr, "\n");                                                     \
            CHECK_TELL();                                                              \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

#define CHECK_STR(is, want)                                                            \
    CHECK(strcmp((is), (want)) == 0, "(is \"%s\", want \"%s\")", (is), (want))

#endif
