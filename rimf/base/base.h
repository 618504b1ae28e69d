/* SPDX-License-Identifier: MIT
 *
 * rimf/base/base.h: bytes, strings, rounding and formatting for C code without libc.  Nothing here
 * allocates or makes a system call.
 */
#ifndef RIMF_BASE_H
#define RIMF_BASE_H

#include <elf.h> /* numbers only */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#ifndef DT_RELR /* in elf.h since glibc 2.36 */
#define DT_RELRSZ 35
#define DT_RELR 36
#define DT_RELRENT 37
#endif

#define RIMF_PAGE 4096UL
#define RIMF_HIDDEN __attribute__((visibility("hidden")))
#define RIMF_COUNT(a) (sizeof(a) / sizeof(*(a)))

/* The length of the prefix of 0..n-1 for which `holds`, an expression in `i`, is true.  `holds`
 * must be false from there on. */
#define RIMF_BISECT(i, n, holds)                 \
    __extension__({                              \
        size_t low_ = 0, high_ = (n);            \
                                                 \
        while (low_ < high_) {                   \
            size_t i = low_ + (high_ - low_) / 2; \
                                                 \
            if (holds)                           \
                low_ = i + 1;                    \
            else                                 \
                high_ = i;                       \
        }                                        \
        low_;                                    \
    })

static inline uintptr_t rimf_page_down(uintptr_t a) { return a & ~(RIMF_PAGE - 1); }
static inline uintptr_t rimf_page_up(uintptr_t a) { return rimf_page_down(a + RIMF_PAGE - 1); }

/* The four functions that compilers call implicitly (hosted programs have libc's). */
void *memcpy(void *restrict to, const void *restrict from, size_t n);
void *memmove(void *to, const void *from, size_t n);
void *memset(void *to, int byte, size_t n);
int memcmp(const void *a, const void *b, size_t n);
#if !__STDC_HOSTED__ && !defined RIMF_DEFINES_STRING
/* In freestanding code the compiler would call these even for four bytes; the builtins inline small
 * sizes. */
#define memcpy __builtin_memcpy
#define memmove __builtin_memmove
#define memset __builtin_memset
#define memcmp __builtin_memcmp
#endif

size_t rimf_strlen(const char *s);
int rimf_streq(const char *a, const char *b);               /* 1 equal, 0 not; NULL equals NULL */
int rimf_strncmp(const char *a, const char *b, size_t n);
const char *rimf_after(const char *s, const char *prefix);  /* the part behind the prefix, or NULL */
const char *rimf_strrchr(const char *s, char c);            /* last c, or NULL */
const char *rimf_file_name(const char *path);               /* the part behind the last slash */

unsigned rimf_digit(char c); /* of a hexadecimal digit; 16: it is none */
/* Decimal, or hexadecimal after 0x; the whole string must be the number.  0, -EINVAL, or -ERANGE. */
int rimf_parse_unsigned(const char *s, uint64_t *out);
int rimf_parse_int(const char *s, int64_t *out); /* the same with an optional minus sign */

/* Like vsnprintf for %s %d %u %x %p %c %%, with l, ll, z, a minimum width (zero-
 * padded for numbers on request) and, for %s, a precision; either may be `*`.
 * Always terminates when size > 0; returns the length that the whole text would
 * have.  A NULL pointer prints as 0x0, a NULL string as (null). */
size_t rimf_vformat(char *to, size_t size, const char *format, va_list);
size_t rimf_format(char *to, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- hash ------------------------------------------------------ */

/* Adds eight bytes to a hash: multiply and fold. */
static inline uint64_t rimf_mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u; /* 2^64 divided by the golden ratio */
    return hash ^ hash >> 29;
}
/* A 64-bit hash against accidents; `bytes` may have any alignment. */
uint64_t rimf_hash(const void *bytes, size_t size);
/* Continues `hash` over these bytes. */
uint64_t rimf_hash_more(uint64_t hash, const void *bytes, size_t size);

/* ---- order by address ------------------------------------------ */

#define RIMF_SORT_MAX 64u

/* Sorts `n` elements of `size` bytes, at most RIMF_SORT_MAX, by the address (uintptr_t) at their
 * start.  Cheap if they are already sorted. */
void rimf_sort(void *elements, size_t n, size_t size);

#endif
