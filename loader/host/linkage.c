/* SPDX-License-Identifier: MIT
 *
 * loader/host/linkage.c: symbols that valgrind looks for in the loader's file.
 *
 * linkage.py gives our file the host loader's name (SONAME).  For that name valgrind replaces
 * functions, and refuses to start a program without a symbol for strlen (3.19) or strcmp (3.24).
 */
#include "rimf/base/base.h"

RIMF_HIDDEN size_t strlen(const char *s);
RIMF_HIDDEN int strcmp(const char *a, const char *b);
RIMF_HIDDEN char *index(const char *s, int c);

__attribute__((used)) size_t strlen(const char *s)
{
    return rimf_strlen(s);
}

__attribute__((used)) char *index(const char *s, int c)
{
    for (;; s++) {
        if (*s == (char)c)
            return (char *)s;
        if (!*s)
            return NULL;
    }
}

__attribute__((used)) int strcmp(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return (uint8_t)*a - (uint8_t)*b;
}
