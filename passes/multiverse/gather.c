/* SPDX-License-Identifier: MIT
 *
 * gather.c: from notes and tables to units, points and switches.
 *
 * Nothing in a descriptor is believed.  Order, for each object:
 *
 *   1. its notes, equal ones once: version, three ranges, each inside a segment
 *   2. the chain of records in each range is walked to its end; a record whose
 *      size is wrong makes every later one meaningless, so it refuses the
 *      object before anything was built
 *   3. one allocation holds the unit's points and guards
 *   4. switches, then functions: a record with a wrong field is refused alone,
 *      with a sentence that names object and record
 *
 * Two records of one address: switches must agree; of functions the first
 * stands, since a linker folds only functions that are alike with their
 * variants.  A function pointer has a stub in each object that calls through
 * it: those are peers, bound together.
 */
#include "engine.h"

#define PAD_REACH 64u /* the pad follows the entry, endbr64 and profiling NOPs at most */

struct notes {
    struct mv_engine *engine;
    const struct mvld_object *object;
    struct mv_tables *tables;
    int failed; /* a note was wrong, and the sentence is recorded */
};

static void release_tables(struct mv_engine *engine, struct mv_tables *tables)
{
    while (tables) {
        struct mv_tables *next = tables->next;

        engine->api->release(engine->image, tables);
        tables = next;
    }
}

/* A range of whole records inside one readable segment, or empty. */
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

/* The record at `at` whole inside [at, end): its size, or 0. */
static size_t record_size(uintptr_t at, uintptr_t end, size_t least)
{
    uint32_t size;

    if (end - at < least)
        return 0;
    size = *(const uint32_t *)at; /* aligned: ranges and sizes are */
    return size >= least && size % 8 == 0 && size <= end - at ? size : 0;
}

/* The name is NUL-terminated inside the record and behind its fields. */
static int name_is_good(const void *record, size_t size, size_t from, size_t name)
{
    if (name < from || name >= size)
        return 0;
    for (size_t i = name; i < size; i++)
        if (!((const char *)record)[i])
            return 1;
    return 0;
}

/* Walks the chains of records: counts, or the sentence of the first break. */
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
        }
        if ((t->callsites_end - t->callsites) % sizeof(struct multiverse_callsite))
            return mv_fail(engine, ENOEXEC, "%s: multiverse call sites: the last is truncated",
                           name);
        unit->n_sites += (t->callsites_end - t->callsites) / sizeof(struct multiverse_callsite);
    }
    return 0;
}

/* The address in the GOT slot that the distance leads to: 1, or 0 when the slot
 * lies outside. */
static int read_slot(struct mv_unit *unit, const int32_t *field, uintptr_t *out)
{
    uintptr_t slot = mv_distance(field);

    if (slot % 8 || !mv_holds(unit->object, &unit->data, slot, 8, PROT_READ))
        return 0;
    *out = *(const volatile uintptr_t *)slot;
    return 1;
}

/* A switch must be whole in readable and writable memory of some object. */
static int switch_is_readable(struct mv_engine *engine, uintptr_t address, unsigned width)
{
    const struct mvld_object *object = engine->api->object_find(engine->image, address);

    return object &&
           engine->api->object_holds(object, address, width, PROT_READ | PROT_WRITE) == 1;
}

/* The switch at this address, new when it was not known.  NULL: refused. */
static struct mv_switch *take_switch(struct mv_engine *engine, struct mv_unit *unit,
                                     uintptr_t address, unsigned width, unsigned flags,
                                     const char *what, const char *name)
{
    struct mv_switch *known = mv_table_get(&engine->by_switch, address), **last;

    if (known) {
        if (known->width == width && !((known->flags ^ flags) & MULTIVERSE_SWITCH_SIGNED))
            return known;
        mv_refuse(engine, "%s: multiverse %s %s: switch %s is %u bytes %s here and %u bytes %s "
                  "elsewhere", unit->object->name, what, name, known->name, width,
                  flags & MULTIVERSE_SWITCH_SIGNED ? "signed" : "unsigned", known->width,
                  known->flags & MULTIVERSE_SWITCH_SIGNED ? "signed" : "unsigned");
        return NULL;
    }
    if (!switch_is_readable(engine, address, width)) {
        mv_refuse(engine, "%s: multiverse %s %s: switch at %p is in no object's data",
                  unit->object->name, what, name, (void *)address);
        return NULL;
    }
    known = engine->api->alloc(engine->image, sizeof *known);
    if (!known || mv_table_put(engine, &engine->by_switch, address, known)) {
        engine->api->release(engine->image, known);
        mv_refuse(engine, "%s: multiverse %s %s: out of memory", unit->object->name, what, name);
        return NULL;
    }
    known->address = address;
    known->width = (uint8_t)width;
    known->flags = (uint8_t)flags;
    known->bound = !(flags & MULTIVERSE_SWITCH_TRACKED);
    for (last = &engine->switches; *last; last = &(*last)->next)
        ;
    return *last = known;
}

static void name_switch(struct mv_engine *engine, struct mv_switch *sw, const char *name)
{
    size_t size = rimf_strlen(name) + 1;

    if (sw->name)
        return;
    sw->name = engine->api->alloc(engine->image, size);
    if (sw->name)
        memcpy(sw->name, name, size);
}

static int width_is_good(unsigned width)
{
    return width == 1 || width == 2 || width == 4 || width == 8;
}

static void gather_switch(struct mv_engine *engine, struct mv_unit *unit, size_t index,
                          const struct multiverse_switch *record)
{
    const char *object = unit->object->name, *name = (const char *)record + record->name;
    struct mv_switch *sw;
    uintptr_t address;

    if (!name_is_good(record, record->size, sizeof *record, record->name)) {
        mv_refuse(engine, "%s: multiverse switch %zu: its name lies outside", object, index);
        return;
    }
    if (!width_is_good(record->width)) {
        mv_refuse(engine, "%s: multiverse switch %s: %u bytes wide", object, name, record->width);
        return;
    }
    if (!read_slot(unit, &record->slot, &address)) {
        mv_refuse(engine, "%s: multiverse switch %s: its slot lies outside", object, name);
        return;
    }
    if (!address) /* weak and undefined: nothing can be set or read */
        return;
    sw = take_switch(engine, unit, address, record->width, record->flags, "switch", name);
    if (!sw)
        return;
    if (record->flags & MULTIVERSE_SWITCH_TRACKED && !(sw->flags & MULTIVERSE_SWITCH_TRACKED))
        sw->bound = 0;
    sw->flags |= record->flags;
    name_switch(engine, sw, name);
}

/* What is wrong with a function's record, or NULL. */
static const char *function_fault(struct mv_unit *unit, const struct multiverse_function *f)
{
    const struct multiverse_variant *v = (const void *)(f + 1);
    const struct multiverse_guard *g = (const void *)(v + f->n_variants);
    size_t fields = sizeof *f + f->n_variants * sizeof *v + f->n_guards * sizeof *g;
    uintptr_t body = mv_distance(&f->body), pad = mv_distance(&f->pad);
    int is_pointer = f->flags & MULTIVERSE_FUNCTION_POINTER;

    if (fields > f->size)
        return "its variants and guards are truncated";
    if (!name_is_good(f, f->size, fields, f->name))
        return "its name lies outside";
    if (!mv_holds(unit->object, &unit->code, body, 1, PROT_READ | PROT_EXEC))
        return "its body lies outside the object's code";
    if (pad < body || pad - body > PAD_REACH ||
        !mv_holds(unit->object, &unit->code, pad, MV_PAD_SIZE, PROT_READ | PROT_EXEC))
        return "its entry pad lies outside";
    if (is_pointer ? f->n_variants || !f->pointer : !!f->pointer)
        return "it is half a function pointer";
    for (size_t i = 0; i < f->n_variants; i++) {
        uintptr_t variant = mv_distance(&v[i].body);
        size_t size = v[i].body_size ? v[i].body_size : 1;

        if (!mv_holds(unit->object, &unit->code, variant, size, PROT_READ | PROT_EXEC))
            return "a variant lies outside the object's code";
        if (v[i].first_guard > f->n_guards || v[i].n_guards > f->n_guards - v[i].first_guard)
            return "a variant's guards lie outside";
        if (v[i].name && !name_is_good(f, f->size, fields, v[i].name))
            return "a variant's name lies outside";
    }
    for (size_t i = 0; i < f->n_guards; i++) {
        if (!width_is_good(g[i].width))
            return "a guard has an impossible width";
        if (g[i].flags & MULTIVERSE_SWITCH_SIGNED ? (int64_t)g[i].low > (int64_t)g[i].high
                                                  : g[i].low > g[i].high)
            return "a guard's range is empty";
    }
    return NULL;
}

/* 1, or 0 when a guard's switch is refused. */
static int gather_guards(struct mv_engine *engine, struct mv_unit *unit, struct mv_point *point)
{
    const struct multiverse_guard *guards = mv_guards(point);
    const char *name = mv_point_name(point);

    for (size_t i = 0; i < point->n_guards; i++) {
        uintptr_t address;

        if (!read_slot(unit, &guards[i].slot, &address)) {
            mv_refuse(engine, "%s: multiverse function %s: a guard's slot lies outside",
                      unit->object->name, name);
            return 0;
        }
        if (!address)
            continue; /* undefined weak: the guard never holds */
        point->guards[i] = take_switch(engine, unit, address, guards[i].width, guards[i].flags,
                                       "function", name);
        if (!point->guards[i])
            return 0;
    }
    return 1;
}

/* Each switch counts the functions that have variants for it. */
static void count_functions(struct mv_point *point, int by)
{
    for (size_t i = 0; i < point->n_guards; i++) {
        size_t before = 0;

        while (before < i && point->guards[before] != point->guards[i])
            before++;
        if (before == i && point->guards[i])
            point->guards[i]->n_functions += (uint32_t)by;
    }
}

/* Makes the point findable; a pointer's further stubs become peers.  1, or 0. */
static int enter_point(struct mv_engine *engine, struct mv_point *point)
{
    struct mv_point *first = mv_table_get(&engine->points, point->variable);

    if (point->orphaned)
        return !mv_table_put(engine, &engine->points, point->body, point);
    if (mv_table_put(engine, &engine->points, point->body, point))
        return 0;
    if (first) {
        point->peer = first->peer;
        first->peer = point;
    } else if (point->variable) {
        return !mv_table_put(engine, &engine->points, point->variable, point);
    }
    return 1;
}

/* 1 when `point` was filled, 0 when the record was left out. */
static int gather_function(struct mv_engine *engine, struct mv_unit *unit, size_t index,
                           const struct multiverse_function *record, struct mv_point *point)
{
    const char *object = unit->object->name, *fault = function_fault(unit, record), *name;

    if (fault) {
        mv_refuse(engine, "%s: multiverse function %zu: %s", object, index, fault);
        return 0;
    }
    point->record = record;
    point->n_guards = record->n_guards;
    point->body = mv_distance(&record->body);
    point->pad = mv_distance(&record->pad);
    point->variant = point->wanted_variant = -1;
    name = mv_point_name(point);
    if (mv_table_get(&engine->points, point->body))
        return 0; /* the same function once more */
    if (mv_bytes_at(point->pad, MV_PAD_SIZE) != MV_PAD_NOP) {
        mv_refuse(engine, "%s: multiverse function %s: no NOP at its entry", object, name);
        return 0;
    }
    point->pad_now = MV_PAD_NOP;
    if (record->flags & MULTIVERSE_FUNCTION_POINTER) {
        if (!read_slot(unit, &record->pointer, &point->variable) ||
            !switch_is_readable(engine, point->variable, 8) || point->variable % 8) {
            mv_refuse(engine, "%s: multiverse function pointer %s: it is in no object's data",
                      object, name);
            return 0;
        }
    }
    if (!gather_guards(engine, unit, point))
        return 0;
    if (!enter_point(engine, point)) {
        mv_refuse(engine, "%s: multiverse function %s: out of memory", object, name);
        return 0;
    }
    count_functions(point, 1);
    point->unit = unit;
    return 1;
}

static void gather_records(struct mv_engine *engine, struct mv_unit *unit)
{
    size_t n = 0, n_guards = 0, index = 0;

    for (struct mv_tables *t = unit->tables; t; t = t->next)
        for (uintptr_t at = t->switches; at < t->switches_end; at += *(const uint32_t *)at)
            gather_switch(engine, unit, index++, (const void *)at);
    index = 0;
    for (struct mv_tables *t = unit->tables; t; t = t->next)
        for (uintptr_t at = t->functions; at < t->functions_end; at += *(const uint32_t *)at) {
            struct mv_point *point = &unit->points[n];
            const struct multiverse_function *record = (const void *)at;

            point->guards = unit->guards + n_guards;
            if (gather_function(engine, unit, index++, record, point)) {
                n++;
                n_guards += record->n_guards;
            } else {
                memset(point, 0, sizeof *point);
            }
        }
    unit->n_points = n;
    for (size_t i = 0; i < n; i++)
        unit->by_pad[i] = (struct mv_entry){unit->points[i].pad, &unit->points[i]};
    mv_sort(unit->by_pad, n, sizeof *unit->by_pad);
}

static int gather_object(struct mv_engine *engine, const struct mvld_object *object)
{
    struct notes notes = {.engine = engine, .object = object};
    struct mv_unit *unit, **last;
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
    gather_records(engine, unit);
    for (last = &engine->units; *last && (*last)->object->start < object->start;
         last = &(*last)->next)
        ;
    unit->next = *last;
    *last = unit;
    return 0;
}

int mv_added(struct mv_engine *engine, const struct mvld_object *const *objects, size_t n)
{
    struct mv_reply *reply = engine->reply;
    int err = 0;

    engine->other = mv_attach(engine, objects, n);
    if (engine->other && !engine->units)
        return mv_fail(engine, EALREADY, "the process has a multiverse engine already");
    engine->reply = NULL; /* a refused object is no failure of the call */
    for (size_t i = 0; i < n && err != -ENOMEM; i++) {
        err = objects[i]->flags & MVLD_OBJECT_OPAQUE ? 0 : gather_object(engine, objects[i]);
        if (err && err != -ENOMEM)
            mv_refuse(engine, "%s", engine->api->last_error(engine->image));
    }
    engine->reply = reply;
    return err == -ENOMEM ? mv_fail(engine, ENOMEM, "out of memory for descriptors") : 0;
}

/* ---- objects that are gone: none of their memory may be touched */

static int holds_address(const struct mvld_object *const *objects, size_t n, uintptr_t address)
{
    for (size_t i = 0; i < n; i++)
        if (address >= objects[i]->start && address < objects[i]->end)
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

/* The tables from address are made anew of what remains.  They had room for
 * more, so nothing can fail. */
static void rebuild(struct mv_engine *engine)
{
    mv_table_clear(&engine->points);
    mv_table_clear(&engine->by_switch);
    for (struct mv_unit *u = engine->units; u; u = u->next)
        for (size_t i = 0; i < u->n_points; i++) {
            u->points[i].peer = NULL;
            enter_point(engine, &u->points[i]);
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
        if (sw->address || sw->n_functions) {
            at = &sw->next;
            continue;
        }
        *at = sw->next;
        engine->api->release(engine->image, sw->name);
        engine->api->release(engine->image, sw);
    }
}

/* Takes the units of closed objects out of the list and returns them. */
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
        unit->object = NULL; /* says so to whoever holds one of its points */
        gone = unit;
    }
    return gone;
}

static void want_generic(struct mv_point *point)
{
    point->wanted = 0;
    point->wanted_variant = -1;
    point->selected = point->dirty = 1;
}

static void release_unit(struct mv_engine *engine, struct mv_unit *unit)
{
    for (size_t i = 0; i < unit->n_points; i++)
        count_functions(&unit->points[i], -1);
    release_tables(engine, unit->tables);
    engine->api->release(engine->image, unit->sites);
    engine->api->release(engine->image, unit->points);
    engine->api->release(engine->image, unit);
}

void mv_removed(struct mv_engine *engine, const struct mvld_object *const *objects, size_t n)
{
    struct mv_unit *gone = take_out(engine, objects, n);

    /* Sites that remain lead into what is gone: back to what the linker wrote. */
    for (struct mv_unit *u = gone; u; u = u->next)
        for (size_t i = 0; i < u->n_points; i++)
            want_generic(&u->points[i]);
    for (struct mv_unit *u = engine->units; u; u = u->next)
        for (size_t i = 0; i < u->n_points; i++) {
            struct mv_point *p = &u->points[i];

            if (!p->variable)
                continue;
            p->orphaned |= holds_address(objects, n, p->variable) != 0;
            if (p->orphaned || holds_address(objects, n, p->target))
                want_generic(p);
        }
    mv_write(engine, 1); /* a refusal is in the report */
    for (struct mv_unit *u = engine->units; u; u = u->next)
        for (size_t i = 0; u->sites_read && i < u->n_sites; i++)
            if (u->sites[i].point && !u->sites[i].point->unit->object)
                u->sites[i].point = NULL;
    for (struct mv_unit *u = gone, *next; u; u = next) {
        next = u->next;
        release_unit(engine, u);
    }
    mv_link_sites(engine);
    rebuild(engine);
    drop_switches(engine, objects, n);
}
