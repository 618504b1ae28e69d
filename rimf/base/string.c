/* SPDX-License-Identifier: MIT
 *
 * rimf/base/string.c: the four functions that the compiler calls on its own.  Only
 * freestanding links (the loader, passes) take this file; a hosted one has
 * libc's.  The loops must not be turned back into calls of themselves: hence
 * the string instructions, which also are the fast way on every CPU with ERMS.
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
    /* Forwards is right unless `to` lies inside [from, from + n). */
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
