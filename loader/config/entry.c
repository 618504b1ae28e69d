/* SPDX-License-Identifier: MIT
 *
 * loader/config/entry.c: the keys and values of a block.
 */
#include "rimf/base/base.h"
#include "loader/config/config.h"

#include <errno.h>

#define KEYS_MAX 10000u /* of one program; a file with more is no configuration */

int config_no_memory(const struct why *why)
{
    return refuse(why, ENOMEM, "there is no memory for the configuration");
}

static uint32_t hash_of(const char *section, const char *key)
{
    uint32_t hash = 2166136261u;

    for (; *section; section++)
        hash = (hash ^ (unsigned char)*section) * 16777619u;
    for (hash = (hash ^ '.') * 16777619u; *key; key++)
        hash = (hash ^ (unsigned char)*key) * 16777619u;
    return hash;
}

const struct config_entry *config_find(const struct config *config, const char *section,
                                       const char *key)
{
    uint32_t hash = hash_of(section, key);
    const struct config_entry *e = config->entries;

    while (e && !(e->hash == hash && rimf_streq(e->section, section) && rimf_streq(e->key, key)))
        e = e->next;
    return e;
}

int config_put(struct rimf_heap *heap, struct config *config, const struct config_entry *entry,
               int replace, const struct why *why)
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
    there->hash = hash_of(entry->section, entry->key);
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
    return config_put(heap, config, &entry, 0, why);
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
