/* SPDX-License-Identifier: MIT
 *
 * Numbers of the configuration as values of switches: what fits, what does not.
 */
#include <stdio.h>
#include <stdlib.h>

#include "passes/multiverse/options.h"

static const struct {
    const char *text;
    unsigned width, flags;
    int err;
    uint64_t value;
} cases[] = {
    {"0", 1, 0, 0, 0},
    {"255", 1, 0, 0, 255},
    {"256", 1, 0, -ERANGE, 0},
    {"-1", 1, 0, -ERANGE, 0},
    {"-0", 1, 0, 0, 0},
    {"127", 1, 1, 0, 127},
    {"128", 1, 1, -ERANGE, 0},
    {"-128", 1, 1, 0, (uint64_t)-128},
    {"-129", 1, 1, -ERANGE, 0},
    {"0", 1, MULTIVERSE_SWITCH_BOOL, 0, 0},
    {"1", 1, MULTIVERSE_SWITCH_BOOL, 0, 1},
    {"2", 1, MULTIVERSE_SWITCH_BOOL, -ERANGE, 0},
    {"-1", 1, MULTIVERSE_SWITCH_BOOL, -ERANGE, 0},
    {"0xffff", 2, 0, 0, 0xffff},
    {"0X10", 2, 1, 0, 16},
    {"-32768", 2, 1, 0, (uint64_t)-32768},
    {"4294967295", 4, 0, 0, 4294967295},
    {"4294967296", 4, 0, -ERANGE, 0},
    {"18446744073709551615", 8, 0, 0, UINT64_MAX},
    {"18446744073709551616", 8, 0, -ERANGE, 0},
    {"99999999999999999999999", 8, 0, -ERANGE, 0},
    {"9223372036854775807", 8, 1, 0, INT64_MAX},
    {"9223372036854775808", 8, 1, -ERANGE, 0},
    {"-9223372036854775808", 8, 1, 0, (uint64_t)INT64_MIN},
    {"-9223372036854775809", 8, 1, -ERANGE, 0},
    {"", 4, 0, -EINVAL, 0},
    {"-", 4, 1, -EINVAL, 0},
    {"0x", 4, 0, -EINVAL, 0},
    {"--1", 4, 1, -EINVAL, 0},
    {"1 ", 4, 0, -EINVAL, 0},
    {"true", 1, 0, -EINVAL, 0},
    {"12f", 4, 0, -EINVAL, 0},
};

static int fail(struct mvld_image *image, int err, const char *format, ...)
{
    (void)image, (void)format;
    return -err;
}

static void say(const struct mvld_image *image, uint32_t category, const char *format, ...)
{
    (void)image, (void)category, (void)format;
}

/* A name that two switches have is refused once for each event that brings one of them, and by no other. */
static int ambiguous(void)
{
    static char name[] = "debug";
    static const struct mvld_setting setting = {.name = "set.debug", .text = "1", .file = "conf", .line = 3};
    static const struct mvld_api api = {.fail = fail, .log = say};
    static struct mv_engine engine = {.api = &api};
    int first = 0, second = 0;
    struct mv_switch two = {.address = (uintptr_t)&second, .name = name, .width = 4};
    struct mv_switch one = {.address = (uintptr_t)&first, .name = name, .width = 4};
    size_t refused;

    engine.switches = &one;
    mv_configure(&engine, &setting, 1);
    if (first != 1 || engine.refusals_used)
        return 1;
    one.next = &two;
    first = 5;
    mv_configure(&engine, &setting, 1);
    refused = engine.refusals_used;
    if (!refused || first != 5 || second)
        return 2;
    mv_configure(&engine, &setting, 1);
    return engine.refusals_used != refused ? 3 : 0;
}

int main(void)
{
    int wrong = ambiguous();

    if (wrong) {
        fprintf(stderr, "switches of one name: step %d\n", wrong);
        return 1;
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t value = 0;
        int err = mv_parse_value(cases[i].text, cases[i].width, cases[i].flags, &value);

        if (err != cases[i].err || (!err && value != cases[i].value)) {
            fprintf(stderr, "\"%s\", %u bytes: %d, %lx\n", cases[i].text, cases[i].width, err,
                    (unsigned long)value);
            return 1;
        }
    }
    return 0;
}
