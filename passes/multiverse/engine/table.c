/* SPDX-License-Identifier: MIT
 *
 * table.c: a hash table from addresses to things.
 */
#include "passes/multiverse/engine/engine.h"

static size_t place_of(const struct mv_table *table, uintptr_t key)
{
    /* Functions are 16-byte aligned, so low bits carry little information: Fibonacci hashing. */
    size_t at = (size_t)((uint64_t)key * 0x9e3779b97f4a7c15u >> 32) & (table->capacity - 1);

    while (table->entries[at].key && table->entries[at].key != key)
        at = (at + 1) & (table->capacity - 1);
    return at;
}

static int grow(struct mv_engine *engine, struct mv_table *table)
{
    struct mv_table bigger = {.capacity = table->capacity ? table->capacity * 2 : 64,
                              .used = table->used};

    bigger.entries = engine->api->alloc(engine->image, bigger.capacity * sizeof *bigger.entries);
    if (!bigger.entries)
        return -ENOMEM;
    for (size_t i = 0; i < table->capacity; i++)
        if (table->entries[i].key)
            bigger.entries[place_of(&bigger, table->entries[i].key)] = table->entries[i];
    engine->api->release(engine->image, table->entries);
    *table = bigger;
    return 0;
}

int mv_table_room(struct mv_engine *engine, struct mv_table *table, size_t n)
{
    while ((table->used + n) * 2 > table->capacity)
        if (grow(engine, table))
            return -ENOMEM;
    return 0;
}

int mv_table_put(struct mv_engine *engine, struct mv_table *table, uintptr_t key, void *value)
{
    if (mv_table_room(engine, table, 1))
        return -ENOMEM;

    struct mv_entry *entry = &table->entries[place_of(table, key)];

    table->used += !entry->key;
    *entry = (struct mv_entry){key, value};
    return 0;
}

void *mv_table_get(const struct mv_table *table, uintptr_t key)
{
    return key && table->used ? table->entries[place_of(table, key)].value : NULL;
}

/* There is no removal of one key: the caller clears the table and puts back the remaining ones,
 * which needs no memory. */
void mv_table_clear(struct mv_table *table)
{
    if (table->capacity)
        memset(table->entries, 0, table->capacity * sizeof *table->entries);
    table->used = 0;
}
