/* SPDX-License-Identifier: MIT
 *
 * switch/answer.c: see answer.h.
 */
#include "tools/switch/answer.h"
#include "tools/common/tools.h"

#include "mvld/descriptor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The next field of a line, which is terminated at its tab; the last one contains the whole rest. */
static const char *next_field(char **at)
{
    char *field = *at, *tab = field ? strchr(field, '\t') : NULL;

    if (tab)
        *tab = 0;
    *at = tab ? tab + 1 : NULL;
    return field ? field : "";
}

static uint64_t next_number(char **at, int base)
{
    return strtoull(next_field(at), NULL, base);
}

static void parse_switch(struct answer *a, char *at)
{
    a->switches = must_grow(a->switches, a->n_switches + 1, sizeof *a->switches);
    struct live_switch *s = &a->switches[a->n_switches++];

    s->name = next_field(&at);
    s->address = next_number(&at, 16);
    s->width = (unsigned)next_number(&at, 10);
    s->flags = (unsigned)next_number(&at, 16);
    s->value = next_number(&at, 16);
    s->is_bound = next_number(&at, 10) != 0;
    s->n_functions = next_number(&at, 10);
}

static void parse_function(struct answer *a, char *at)
{
    a->functions = must_grow(a->functions, a->n_functions + 1, sizeof *a->functions);
    struct live_function *f = &a->functions[a->n_functions++];

    f->name = next_field(&at);
    f->object = next_field(&at);
    f->address = next_number(&at, 16);
    f->kind = next_field(&at);
    f->n_variants = next_number(&at, 10);
    f->n_sites = next_number(&at, 10);
    f->active = next_field(&at);
    f->outcome = next_field(&at);
    f->why = next_field(&at);
    f->asks = at ? at : "";
}

int answer_parse(struct answer *a, char *text)
{
    *a = (struct answer){.text = text};
    for (char *line = text, *end; *line; line = end + 1) {
        char kind = *line;

        end = strchr(line, '\n');
        if (!end || line[1] != '\t' || (kind != 's' && kind != 'f'))
            return -1;
        *end = 0;
        if (kind == 's')
            parse_switch(a, line + 2);
        else
            parse_function(a, line + 2);
    }
    return 0;
}

void answer_free(struct answer *a)
{
    free(a->text);
    free(a->switches);
    free(a->functions);
}

/* ---- values */

static void limits(const struct live_switch *s, uint64_t *low, uint64_t *high)
{
    unsigned bits = s->flags & MULTIVERSE_SWITCH_BOOL ? 1 : s->width * 8;
    int is_signed = s->flags & MULTIVERSE_SWITCH_SIGNED && bits > 1;

    *high = is_signed ? (UINT64_C(1) << (bits - 1)) - 1 : bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    *low = is_signed ? ~*high : 0;
}

static void print_value(const struct live_switch *s, uint64_t value, char to[24])
{
    snprintf(to, 24, s->flags & MULTIVERSE_SWITCH_SIGNED ? "%" PRId64 : "%" PRIu64, value);
}

void switch_value(const struct live_switch *s, char to[24])
{
    print_value(s, s->value, to);
}

void switch_type(const struct live_switch *s, char type[16], char low[24], char high[24])
{
    uint64_t least, greatest;

    limits(s, &least, &greatest);
    print_value(s, least, low);
    print_value(s, greatest, high);
    if (s->flags & MULTIVERSE_SWITCH_BOOL)
        strcpy(type, "bool");
    else
        snprintf(type, 16, "%sint%u", s->flags & MULTIVERSE_SWITCH_SIGNED ? "" : "u", s->width * 8);
}

int switch_parse(const struct live_switch *s, const char *text, uint64_t *value)
{
    int negative = *text == '-', is_signed = (s->flags & MULTIVERSE_SWITCH_SIGNED) != 0;
    uint64_t low, high;
    char *end;

    limits(s, &low, &high);
    if (s->flags & MULTIVERSE_SWITCH_BOOL && (!strcmp(text, "true") || !strcmp(text, "false"))) {
        *value = *text == 't';
        return 0;
    }
    errno = 0;
    *value = negative ? (uint64_t)strtoll(text, &end, 0) : strtoull(text, &end, 0);
    if (errno || end == text || *end || (negative && !is_signed))
        return -1;
    if (negative)
        return (int64_t)*value < (int64_t)low ? -1 : 0;
    return *value > high ? -1 : 0;
}
