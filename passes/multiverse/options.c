/* SPDX-License-Identifier: MIT
 *
 * options.c: initial values of switches from the configuration.
 *
 * A switch is named as in its source.  Static switches of several units may share a name; then none
 * is written, because the name is ambiguous.
 */
#include "passes/multiverse/options.h"

int mv_parse_value(const char *text, unsigned width, unsigned flags, uint64_t *out)
{
    int minus = *text == '-', err;
    unsigned bits = width * 8;
    uint64_t value, most;

    err = rimf_parse_unsigned(text + minus, &value);
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

/* A switch of that name, or NULL; counts those, and the new ones among them. */
static struct mv_switch *find_named(struct mv_engine *engine, const char *name, unsigned *n, unsigned *n_new)
{
    struct mv_switch *found = NULL;

    *n = *n_new = 0;
    for (struct mv_switch *sw = engine->switches; sw; sw = sw->next) {
        if (!sw->address || !sw->name || !rimf_streq(sw->name, name))
            continue;
        found = sw;
        ++*n;
        *n_new += !sw->configured;
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
        unsigned n_named, n_new;

        if (!name)
            continue;
        sw = find_named(engine, name, &n_named, &n_new);
        if (!sw)
            engine->api->log(engine->image, MVLD_LOG_PASSES,
                             "multiverse: %s: no object has such a switch so far", setting->name);
        else if (n_new && n_named > 1)
            mv_refuse(engine, "%s:%u: %s: several switches have this name, none is changed",
                      setting->file, setting->line, setting->name);
        else if (n_new && set)
            set_one(engine, setting, name, sw);
        else if (n_new)
            bind_one(engine, setting, name, sw);
    }
    for (struct mv_switch *sw = engine->switches; sw; sw = sw->next)
        sw->configured = 1;
}
