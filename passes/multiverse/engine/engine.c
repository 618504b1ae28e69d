/* SPDX-License-Identifier: MIT
 *
 * engine.c: the engine's lock, look-ups, and connections to libmultiverse; its tables.
 */
#include "passes/multiverse/engine/engine.h"

/* ---- lock */

int mv_lock(struct mv_engine *engine, struct mv_reply *reply)
{
    int err = rimf_lock_acquire(engine->sys, &engine->lock);

    if (err < 0) {
        static const char text[] = "called while this thread changes code: from a signal handler";

        if (reply)
            memcpy(reply->error, text, sizeof text);
        return err;
    }
    engine->reply = reply;
    engine->some_closing = 0;
    for (struct mv_unit *u = engine->units; u; u = u->next)
        u->closing = 0;
    if (err == RIMF_LOCK_INHERITED)
        mv_repair(engine);
    return 0;
}

void mv_unlock(struct mv_engine *engine)
{
    engine->reply = NULL;
    rimf_lock_release(engine->sys, &engine->lock);
}

struct mv_pin *mv_find_pin(struct mv_reply *reply, uintptr_t bias, const void *dynamic)
{
    for (size_t i = 0; i < reply->n_pins; i++)
        if (reply->pins[i].bias == bias && reply->pins[i].dynamic == dynamic)
            return &reply->pins[i];
    return NULL;
}

/* Marks units whose object another thread is closing; the call skips them.  -EAGAIN: an object came
 * after the pins were taken. */
static int mark_closing(struct mv_engine *engine)
{
    struct mv_reply *reply = engine->reply;

    for (struct mv_unit *u = engine->units; reply && reply->pins && u; u = u->next) {
        struct mv_pin *pin = mv_find_pin(reply, u->object->bias, u->object->dynamic);
        if (!pin || !(pin->fixed || pin->needed))
            return -EAGAIN;
        u->closing = !pin->fixed && !pin->handle;
        engine->some_closing |= u->closing;
    }
    return 0;
}

int mv_enter(struct mv_engine *engine, struct mv_reply *reply)
{
    int err = mv_lock(engine, reply);

    if (err)
        return err;
    engine->operation++;
    err = engine->refresh ? engine->refresh(engine) : 0;
    if (!err)
        err = mark_closing(engine);
    if (err) {
        if (err != -EAGAIN)
            mv_fail(engine, -err, "the objects of the process could not be listed: %s",
                    engine->api->last_error(engine->image));
        mv_unlock(engine);
    }
    return err;
}

/* ---- look-ups */

struct mv_point *mv_find_point(struct mv_engine *engine, uintptr_t address)
{
    struct mv_point *point;

    address = mv_original(engine, address);
    point = mv_table_get(&engine->points, address);
    if (point && point->unit->closing)
        return NULL;
    /* In a non-PIE, &function is the address of its own PLT entry. */
    if (!point && address && engine->api->object_find(engine->image, address))
        point = mv_table_get(&engine->points, engine->api->plt_target(engine->image, address));
    return point;
}

struct mv_switch *mv_find_switch(struct mv_engine *engine, uintptr_t address)
{
    return mv_table_get(&engine->by_switch, address);
}

/* ---- copies of libmultiverse */

struct attaching {
    struct mv_engine *engine;
    const struct mvld_object *object;
    struct mv_engine *other; /* the engine that a link already has */
    int look_only;
};

static int attach(void *cookie, const void *desc, size_t size)
{
    struct attaching *a = cookie;
    const struct mv_library_note *note = desc;
    struct mv_engine *there;
    struct mv_link *link;

    if (size < sizeof *note || note->abi != MV_LINK_ABI)
        return 0;
    link = (struct mv_link *)mv_distance(&note->link);
    if ((uintptr_t)link % 8 ||
        a->engine->api->object_holds(a->object, (uintptr_t)link, sizeof *link,
                                     PROT_READ | PROT_WRITE) != 1 ||
        link->size != sizeof *link || link->abi != MV_LINK_ABI)
        return 0;
    there = __atomic_load_n(&link->engine, __ATOMIC_ACQUIRE);
    if (there && there != a->engine)
        a->other = there;
    else if (!a->look_only)
        __atomic_store_n(&link->engine, a->engine, __ATOMIC_RELEASE);
    return 0;
}

struct mv_engine *mv_attach(struct mv_engine *engine, const struct mvld_object *const *objects,
                            size_t n)
{
    struct attaching a = {.engine = engine};

    for (a.look_only = 1; a.look_only >= 0 && !a.other; a.look_only--)
        for (size_t i = 0; i < n; i++) {
            a.object = objects[i];
            engine->api->note_each(objects[i], MULTIVERSE_NOTE_NAME, MULTIVERSE_NOTE_LIBRARY, attach, &a);
        }
    return a.other;
}

/* ---- tables */

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
