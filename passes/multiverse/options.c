/* SPDX-License-Identifier: MIT
 *
 * options.c: initial values of switches from the configuration.
 *
 * A switch is named as in its source.  Static switches of several units may share a name; then none
 * is written, because the name is ambiguous.
 */
#include "passes/multiverse/options.h"

/* Parses digits to a number below 2^64: 0, -EINVAL, or -ERANGE. */
static int parse_digits(const char *text, unsigned base, uint64_t *out)
{
    uint64_t value = 0;

    if (!*text)
        return -EINVAL;
    for (; *text; text++) {
        unsigned digit = *text >= '0' && *text <= '9'   ? (unsigned)(*text - '0')
                         : *text >= 'a' && *text <= 'f' ? (unsigned)(*text - 'a' + 10)
                         : *text >= 'A' && *text <= 'F' ? (unsigned)(*text - 'A' + 10)
                                                        : 16u;

        if (digit >= base)
            return -EINVAL;
        if (__builtin_mul_overflow(value, (uint64_t)base, &value) ||
            __builtin_add_overflow(value, (uint64_t)digit, &value))
            return -ERANGE;
    }
    *out = value;
    return 0;
}

int mv_parse_value(const char *text, unsigned width, unsigned flags, uint64_t *out)
{
    int minus = *text == '-', err;
    unsigned bits = width * 8;
    uint64_t value, most;

    text += minus;
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
        err = parse_digits(text + 2, 16, &value);
    else
        err = parse_digits(text, 10, &value);
    if (err)
        return err;
    if (flags & MULTIVERSE_SWITCH_SIGNED)
        most = ((uint64_t)1 << (bits - 1)) - !minus;
    else if (minus)
        most = 0;
    else
        most = flags & MULTIVERSE_SWITCH_BOOL ? 1 : UINT64_MAX >> (64 - bits);
    if (value > most)
        return -ERANGE;
    *out = minus ? -value : value;
    return 0;
}

static void write_switch(struct mv_switch *sw, uint64_t value)
{
    memcpy((void *)sw->address, &value, sw->width); /* little endian: the low bytes */
}

/* The only switch of that name that is not configured yet, or NULL. */
static struct mv_switch *find_named(struct mv_engine *engine, const char *name, int *several)
{
    struct mv_switch *found = NULL;

    *several = 0;
    for (struct mv_switch *sw = engine->switches; sw; sw = sw->next) {
        if (!sw->address || !sw->name || !rimf_streq(sw->name, name))
            continue;
        *several |= found != NULL;
        found = sw;
    }
    return found;
}

static void set_one(struct mv_engine *engine, const struct mvld_setting *setting,
                    const char *name, struct mv_switch *sw)
{
    uint64_t value;
    int err = mv_parse_value(setting->text, sw->width, sw->flags, &value);

    if (err == -ERANGE)
        mv_refuse(engine, "%s:%u: set.%s = %s: out of range for %u bytes, %s", setting->file,
                  setting->line, name, setting->text, sw->width,
                  sw->flags & MULTIVERSE_SWITCH_SIGNED ? "signed"
                  : sw->flags & MULTIVERSE_SWITCH_BOOL ? "bool"
                                                       : "unsigned");
    else if (err)
        mv_refuse(engine, "%s:%u: set.%s = %s: not a number", setting->file, setting->line, name,
                  setting->text);
    else
        write_switch(sw, value);
}

static void bind_one(struct mv_engine *engine, const struct mvld_setting *setting,
                     const char *name, struct mv_switch *sw)
{
    uint64_t value;

    if (!(sw->flags & MULTIVERSE_SWITCH_TRACKED))
        mv_refuse(engine, "%s:%u: bind.%s: the switch is not tracked", setting->file,
                  setting->line, name);
    else if (mv_parse_value(setting->text, 1, MULTIVERSE_SWITCH_BOOL, &value))
        mv_refuse(engine, "%s:%u: bind.%s = %s: 0 or 1 is expected", setting->file,
                  setting->line, name, setting->text);
    else
        sw->bound = (uint8_t)value;
}

void mv_configure(struct mv_engine *engine, const struct mvld_setting *settings, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct mvld_setting *setting = &settings[i];
        const char *set = rimf_after(setting->name, "set.");
        const char *name = set ? set : rimf_after(setting->name, "bind.");
        struct mv_switch *sw;
        int several;

        if (!name)
            continue;
        sw = find_named(engine, name, &several);
        if (!sw)
            engine->api->log(engine->image, MVLD_LOG_PASSES,
                             "multiverse: %s: no object has such a switch so far", setting->name);
        else if (several)
            mv_refuse(engine, "%s:%u: %s: several switches have this name, none is changed",
                      setting->file, setting->line, setting->name);
        else if (!sw->configured && set)
            set_one(engine, setting, name, sw);
        else if (!sw->configured)
            bind_one(engine, setting, name, sw);
    }
    for (struct mv_switch *sw = engine->switches; sw; sw = sw->next)
        sw->configured = 1;
}
