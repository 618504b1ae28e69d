/* SPDX-License-Identifier: MIT
 *
 * Numbers and format strings of any bytes.  rimf_parse_int must accept only what it
 * can print back to the same value, and rimf_format must stay inside its buffer.
 * Formats get four pointers to one string, which every conversion may read as it
 * likes.
 */
#include "rimf/base/base.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void number(const char *text)
{
    char printed[32];
    int64_t value, again;

    if (rimf_parse_int(text, &value))
        return;
    rimf_format(printed, sizeof printed, "%ld", (long)value);
    if (rimf_parse_int(printed, &again) || again != value || strtoll(text, NULL, 0) != value) {
        /* A leading 0 is decimal here and octal there. */
        if (text[text[0] == '-'] != '0')
            abort();
    }
}

/* Widths are cut to two digits, and `*` taken out: who writes formats is us. */
static void format(char *text, const char *argument)
{
    size_t digits = 0;
    char *to = malloc(64);

    for (char *at = text; *at; at++) {
        digits = *at >= '0' && *at <= '9' ? digits + 1 : 0;
        if (digits > 2 || *at == '*')
            *at = 'x';
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-security"
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    for (size_t n = 0; n <= 64; n += 16) {
        size_t length = rimf_format(to, n, text, argument, argument, argument, argument);

        if (n && strlen(to) != (length < n ? length : n - 1))
            abort();
    }
#pragma GCC diagnostic pop
    free(to);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    size_t conversions = 0;

    memcpy(text, data, size);
    text[size] = '\0';
    number(text);
    for (size_t i = 0; text[i]; i++)
        conversions += text[i] == '%';
    if (conversions <= 4)
        format(text, "argument");
    free(text);
    return 0;
}
