/* SPDX-License-Identifier: MIT
 *
 * rimf/base/string.c: the four functions that compilers call implicitly.  Only freestanding links
 * (the loader, passes) include this file; hosted ones have libc's.  The compiler must not turn the
 * loops into calls of themselves: hence the string instructions, which are also fast on every CPU
 * with ERMS.
 */
#define RIMF_DEFINES_STRING
#include "rimf/base/base.h"

void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
    void *at = to;

    __asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(n) : : "memory");
    return to;
}

void *memmove(void *to, const void *from, size_t n)
{
    /* A forward copy is correct unless `to` is inside [from, from + n). */
    if ((uintptr_t)to - (uintptr_t)from >= n)
        return memcpy(to, from, n);

    uint8_t *last = (uint8_t *)to + n - 1;
    const uint8_t *source = (const uint8_t *)from + n - 1;

    __asm__ volatile("std; rep movsb; cld" : "+D"(last), "+S"(source), "+c"(n) : : "memory", "cc");
    return to;
}

void *memset(void *to, int byte, size_t n)
{
    void *at = to;

    __asm__ volatile("rep stosb" : "+D"(at), "+c"(n) : "a"(byte) : "memory");
    return to;
}

int memcmp(const void *a, const void *b, size_t n)
{
    const uint8_t *x = a, *y = b;

    for (size_t i = 0; i < n; i++)
        if (x[i] != y[i])
            return x[i] - y[i];
    return 0;
}
