/* SPDX-License-Identifier: MIT
 *
 * mvld/freestanding.h: the four functions that compilers call implicitly, and a few string
 * functions.  Passes have no libc.
 *
 * The four are weak and hidden, so several files of a pass may include this.  In hosted code they
 * are libc's.
 */
#ifndef MVLD_FREESTANDING_H
#define MVLD_FREESTANDING_H

#include <stddef.h>

#if __STDC_HOSTED__
#include <string.h>
#else
#define MVLD_OWN __attribute__((weak, visibility("hidden"), used))

/* The compiler would turn a loop into a call of memcpy itself. */
MVLD_OWN void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
    void *at = to;

    __asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(n) : : "memory");
    return to;
}

MVLD_OWN void *memmove(void *to, const void *from, size_t n)
{
    char *last = (char *)to + n - 1;
    const char *source = (const char *)from + n - 1;

    if ((size_t)((char *)to - (const char *)from) >= n) /* a forward copy is correct */
        return memcpy(to, from, n);
    __asm__ volatile("std; rep movsb; cld" : "+D"(last), "+S"(source), "+c"(n) : : "memory", "cc");
    return to;
}

MVLD_OWN void *memset(void *to, int byte, size_t n)
{
    void *at = to;

    __asm__ volatile("rep stosb" : "+D"(at), "+c"(n) : "a"(byte) : "memory");
    return to;
}

MVLD_OWN int memcmp(const void *a, const void *b, size_t n)
{
    const unsigned char *x = a, *y = b;

    for (size_t i = 0; i < n; i++)
        if (x[i] != y[i])
            return x[i] - y[i];
    return 0;
}

/* The builtins inline small sizes. */
#define memcpy __builtin_memcpy
#define memmove __builtin_memmove
#define memset __builtin_memset
#define memcmp __builtin_memcmp
#endif

static inline size_t mvld_strlen(const char *s)
{
    size_t n = 0;

    while (s[n])
        n++;
    return n;
}

/* Returns <0, 0 or >0, as strncmp. */
static inline int mvld_strncmp(const char *a, const char *b, size_t n)
{
    for (; n && *a == *b && *a; n--) {
        a++;
        b++;
    }
    return n ? (unsigned char)*a - (unsigned char)*b : 0;
}

static inline int mvld_strcmp(const char *a, const char *b)
{
    return mvld_strncmp(a, b, ~(size_t)0);
}

/* Returns `s` behind `prefix`, or NULL if `s` does not begin with it. */
static inline const char *mvld_after(const char *s, const char *prefix)
{
    size_t n = mvld_strlen(prefix);

    return mvld_strncmp(s, prefix, n) ? NULL : s + n;
}

/* Returns the part behind the last slash. */
static inline const char *mvld_file_name(const char *path)
{
    const char *name = path;

    for (; *path; path++)
        name = *path == '/' ? path + 1 : name;
    return name;
}

#endif
