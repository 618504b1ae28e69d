/* SPDX-License-Identifier: MIT
 *
 * gather.c: from notes and tables to units, points and switches; and from there to nothing.
 *
 * Descriptors are not trusted.  Order, for each object:
 *
 *   1. its notes, equal ones once: version, three ranges, each inside a segment
 *   2. the chain of records in each range is walked to its end; a record whose
 *      size is wrong makes every later one meaningless, so it refuses the
 *      object before anything was built
 *   3. one allocation holds the unit's points and guards
 *   4. switches, then functions: a record with a wrong field is refused alone,
 *      with a sentence that names object and record
 *
 * Two records of one address: switches must agree; for functions the first is used, because a
 * linker folds only functions that are equal including their variants.  A function pointer has a
 * stub in each object that calls through it: these are peers and bound together.
 */
#include "passes/multiverse/engine/engine.h"

struct notes {
    struct mv_engine *engine;
    const struct mvld_object *object;
    struct mv_tables *tables;
    int failed; /* a note was wrong; the sentence is recorded */
};

static void release_tables(struct mv_engine *engine, struct mv_tables *tables)
{
    while (tables) {
        struct mv_tables *next = tables->next;

        engine->api->release(engine->image, tables);
        tables = next;
    }
}

/* Whether a range is empty or consists of whole records inside one readable segment. */
static int range_is_good(const struct mvld_object *object, uintptr_t start, uintptr_t end,
                         uintptr_t align)
{
    const struct mvld_segment *segment = NULL;

    return start == end || (start < end && start % align == 0 &&
                            mv_holds(object, &segment, start, end - start, PROT_READ));
}

static int take_note(void *cookie, const void *desc, size_t size)
{
    struct notes *notes = cookie;
    struct mv_engine *engine = notes->engine;
    const struct multiverse_note *note = desc;
    const char *name = notes->object->name;
    struct mv_tables at = {0}, *known;

    notes->failed = 1;
    if (size < sizeof *note)
        return mv_fail(engine, ENOEXEC, "%s: multiverse note: %zu bytes, %zu expected", name, size,
                       sizeof *note);
    if (note->version != MULTIVERSE_VERSION)
        return mv_fail(engine, ENOEXEC, "%s: multiverse note: version %u, this is %u", name,
                       note->version, MULTIVERSE_VERSION);
    at.functions = mv_distance(&note->functions);
    at.functions_end = mv_distance(&note->functions_end);
    at.callsites = mv_distance(&note->callsites);
    at.callsites_end = mv_distance(&note->callsites_end);
    at.switches = mv_distance(&note->switches);
    at.switches_end = mv_distance(&note->switches_end);
    if (!range_is_good(notes->object, at.functions, at.functions_end, 8))
        return mv_fail(engine, ENOEXEC, "%s: multiverse note: functions lie outside", name);
    if (!range_is_good(notes->object, at.callsites, at.callsites_end, 4))
        return mv_fail(engine, ENOEXEC, "%s: multiverse note: call sites lie outside", name);
    if (!range_is_good(notes->object, at.switches, at.switches_end, 8))
        return mv_fail(engine, ENOEXEC, "%s: multiverse note: switches lie outside", name);
    for (known = notes->tables; known; known = known->next)
        if (known->functions == at.functions && known->functions_end == at.functions_end &&
            known->callsites == at.callsites && known->callsites_end == at.callsites_end &&
            known->switches == at.switches && known->switches_end == at.switches_end)
            return notes->failed = 0;
    known = engine->api->alloc(engine->image, sizeof *known);
    if (!known)
        return mv_fail(engine, ENOMEM, "%s: out of memory for its descriptors", name);
    *known = at;
    known->next = notes->tables;
    notes->tables = known;
    return notes->failed = 0;
}

/* The size of the record at `at` if it is inside [at, end), or 0. */
static size_t record_size(uintptr_t at, uintptr_t end, size_t least)
{
    uint32_t size;

    if (end - at < least)
        return 0;
    size = *(const uint32_t *)at; /* aligned: ranges and sizes are */
    return size >= least && size % 8 == 0 && size <= end - at ? size : 0;
}

/* Walks the chains of records: counts them, or returns the sentence of the first error. */
static int measure(struct mv_engine *engine, struct mv_unit *unit)
{
    const char *name = unit->object->name;

    for (struct mv_tables *t = unit->tables; t; t = t->next) {
        size_t index = 0, size;

        for (uintptr_t at = t->functions; at < t->functions_end; at += size, index++) {
            const struct multiverse_function *f = (const void *)at;

            size = record_size(at, t->functions_end, sizeof *f);
            if (!size)
                return mv_fail(engine, ENOEXEC, "%s: multiverse function %zu: record is truncated",
                               name, index);
            unit->n_points++;
            if (f->n_guards <= size / sizeof(struct multiverse_guard))
                unit->n_guards += f->n_guards;
        }
        index = 0;
        for (uintptr_t at = t->switches; at < t->switches_end; at += size, index++) {
            size = record_size(at, t->switches_end, sizeof(struct multiverse_switch));
            if (!size)
                return mv_fail(engine, ENOEXEC, "%s: multiverse switch %zu: record is truncated",
                               name, index);
            if (((const struct multiverse_switch *)at)->flags & MULTIVERSE_SWITCH_CONSTANT) {
                unit->n_points++;
                unit->n_guards++;
            }
        }
        if ((t->callsites_end - t->callsites) % sizeof(struct multiverse_callsite))
            return mv_fail(engine, ENOEXEC, "%s: multiverse call sites: the last is truncated",
                           name);
        unit->n_sites += (t->callsites_end - t->callsites) / sizeof(struct multiverse_callsite);
    }
    return 0;
}

/* Inserts into the list, by address.  Many at once arrive in ascending or descending order: search
 * behind the previous one, or at the beginning. */
static void enter_unit(struct mv_engine *engine, struct mv_unit *unit, struct mv_unit **before)
{
    struct mv_unit **last = &engine->units;

    if (*before && (*before)->object->start < unit->object->start)
        last = &(*before)->next;
    while (*last && (*last)->object->start < unit->object->start)
        last = &(*last)->next;
    unit->next = *last;
    *last = *before = unit;
}

static int gather_object(struct mv_engine *engine, const struct mvld_object *object, struct mv_unit **before)
{
    struct notes notes = {.engine = engine, .object = object};
    struct mv_unit *unit;
    int err = engine->api->note_each(object, MULTIVERSE_NOTE_NAME, MULTIVERSE_NOTE_TABLES,
                                     take_note, &notes);

    if (err) {
        release_tables(engine, notes.tables);
        if (!notes.failed)
            return mv_fail(engine, ENOEXEC, "%s: its notes are truncated", object->name);
        return err;
    }
    if (!notes.tables)
        return 0;
    if (object->why) {
        release_tables(engine, notes.tables);
        return mv_fail(engine, EPERM, "%s: its functions and calls stay as they are: %s",
                       object->name, object->why);
    }
    unit = engine->api->alloc(engine->image, sizeof *unit);
    if (!unit) {
        release_tables(engine, notes.tables);
        return -ENOMEM;
    }
    unit->object = object;
    unit->tables = notes.tables;
    err = measure(engine, unit);
    if (!err && unit->n_points) {
        size_t points = unit->n_points * sizeof *unit->points;
        size_t pads = unit->n_points * sizeof *unit->by_pad;

        unit->points = engine->api->alloc(
            engine->image, points + pads + unit->n_guards * sizeof *unit->guards);
        unit->by_pad = (struct mv_entry *)(void *)((char *)unit->points + points);
        unit->guards = (struct mv_switch **)(void *)((char *)unit->by_pad + pads);
        err = unit->points ? 0 : -ENOMEM;
    }
    if (err) {
        release_tables(engine, unit->tables);
        engine->api->release(engine->image, unit);
        return err;
    }
    unit->fresh = 1;
    engine->settled = 0;
    mv_gather_records(engine, unit);
    enter_unit(engine, unit, before);
    return 0;
}

int mv_added(struct mv_engine *engine, const struct mvld_object *const *objects, size_t n)
{
    struct mv_reply *reply = engine->reply;
    struct mv_unit *before = NULL;
    int err = 0;

    engine->other = mv_attach(engine, objects, n);
    if (engine->other && !engine->units)
        return mv_fail(engine, EALREADY, "the process has a multiverse engine already");
    engine->reply = NULL; /* a refused object does not fail the call */
    for (size_t i = 0; i < n && err != -ENOMEM; i++) {
        err = objects[i]->flags & MVLD_OBJECT_OPAQUE ? 0 : gather_object(engine, objects[i], &before);
        if (err && err != -ENOMEM)
            mv_refuse(engine, "%s", engine->api->last_error(engine->image));
    }
    engine->reply = reply;
    if (err != -ENOMEM)
        return 0;
    engine->incomplete = 1;
    return mv_fail(engine, ENOMEM, "out of memory for descriptors");
}

/* ---- closed objects */

/* Do not touch their memory: it is unmapped, or something else is mapped there. */

/* Another object may be mapped between two segments, for instance a kernel module. */
static int holds_address(const struct mvld_object *const *objects, size_t n, uintptr_t address)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < objects[i]->n_segments; k++)
            if (address >= objects[i]->segments[k].start && address < objects[i]->segments[k].end)
                return 1;
    return 0;
}

static int is_gone(const struct mvld_object *const *objects, size_t n,
                   const struct mvld_object *object)
{
    for (size_t i = 0; i < n; i++)
        if (objects[i] == object)
            return 1;
    return 0;
}

/* Rebuilds the tables by address from the remaining units.  They are large enough, so nothing can
 * fail. */
static void rebuild(struct mv_engine *engine)
{
    mv_table_clear(&engine->points);
    mv_table_clear(&engine->by_switch);
    for (struct mv_unit *u = engine->units; u; u = u->next)
        for (size_t i = 0; i < u->n_points; i++) {
            u->points[i].peer = NULL;
            mv_enter_point(engine, &u->points[i]);
        }
    for (struct mv_switch *sw = engine->switches; sw; sw = sw->next)
        if (sw->address)
            mv_table_put(engine, &engine->by_switch, sw->address, sw);
}

static void drop_switches(struct mv_engine *engine, const struct mvld_object *const *objects,
                          size_t n)
{
    for (struct mv_switch **at = &engine->switches; *at;) {
        struct mv_switch *sw = *at;

        if (holds_address(objects, n, sw->address))
            sw->address = 0;
        if (sw->address || sw->n_functions || sw->n_inline) {
            at = &sw->next;
            continue;
        }
        *at = sw->next;
        engine->api->release(engine->image, sw->name);
        engine->api->release(engine->image, sw);
    }
}

/* Removes the units of closed objects from the list and returns them. */
static struct mv_unit *take_out(struct mv_engine *engine, const struct mvld_object *const *objects,
                                size_t n)
{
    struct mv_unit *gone = NULL;

    for (struct mv_unit **at = &engine->units; *at;) {
        struct mv_unit *unit = *at;

        if (!is_gone(objects, n, unit->object)) {
            at = &unit->next;
            continue;
        }
        *at = unit->next;
        unit->next = gone;
        unit->object = NULL; /* visible to holders of its points */
        gone = unit;
    }
    return gone;
}

static void want_generic(struct mv_point *point)
{
    point->wanted = 0;
    point->wanted_variant = -1;
    point->wanted_value = point->value;
    point->selected = point->dirty = 1;
}

static void release_unit(struct mv_engine *engine, struct mv_unit *unit)
{
    for (size_t i = 0; i < unit->n_points; i++)
        mv_count_functions(&unit->points[i], -1);
    release_tables(engine, unit->tables);
    engine->api->release(engine->image, unit->slots);
    engine->api->release(engine->image, unit->words);
    engine->api->release(engine->image, unit->sites);
    engine->api->release(engine->image, unit->points);
    engine->api->release(engine->image, unit);
}

/* Forgets the points of a closed object. */
static void forget_points(struct mv_unit *unit)
{
    for (size_t i = 0; unit->sites_read && i < unit->n_sites; i++)
        if (unit->sites[i].point && !unit->sites[i].point->unit->object)
            unit->sites[i].point = NULL;
    for (size_t i = 0; i < unit->n_slots; i++)
        if (unit->slots[i].point && !unit->slots[i].point->unit->object)
            unit->slots[i].point = NULL;
}

void mv_removed(struct mv_engine *engine, const struct mvld_object *const *objects, size_t n)
{
    struct mv_unit *gone = take_out(engine, objects, n);

    for (size_t i = 0; i < n; i++)
        mv_forget_refusals(engine, objects[i]->name);
    mv_link_stretches(engine);
    /* Remaining sites that were bound to closed objects get the linker's bytes back. */
    for (struct mv_unit *u = gone; u; u = u->next)
        for (size_t i = 0; i < u->n_points; i++)
            want_generic(&u->points[i]);
    for (struct mv_unit *u = engine->units; u; u = u->next)
        for (size_t i = 0; i < u->n_points; i++) {
            struct mv_point *p = &u->points[i];

            if (!p->variable || p->is_inline)
                continue;
            p->orphaned |= holds_address(objects, n, p->variable) != 0;
            if (p->orphaned || holds_address(objects, n, p->target))
                want_generic(p);
        }
    mv_write(engine, 1); /* refusals are in the report */
    for (struct mv_unit *u = gone ? engine->units : NULL; u; u = u->next)
        forget_points(u);
    for (struct mv_unit *u = gone, *next; u; u = next) {
        next = u->next;
        release_unit(engine, u);
    }
    if (gone)
        mv_link_sites(engine);
    drop_switches(engine, objects, n); /* before the tables are rebuilt */
    rebuild(engine);
}
