/* SPDX-License-Identifier: MIT
 *
 * loader/host/linkage.c: what valgrind looks for in the loader's file.
 *
 * linkage.py gives us the host loader's name for linkers.  By that name, valgrind
 * wants to replace functions of ours, and does not start a program when it finds no
 * symbol for strlen (3.19) or strcmp (3.24).
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
