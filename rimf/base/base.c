/* SPDX-License-Identifier: MIT
 *
 * rimf/base/base.c: strings, numbers, formatting, hashes, sorting.
 */
#include "rimf/base/base.h"


#include <errno.h> /* numbers only */

size_t rimf_strlen(const char *s)
{
    size_t n = 0;

    while (s[n])
        n++;
    return n;
}

int rimf_streq(const char *a, const char *b)
{
    if (!a || !b)
        return a == b;
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

int rimf_strncmp(const char *a, const char *b, size_t n)
{
    for (; n; n--, a++, b++) {
        if (*a != *b)
            return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
        if (!*a)
            break;
    }
    return 0;
}

const char *rimf_after(const char *s, const char *prefix)
{
    for (; *prefix; prefix++, s++)
        if (*s != *prefix)
            return NULL;
    return s;
}

const char *rimf_strrchr(const char *s, char c)
{
    const char *last = NULL;

    for (;; s++) {
        if (*s == c)
            last = s;
        if (!*s)
            return last;
    }
}

const char *rimf_file_name(const char *path)
{
    const char *slash = rimf_strrchr(path, '/');

    return slash ? slash + 1 : path;
}

unsigned rimf_digit(char c)
{
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0');
    if (c >= 'a' && c <= 'f')
        return (unsigned)(c - 'a' + 10);
    if (c >= 'A' && c <= 'F')
        return (unsigned)(c - 'A' + 10);
    return 16;
}

int rimf_parse_unsigned(const char *s, uint64_t *out)
{
    uint64_t value = 0, base = 10;
    int error = 0;

    if (s[0] == '0' && (s[1] == 'x' || s[1] == 'X')) {
        base = 16;
        s += 2;
    }
    if (!*s)
        return -EINVAL;
    for (; *s; s++) {
        if (rimf_digit(*s) >= base)
            return -EINVAL;
        if (__builtin_mul_overflow(value, base, &value) || __builtin_add_overflow(value, rimf_digit(*s), &value))
            error = -ERANGE;
    }
    *out = value;
    return error;
}

int rimf_parse_int(const char *s, int64_t *out)
{
    int negative = *s == '-';
    uint64_t value;
    int error = rimf_parse_unsigned(s + negative, &value);

    if (error)
        return error;
    if (value > (uint64_t)INT64_MAX + (uint64_t)negative)
        return -ERANGE;
    *out = (int64_t)(negative ? 0 - value : value);
    return 0;
}

/* ---- formatting ---------------------------------------------------------- */

struct sink {
    char *to;
    size_t size, length;
};

static void put_character(struct sink *sink, char c)
{
    if (sink->length + 1 < sink->size)
        sink->to[sink->length] = c;
    sink->length++;
}

static void put_padded(struct sink *sink, const char *text, size_t n, size_t width, char pad)
{
    size_t missing = width > n ? width - n : 0;

    if (missing && pad == '0' && n && *text == '-') { /* the sign precedes the zeros */
        put_character(sink, '-');
        text++;
        n--;
    }
    for (; missing; missing--)
        put_character(sink, pad);
    for (; n; n--)
        put_character(sink, *text++);
}

static void put_number(struct sink *sink, uint64_t value, int negative, unsigned base,
                       size_t width, char pad)
{
    char digits[24], *at = digits + sizeof digits;

    do {
        *--at = "0123456789abcdef"[value % base];
        value /= base;
    } while (value);
    if (negative)
        *--at = '-';
    put_padded(sink, at, (size_t)(digits + sizeof digits - at), width, pad);
}

static void put_string(struct sink *sink, const char *s, size_t limit, size_t width)
{
    size_t n = 0;

    if (!s)
        s = "(null)";
    while (n < limit && s[n])
        n++;
    put_padded(sink, s, n, width, ' ');
}

static void put_pointer(struct sink *sink, uintptr_t value, size_t width)
{
    char text[2 + 16 + 1] = "0x";
    struct sink inner = {text, sizeof text, 2};

    put_number(&inner, value, 0, 16, 0, ' ');
    put_padded(sink, text, inner.length, width, ' ');
}

/* A width or precision: decimal digits or `*`. */
static const char *parse_count(const char *format, size_t *out, int star)
{
    *out = 0;
    if (*format == '*') {
        *out = star > 0 ? (size_t)star : 0;
        return format + 1;
    }
    while (*format >= '0' && *format <= '9')
        *out = *out * 10 + (size_t)(*format++ - '0');
    return format;
}

size_t rimf_vformat(char *to, size_t size, const char *format, va_list args)
{
    struct sink sink = {to, size, 0};

    while (*format) {
        size_t width, limit = SIZE_MAX;
        unsigned longs = 0;
        char pad = ' ';

        if (*format != '%') {
            put_character(&sink, *format++);
            continue;
        }
        if (*++format == '0') {
            pad = '0';
            format++;
        }
        format = parse_count(format, &width, *format == '*' ? va_arg(args, int) : 0);
        if (*format == '.') {
            format++;
            format = parse_count(format, &limit, *format == '*' ? va_arg(args, int) : 0);
        }
        for (; *format == 'l' || *format == 'z'; format++)
            longs++;
        switch (*format) {
        case 'd': {
            int64_t value = longs ? va_arg(args, int64_t) : va_arg(args, int);
            uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;

            put_number(&sink, magnitude, value < 0, 10, width, pad);
            break;
        }
        case 'u':
        case 'x': {
            uint64_t value = longs ? va_arg(args, uint64_t) : va_arg(args, unsigned);

            put_number(&sink, value, 0, *format == 'u' ? 10 : 16, width, pad);
            break;
        }
        case 'p':
            put_pointer(&sink, (uintptr_t)va_arg(args, void *), width);
            break;
        case 's':
            put_string(&sink, va_arg(args, const char *), limit, width);
            break;
        case 'c': {
            char c = (char)va_arg(args, int);

            put_padded(&sink, &c, 1, width, ' ');
            break;
        }
        case '\0': /* a lone % at the end */
            put_character(&sink, '%');
            continue;
        default: /* %% and what is unknown stand for themselves */
            put_character(&sink, *format);
        }
        format++;
    }
    if (size)
        to[sink.length < size ? sink.length : size - 1] = '\0';
    return sink.length;
}

size_t rimf_format(char *to, size_t size, const char *format, ...)
{
    va_list args;
    size_t length;

    va_start(args, format);
    length = rimf_vformat(to, size, format, args);
    va_end(args);
    return length;
}

/* ---- hash --------------------------------------------------------------------------------------
 *
 * A hash against accidental damage.
 */

uint64_t rimf_hash_more(uint64_t hash, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    uint64_t word;

    for (; size >= sizeof word; at += sizeof word, size -= sizeof word) {
        memcpy(&word, at, sizeof word);
        hash = rimf_mix(hash, word);
    }
    if (size) {
        word = 0;
        memcpy(&word, at, size);
        hash = rimf_mix(hash, word);
    }
    return hash;
}

/* The length is hashed first, so that trailing zeros count. */
uint64_t rimf_hash(const void *bytes, size_t size)
{
    return rimf_hash_more(rimf_mix(0, size), bytes, size);
}

/* ---- order by address --------------------------------------------------------------------------
 *
 * Heap sort, in place: it needs no memory and no recursion.
 */

/* ---- order by address: heap sort, in place */

static uintptr_t key_at(const char *elements, size_t size, size_t i)
{
    return *(const uintptr_t *)(const void *)(elements + i * size);
}

/* Most are single words. */
static inline void move(void *to, const void *from, size_t size)
{
    if (size == sizeof(uintptr_t))
        *(uintptr_t *)to = *(const uintptr_t *)from;
    else
        memcpy(to, from, size);
}

static void sift(char *elements, size_t root, size_t n, size_t size)
{
    _Alignas(8) char moving[RIMF_SORT_MAX];
    uintptr_t key = key_at(elements, size, root);

    move(moving, elements + root * size, size);
    for (size_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && key_at(elements, size, child + 1) > key_at(elements, size, child))
            child++;
        if (key_at(elements, size, child) <= key)
            break;
        move(elements + root * size, elements + child * size, size);
    }
    move(elements + root * size, moving, size);
}

void rimf_sort(void *array, size_t n, size_t size)
{
    char *elements = array;
    _Alignas(8) char last[RIMF_SORT_MAX];
    size_t i = 1;

    while (i < n && key_at(elements, size, i - 1) <= key_at(elements, size, i))
        i++;
    if (i >= n)
        return;
    for (i = n / 2; i-- > 0;)
        sift(elements, i, n, size);
    for (i = n; i-- > 1;) {
        move(last, elements + i * size, size);
        move(elements + i * size, elements, size);
        move(elements, last, size);
        sift(elements, 0, i, size);
    }
}
