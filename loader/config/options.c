/* SPDX-License-Identifier: MIT */
#include "loader/config/config.h"
#include "rimf/base/base.h"

#include <errno.h>

static const struct {
    const char *word;
    int64_t value;
} bools[] = {{"yes", 1}, {"no", 0},    {"on", 1}, {"off", 0},
             {"true", 1}, {"false", 0}, {"1", 1},  {"0", 0}};

static int bool_number(const char *text, int64_t *out)
{
    for (size_t i = 0; i < RIMF_COUNT(bools); i++)
        if (rimf_streq(text, bools[i].word)) {
            *out = bools[i].value;
            return 0;
        }
    return -EINVAL;
}

static int word_number(const struct mvld_option *o, const char *text, int64_t *out)
{
    for (int64_t i = 0; o->words[i]; i++)
        if (rimf_streq(text, o->words[i])) {
            *out = i;
            return 0;
        }
    return -EINVAL;
}

/* Fills in the number of `s`.  `pass` is for the sentence. */
static int check_value(const struct mvld_option *o, struct mvld_setting *s, const char *pass,
                       const struct why *why)
{
    char words[256];
    int error;

    switch (o->type) {
    case MVLD_OPTION_BOOL:
        if (bool_number(s->text, &s->number))
            return refuse_at(why, EINVAL, s->file, s->line,
                             "%s.%s is yes or no, not '%s'", pass, s->name, s->text);
        return 0;
    case MVLD_OPTION_INT:
        error = rimf_parse_int(s->text, &s->number);
        if (error == -EINVAL)
            return refuse_at(why, EINVAL, s->file, s->line, "%s.%s is a number, not '%s'", pass,
                             s->name, s->text);
        if (error || s->number < o->min || s->number > o->max)
            return refuse_at(why, ERANGE, s->file, s->line,
                             "%s.%s = %s is out of range: %ld to %ld", pass, s->name, s->text,
                             (long)o->min, (long)o->max);
        return 0;
    case MVLD_OPTION_WORD:
        if (!word_number(o, s->text, &s->number))
            return 0;
        config_list_words(o->words, words, sizeof(words));
        return refuse_at(why, EINVAL, s->file, s->line, "%s.%s = %s: it is one of %s", pass,
                         s->name, s->text, words);
    case MVLD_OPTION_STRING:
    case MVLD_OPTION_PREFIX:
    case MVLD_OPTION_FILE:
    case MVLD_OPTION_GONE:
        return 0;
    case MVLD_OPTION_SYMBOL:
        if (mvld_setting_symbol(s))
            return 0;
        return refuse_at(why, EINVAL, s->file, s->line, "%s.%s is LIBRARY:SYMBOL, not '%s'", pass, s->name, s->text);
    }
    return refuse_at(why, EINVAL, s->file, s->line, "%s.%s has an unknown type", pass, s->name);
}

/* The option that `key` belongs to, or NULL. */
static const struct mvld_option *find_option(const struct mvld_pass *pass, const char *key)
{
    const struct mvld_option *best = NULL;

    for (const struct mvld_option *o = pass->options; o && o->name; o++) {
        const char *rest;
        if (o->type != MVLD_OPTION_PREFIX) {
            if (rimf_streq(o->name, key))
                return o;
        } else if ((rest = rimf_after(key, o->name)) && *rest && !best) {
            best = o;
        }
    }
    return best;
}

int options_is(const struct mvld_pass *pass, const struct mvld_setting *setting, enum mvld_option_type type)
{
    const struct mvld_option *option = find_option(pass, setting->name);

    return option && option->type == type;
}

static int setting_of(const struct mvld_option *o, const struct config_entry *e,
                      const struct mvld_pass *pass, struct mvld_setting *out,
                      const struct why *why)
{
    if (!e->text)
        return refuse_at(why, EINVAL, e->file, e->line,
                         "%s.%s takes one value: put the whole of it between quotes", pass->name,
                         e->key);
    *out = (struct mvld_setting){e->key, e->text, 0, e->file, e->line};
    return check_value(o, out, pass->name, why);
}

static int default_of(const struct mvld_option *o, const struct mvld_pass *pass, const char *path,
                      struct mvld_setting *out, const struct why *why)
{
    int error = 0;

    *out = (struct mvld_setting){o->name, o->initial, 0, path, 0};
    if (o->initial)
        error = check_value(o, out, pass->name, why); /* an error of the pass itself */
    out->file = "";
    return error;
}

/* Reports keys that belong to no option; counts those of options. */
static int check_keys(const struct mvld_pass *pass, const struct config *config, size_t *n,
                      const struct why *why)
{
    for (const struct config_entry *e = config->entries; e; e = e->next) {
        if (!rimf_streq(e->section, pass->name))
            continue;
        if (!find_option(pass, e->key))
            return refuse_at(why, EINVAL, e->file, e->line, "the pass '%s' has no option '%s'",
                             pass->name, e->key);
        ++*n;
    }
    return 0;
}

int options_finish(struct rimf_heap *heap, const struct mvld_pass *pass, const char *pass_path,
                   const struct config *config, struct mvld_setting **settings, size_t *n,
                   const struct why *why)
{
    size_t room = 0;
    int error = check_keys(pass, config, &room, why);

    for (const struct mvld_option *o = pass->options; o && o->name; o++)
        room++;
    *n = 0;
    *settings = rimf_heap_alloc(heap, room * sizeof(**settings));
    if (!*settings && !error)
        error = refuse(why, ENOMEM, "there is no memory for the options of '%s'", pass->name);
    for (const struct mvld_option *o = pass->options; o && o->name && !error; o++) {
        const struct config_entry *e = config_find(config, pass->name, o->name);
        if (o->type != MVLD_OPTION_PREFIX) {
            struct mvld_setting *to = &(*settings)[(*n)++];
            error = e ? setting_of(o, e, pass, to, why)
                      : default_of(o, pass, pass_path, to, why);
            continue;
        }
        for (e = config->entries; e && !error; e = e->next)
            if (rimf_streq(e->section, pass->name) && find_option(pass, e->key) == o)
                error = setting_of(o, e, pass, &(*settings)[(*n)++], why);
    }
    return error;
}
