/* SPDX-License-Identifier: MIT
 *
 * What each library of a random program (random_libraries.py) has besides its random functions.  NUMBER is its
 * number, OTHER that of a library which it calls; DECLARE(n) makes the parts of library n known.  C and C++.
 */
#ifndef RANDOM_PARTS_H
#define RANDOM_PARTS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <ctype.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __cplusplus
#include <stdexcept>
#define LINKED extern "C"
#else
#define LINKED extern
#endif

#define JOIN(a, b) a##b
#define NAMED(a, b) JOIN(a, b)
#define OWN(name) NAMED(name, NUMBER)
#define APART __attribute__((noinline))

typedef uint64_t u64;
typedef u64 function(int depth, u64 x);
typedef struct { u64 a, b, c; double d; } large;

#define DECLARE(n)                                                                                   \
    LINKED __thread int local_##n;                                                                   \
    LINKED int global_##n;                                                                           \
    LINKED u64 variadic_##n(int, ...);                                                               \
    LINKED void jump_##n(jmp_buf, int);                                                              \
    LINKED int order_##n(const void *, const void *);                                                \
    LINKED int chosen_##n(int);                                                                      \
    LINKED large by_value_##n(large, double, int);                                                   \
    LINKED int protected_##n(int);                                                                   \
    LINKED void throws_##n(int);

/* In the executable.  How many more functions may be called; and no effect that others see: of another thread. */
LINKED __thread int budget, quiet;
LINKED u64 call_back(int depth, u64 x, function *);
LINKED int absent(void) __attribute__((weak));

#ifdef __cplusplus
struct guard { /* its destructor runs while an exception passes */
    u64 *x;
    ~guard() { *x += 1000; }
};
#endif

#endif

#ifdef NUMBER
#define THIS_VISIBLE(v) __attribute__((visibility(v)))
LINKED int OWN(hidden_)(int) THIS_VISIBLE("hidden");
APART int OWN(hidden_)(int q) { return q * (NUMBER + 3); }
LINKED int OWN(protected_)(int) THIS_VISIBLE("protected");
int OWN(protected_)(int q) { return q - NUMBER; }
__thread int OWN(local_) = NUMBER;
int OWN(global_) = NUMBER * 2;

u64 OWN(variadic_)(int n, ...)
{
    va_list list;
    va_start(list, n);
    u64 a = va_arg(list, u64), b = va_arg(list, u64);
    double d = va_arg(list, double);
    va_end(list);
    return a ^ b ^ (u64)d;
}

APART void OWN(jump_)(jmp_buf back, int depth)
{
    if (depth > 2)
        NAMED(jump_, OTHER)(back, depth - 1);
    longjmp(back, 1);
}

int OWN(order_)(const void *a, const void *b)
{
    u64 x = *(const u64 *)a, y = *(const u64 *)b;
    return x < y ? -1 : x > y;
}

large OWN(by_value_)(large l, double d, int depth)
{
    l.d += d;
    l.a ^= l.b + NUMBER;
    return depth > 1 ? NAMED(by_value_, OTHER)(l, d * 2, depth - 1) : l;
}

#ifdef __cplusplus
int OWN(chosen_)(int q) { return q ^ 5; }
void OWN(throws_)(int q)
{
    if (q == 1)
        throw std::runtime_error("abc");
    if (q == 2)
        throw 7;
}
#else
static int OWN(first_)(int q) { return q + NUMBER; }
static int (*OWN(choose_)(void))(int) { return OWN(first_); }
int OWN(chosen_)(int) __attribute__((ifunc(CHOOSE)));
void OWN(throws_)(int q) { (void)q; }
#endif
#endif
