/* SPDX-License-Identifier: MIT
 *
 * loader/config/config.c: what a configuration says, entry by entry; or why not.
 */
#include "rimf/base/base.h"

#include "loader/config/config.h"

#include <errno.h>

int refuse(const struct why *why, int err, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    rimf_vformat(why->text, why->size, format, arguments);
    va_end(arguments);
    return -err;
}

int refuse_at(const struct why *why, int err, const char *file, unsigned line, const char *format,
              ...)
{
    va_list arguments;
    size_t used;

    if (line)
        used = rimf_format(why->text, why->size, "%s:%u: ", file, line);
    else
        used = rimf_format(why->text, why->size, "%s: ", file);
    if (used < why->size) {
        va_start(arguments, format);
        rimf_vformat(why->text + used, why->size - used, format, arguments);
        va_end(arguments);
    }
    return -err;
}

void config_list_words(const char *const *words, char *to, size_t size)
{
    size_t used = 0;

    to[0] = 0;
    for (size_t i = 0; words[i] && used < size; i++)
        used += rimf_format(to + used, size - used, "%s%s", i ? ", " : "", words[i]);
}

/* ---- the keys and values of a block ----------------------------------------------------- */

#define KEYS_MAX 1000u /* of one program; a file with more is no configuration */

int config_no_memory(const struct why *why)
{
    return refuse(why, ENOMEM, "there is no memory for the configuration");
}

const struct config_entry *config_find(const struct config *config, const char *section,
                                       const char *key)
{
    const struct config_entry *e = config->entries;

    while (e && !(rimf_streq(e->section, section) && rimf_streq(e->key, key)))
        e = e->next;
    return e;
}

/* Adds section.key.  If it exists, `replace` says whether it gets the new value, or is refused. */
static int put_entry(struct rimf_heap *heap, struct config *config, const struct config_entry *entry, int replace,
                     const struct why *why)
{
    struct config_entry *there =
        (struct config_entry *)config_find(config, entry->section, entry->key);

    if (there && !replace)
        return refuse_at(why, EINVAL, entry->file, entry->line, "'%s' of [%s] is said twice, first in line %u",
                         entry->key, entry->section, there->line);
    if (!there) {
        if (config->n_entries == KEYS_MAX)
            return refuse_at(why, E2BIG, entry->file, entry->line, "there are more than %u keys for one program",
                             KEYS_MAX);
        there = rimf_heap_alloc(heap, sizeof(*there));
        if (!there)
            return config_no_memory(why);
        if (!config->tail)
            config->tail = &config->entries;
        *config->tail = there;
        config->tail = &there->next;
        config->n_entries++;
    }
    struct config_entry *next = there->next;
    *there = *entry;
    there->next = next;
    return 0;
}

static int load_key(struct rimf_heap *heap, const char *section, const struct ini_item *item, struct config *config,
                    const struct why *why)
{
    char *raw = rimf_heap_copy_part(heap, item->value.at, item->value.length);
    char *text = rimf_heap_alloc(heap, item->value.length + 1);
    struct config_entry entry = {
        .section = section,
        .key = rimf_heap_copy_part(heap, item->name.at, item->name.length),
        .raw = {raw, item->value.length},
        .text = text,
        .file = config->file,
        .line = item->line,
    };

    if (!raw || !text || !entry.key)
        return config_no_memory(why);
    if (ini_text(item->value, text) < 0)
        entry.text = NULL;
    return put_entry(heap, config, &entry, 0, why);
}

int config_load(struct rimf_heap *heap, const char *text, size_t length, struct config *config,
                const struct why *why)
{
    const char *section = "app", *phrase;
    struct ini_item item;
    struct ini ini;

    ini_begin(&ini, text, length, config->line);
    for (;;) {
        if (ini_next(&ini, &item, &phrase)) /* the syntax was checked before */
            return refuse_at(why, EINVAL, config->file, item.line, "%s", phrase);
        if (item.kind == INI_END)
            return 0;
        if (item.kind == INI_SECTION) {
            section = rimf_heap_copy_part(heap, item.name.at, item.name.length);
            if (!section)
                return config_no_memory(why);
            continue;
        }
        int error = load_key(heap, section, &item, config, why);
        if (error)
            return error;
    }
}

/* ---- MVLD_TUNABLES --------------------------------------------------------------------------- */

/* MVLD_TUNABLES=pass.option=value:pass.option=value
 *
 * Like glibc's tunables, with one addition: inside a value "\:" is a colon and "\\" a backslash.
 * The section `app` sets keys of [app].  The last setting wins.
 */

/* Copies one item, up to the next colon, without its escapes. */
static int take_item(struct rimf_heap *heap, const char **at, char **out, const struct why *why)
{
    const char *p = *at;
    size_t length = 0, n = 0;

    while (p[length] && p[length] != ':') {
        unsigned char c = (unsigned char)p[length];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return refuse_at(why, EINVAL, CONFIG_TUNABLES, 0, "there is a control character");
        if (c == '\\' && p[length + 1] != ':' && p[length + 1] != '\\')
            return refuse_at(why, EINVAL, CONFIG_TUNABLES, 0,
                             "a backslash stands only before ':' or a backslash");
        length += c == '\\' ? 2 : 1;
    }
    if (length > INI_LINE_MAX)
        return refuse_at(why, EINVAL, CONFIG_TUNABLES, 0, "one item is longer than %u bytes",
                         INI_LINE_MAX);
    char *to = rimf_heap_alloc(heap, length + 1);
    if (!to)
        return config_no_memory(why);
    for (size_t i = 0; i < length; i++) {
        if (p[i] == '\\')
            i++;
        to[n++] = p[i];
    }
    *at = p + length + (p[length] == ':');
    *out = to;
    return 0;
}

/* Splits "section.key=value" in place. */
static int put_item(struct rimf_heap *heap, char *item, struct config *config, const struct why *why)
{
    char *dot = item, *equals;

    while (*dot && *dot != '.' && *dot != '=')
        dot++;
    for (equals = dot; *equals && *equals != '='; equals++)
        ;
    if (*dot != '.' || *equals != '=' || equals == dot + 1 ||
        !ini_is_name((struct ini_slice){item, (size_t)(dot - item)}))
        return refuse_at(why, EINVAL, CONFIG_TUNABLES, 0, "'%s' is not pass.option=value", item);
    *dot = *equals = 0;
    struct config_entry entry = {
        .section = item,
        .key = dot + 1,
        .raw = {equals + 1, rimf_strlen(equals + 1)},
        .text = equals + 1,
        .file = CONFIG_TUNABLES,
    };
    if (rimf_streq(item, "app")) {
        struct ini_slice key = {dot + 1, (size_t)(equals - dot - 1)};
        int error = config_check_app(key, entry.raw, CONFIG_TUNABLES, 0, why);
        if (error)
            return error;
    }
    return put_entry(heap, config, &entry, 1, why);
}

int config_tunables(struct rimf_heap *heap, const char *tunables, struct config *config,
                    const struct why *why)
{
    while (*tunables) {
        if (*tunables == ':') { /* an empty item */
            tunables++;
            continue;
        }
        char *item = NULL;
        int error = take_item(heap, &tunables, &item, why);
        if (!error)
            error = put_item(heap, item, config, why);
        if (error)
            return error;
    }
    return 0;
}
