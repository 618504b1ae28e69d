/* SPDX-License-Identifier: MIT
 *
 * Strings, numbers and formatting agree with libc's.  A failure means that
 * messages, configured numbers or names are read or shown wrongly.
 */
#include "rimf/base/base.h"

#include "../../check.h"

#include <errno.h>
#include <limits.h>

/* The same text, the same length, and nothing written behind `size`, for every
 * size from 0 to enough. */
#define SAME(...)                                                                      \
    do {                                                                               \
        char want[256], is[256];                                                       \
        int length = snprintf(want, sizeof want, __VA_ARGS__);                         \
        for (size_t size = 0; size < (size_t)length + 3; size++) {                     \
            snprintf(want, size, __VA_ARGS__);                                         \
            memset(is, 'Q', sizeof is);                                                \
            CHECK(rimf_format(is, size, __VA_ARGS__) == (size_t)length);               \
            CHECK(size == 0 || strcmp(is, want) == 0, "(%s, want %s)", is, want);      \
            CHECK(is[size] == 'Q');                                                    \
        }                                                                              \
    } while (0)

static void formats(void)
{
    SAME("plain %% text");
    SAME("%s|%10s|%.3s|%.*s|%2s", "name", "pad", "cut short", 4, "limited", "wide");
    SAME("%d %d %d %d", 0, -1, INT_MAX, INT_MIN);
    SAME("%u %u", 0u, UINT_MAX);
    SAME("%ld %ld %lld %lu", LONG_MIN, LONG_MAX, -5LL, ULONG_MAX);
    SAME("%x %lx %02x %016lx %8x", 0xabu, 0xdeadbeefcafeUL, 7u, 0x1234UL, 0xffu);
    SAME("%zu %zu", (size_t)0, SIZE_MAX);
    SAME("%5d|%05d|%05d|%*d", 42, 42, -42, 7, -9);
    SAME("%c%c|%3c", 'a', 'b', 'c');
    SAME("%p", (void *)0x7f0012345678);
}

static void numbers(void)
{
    static const struct {
        const char *text;
        int result;
        int64_t value;
    } cases[] = {
        {"0", 0, 0}, {"-0", 0, 0}, {"12", 0, 12}, {"-12", 0, -12}, {"0x1F", 0, 31},
        {"-0xa", 0, -10},
        {"9223372036854775807", 0, INT64_MAX}, {"-9223372036854775808", 0, INT64_MIN},
        {"9223372036854775808", -ERANGE, 0}, {"-9223372036854775809", -ERANGE, 0},
        {"0x7fffffffffffffff", 0, INT64_MAX}, {"0x8000000000000000", -ERANGE, 0},
        {"99999999999999999999999999", -ERANGE, 0}, {"99999999999999999999999999x", -EINVAL, 0},
        {"", -EINVAL, 0}, {"-", -EINVAL, 0}, {"0x", -EINVAL, 0}, {"1 ", -EINVAL, 0},
        {" 1", -EINVAL, 0}, {"+1", -EINVAL, 0}, {"1a", -EINVAL, 0}, {"0xg", -EINVAL, 0},
    };

    for (size_t i = 0; i < RIMF_COUNT(cases); i++) {
        int64_t value = 0;

        CHECK(rimf_parse_int(cases[i].text, &value) == cases[i].result, "(%s)", cases[i].text);
        CHECK(value == cases[i].value, "(%s is %ld)", cases[i].text, (long)value);
    }
}

static void strings(void)
{
    CHECK(rimf_strlen("") == 0 && rimf_strlen("abc") == 3);
    CHECK(rimf_streq("a", "a") && !rimf_streq("a", "ab") && !rimf_streq("ab", "a"));
    CHECK(rimf_streq(NULL, NULL) && !rimf_streq(NULL, "") && !rimf_streq("", NULL));
    CHECK(rimf_strncmp("abc", "abd", 2) == 0 && rimf_strncmp("abc", "abd", 3) < 0);
    CHECK(rimf_strncmp("b", "abc", 9) > 0 && rimf_strncmp("a", "a", 9) == 0);
    CHECK(rimf_strncmp("\xff", "a", 1) > 0);
    CHECK_STR(rimf_after("pass.option", "pass."), "option");
    CHECK(rimf_after("pa", "pass") == NULL);
    CHECK_STR(rimf_strrchr("/a/b", '/'), "/b");
    CHECK(rimf_strrchr("ab", '/') == NULL && *rimf_strrchr("ab", '\0') == '\0');
}

int main(void)
{
    formats();
    numbers();
    strings();
    return 0;
}
