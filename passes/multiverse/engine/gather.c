/* SPDX-License-Identifier: MIT
 *
 * gather.c: from notes and tables to units, points and switches.
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

void mv_release_tables(struct mv_engine *engine, struct mv_tables *tables)
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
        mv_release_tables(engine, notes.tables);
        if (!notes.failed)
            return mv_fail(engine, ENOEXEC, "%s: its notes are truncated", object->name);
        return err;
    }
    if (!notes.tables)
        return 0;
    if (object->why) {
        mv_release_tables(engine, notes.tables);
        return mv_fail(engine, EPERM, "%s: its functions and calls stay as they are: %s",
                       object->name, object->why);
    }
    unit = engine->api->alloc(engine->image, sizeof *unit);
    if (!unit) {
        mv_release_tables(engine, notes.tables);
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
        mv_release_tables(engine, unit->tables);
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
