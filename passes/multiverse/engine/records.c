/* SPDX-License-Identifier: MIT
 *
 * records.c: turns the records of one object into points and switches.  A record with a wrong field
 * is refused alone, with a sentence that names object and record (gather.c has already walked the
 * chains).
 */
#include "passes/multiverse/engine/engine.h"

#define PAD_REACH 64u /* the pad follows the entry after at most endbr64 and profiling NOPs */

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

/* Reads the address at the distance, or in the GOT slot there: 1, or 0 if the slot is outside. */
static int read_slot(struct mv_unit *unit, const int32_t *field, int direct, size_t offset,
                     uintptr_t *out)
{
    uintptr_t slot = mv_distance(field);

    if (direct) { /* the caller checks whether it is data */
        *out = slot;
        return 1;
    }
    if (slot % 8 || !mv_holds(unit->object, &unit->data, slot, 8, PROT_READ))
        return 0;
    *out = *(const volatile uintptr_t *)slot;
    *out += *out ? offset : 0; /* undefined and weak: no address */
    return 1;
}

/* A switch must be whole in readable and writable memory of some object. */
static int switch_is_readable(struct mv_engine *engine, uintptr_t address, unsigned width)
{
    const struct mvld_object *object = engine->api->object_find(engine->image, address);

    return object &&
           engine->api->object_holds(object, address, width, PROT_READ | PROT_WRITE) == 1;
}

/* A commit would miss it. */
static void no_memory(struct mv_engine *engine, const struct mv_unit *unit, const char *what, const char *name)
{
    mv_refuse(engine, "%s: multiverse %s %s: out of memory", unit->object->name, what, name);
    engine->incomplete = 1;
}

/* Returns the switch at this address, creating it if it is new.  NULL: refused. */
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
        no_memory(engine, unit, what, name);
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

/* Does nothing if the unit already has a point for the constant. */
static void gather_constant(struct mv_engine *engine, struct mv_unit *unit, struct mv_switch *sw,
                            const char *name, int is_loaded)
{
    struct mv_point *point = mv_constant_of(engine, unit, sw->address);

    if (point) {
        point->is_loaded |= is_loaded;
        return;
    }
    point = &unit->points[unit->n_points];
    *point = (struct mv_point){.name = name, .variable = sw->address, .n_guards = 1,
                               .guards = unit->guards + unit->n_points, .variant = -1,
                               .wanted_variant = -1, .word = MV_NO_WORD, .other = MV_NO_WORD,
                               .is_loaded = (uint8_t)is_loaded};
    point->guards[0] = sw;
    if (!mv_enter_point(engine, point)) {
        no_memory(engine, unit, "constant", name);
        memset(point, 0, sizeof *point);
        return;
    }
    point->unit = unit;
    unit->n_points++;
    mv_count_functions(point, 1);
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
    if (!read_slot(unit, &record->slot, record->flags & MULTIVERSE_SWITCH_DIRECT,
                   record->offset, &address)) {
        mv_refuse(engine, "%s: multiverse switch %s: its slot lies outside", object, name);
        return;
    }
    if (!address) /* weak and undefined: cannot be set or read */
        return;
    sw = take_switch(engine, unit, address, record->width, record->flags, "switch", name);
    if (!sw)
        return;
    if (record->flags & MULTIVERSE_SWITCH_TRACKED && !(sw->flags & MULTIVERSE_SWITCH_TRACKED))
        sw->bound = 0;
    sw->flags |= record->flags;
    name_switch(engine, sw, name);
    if (record->flags & MULTIVERSE_SWITCH_CONSTANT)
        gather_constant(engine, unit, sw, name, !!(record->flags & MULTIVERSE_SWITCH_UNRECORDED));
}

/* Returns the error in a function's record, or NULL. */
static const char *function_fault(struct mv_unit *unit, const struct multiverse_function *f)
{
    const struct multiverse_variant *v = (const void *)(f + 1);
    const struct multiverse_guard *g = (const void *)(v + f->n_variants);
    size_t fields = sizeof *f + f->n_variants * sizeof *v + f->n_guards * sizeof *g;
    uintptr_t body = mv_distance(&f->body), pad = mv_distance(&f->pad);
    int is_pointer = f->flags & MULTIVERSE_FUNCTION_POINTER;
    int is_inline = f->flags & MULTIVERSE_FUNCTION_INLINE;

    if (fields > f->size)
        return "its variants and guards are truncated";
    if (!name_is_good(f, f->size, fields, f->name))
        return "its name lies outside";
    if (!mv_holds(unit->object, &unit->code, body, 1, PROT_READ | PROT_EXEC))
        return "its body lies outside the object's code";
    if ((!is_inline && (pad < body || pad - body > PAD_REACH)) ||
        !mv_holds(unit->object, &unit->code, pad, mv_pad_size(f), PROT_READ | PROT_EXEC))
        return "its entry pad lies outside";
    if (pad - unit->object->start > MV_UNIT_MAX)
        return "it lies more than 4 GiB into the object";
    if (f->flags & MULTIVERSE_FUNCTION_BRANCH && !is_inline)
        return "it is a branch, and no inline call";
    if (is_pointer ? f->n_variants || !f->pointer || is_inline : !is_inline != !f->pointer)
        return "it is half a function pointer, or half an inline call";
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

/* Returns 1, or 0 if a guard's switch is refused. */
static int gather_guards(struct mv_engine *engine, struct mv_unit *unit, struct mv_point *point)
{
    const struct multiverse_guard *guards = mv_guards(point);
    const char *name = point->name;

    for (size_t i = 0; i < point->n_guards; i++) {
        uintptr_t address;

        if (!read_slot(unit, &guards[i].slot, guards[i].flags & MULTIVERSE_SWITCH_DIRECT,
                       guards[i].offset, &address)) {
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

struct mv_point *mv_constant_of(struct mv_engine *engine, const struct mv_unit *unit,
                                uintptr_t variable)
{
    struct mv_point *point = mv_table_get(&engine->points, variable);

    while (point && (!mv_is_constant(point) || point->unit != unit))
        point = point->peer;
    return point;
}

struct mv_point *mv_recorded_constant(struct mv_engine *engine, struct mv_unit *unit, uintptr_t at,
                                      size_t room)
{
    const struct multiverse_switch *record = (const void *)at;
    uintptr_t address;

    if (room < sizeof *record || !read_slot(unit, &record->slot, record->flags & MULTIVERSE_SWITCH_DIRECT,
                                            record->offset, &address))
        return NULL;
    return mv_constant_of(engine, unit, address);
}

void mv_count_functions(struct mv_point *point, int by)
{
    for (size_t i = 0; i < point->n_guards; i++) {
        size_t before = 0;

        while (before < i && point->guards[before] != point->guards[i])
            before++;
        if (before == i && point->guards[i])
            *(point->is_inline ? &point->guards[i]->n_inline : &point->guards[i]->n_functions) +=
                (uint32_t)by;
    }
}

struct mv_point *mv_function_of(const struct mv_engine *engine, const struct mv_point *point)
{
    struct mv_point *function =
        point->is_inline ? mv_table_get(&engine->points, point->variable) : NULL;

    return function && !function->unit->closing ? function : NULL;
}

int mv_enter_point(struct mv_engine *engine, struct mv_point *point)
{
    struct mv_point *first = mv_table_get(&engine->points, point->variable);
    int is_first = point->variable && !point->orphaned && !first;

    if (point->is_inline) /* it refers to its function */
        return 1;
    /* All or nothing: the caller reuses the element of a refused point. */
    if (mv_table_room(engine, &engine->points, 1 + is_first))
        return 0;
    if (point->body)
        mv_table_put(engine, &engine->points, point->body, point);
    if (is_first) {
        mv_table_put(engine, &engine->points, point->variable, point);
    } else if (first && !point->orphaned) {
        point->peer = first->peer;
        first->peer = point;
    }
    return 1;
}

static int pad_is_original_at(const struct mv_engine *engine, const struct mv_point *point,
                              uintptr_t at)
{
    unsigned size = mv_pad_size(point->record);
    uint64_t bytes = mv_bytes_at(at, size);
    intptr_t distance = (int32_t)(bytes >> (8 * size - 32));

    if (!point->is_inline)
        return bytes == MV_PAD_NOP;
    if (size == MV_BRANCH_SIZE ? (bytes & 0xfeff) != 0x840f /* je rel32, jne rel32 */
                               : (bytes & 0xff) != 0xe9)    /* jmp rel32 */
        return 0;
    return mv_original(engine, at + size + (uintptr_t)distance) == mv_distance(&point->record->body);
}

int mv_pad_is_original(const struct mv_engine *engine, const struct mv_point *point)
{
    uintptr_t moved;
    int runs_original = mv_places(engine, point->pad, &moved);

    return (!runs_original || pad_is_original_at(engine, point, point->pad)) &&
           (!moved || pad_is_original_at(engine, point, moved));
}

/* Reads the variable or function that the record names besides its body; returns an error sentence,
 * or NULL. */
static const char *read_leads(struct mv_engine *engine, struct mv_unit *unit,
                              const struct multiverse_function *record, struct mv_point *point)
{
    int known = record->pointer &&
                read_slot(unit, &record->pointer, record->flags & MULTIVERSE_FUNCTION_DIRECT, 0,
                          &point->variable);

    if (point->is_inline)
        point->variable = mv_original(engine, point->variable);
    else if (record->flags & MULTIVERSE_FUNCTION_POINTER &&
             (!known || !switch_is_readable(engine, point->variable, 8) || point->variable % 8))
        return "it is in no object's data";
    return point->is_inline && !known ? "its function's slot lies outside" : NULL;
}

/* Returns 1 if `point` was filled, 0 if the record was left out. */
static int gather_function(struct mv_engine *engine, struct mv_unit *unit, size_t index,
                           const struct multiverse_function *record, struct mv_point *point)
{
    const char *object = unit->object->name, *fault = function_fault(unit, record), *name;

    if (fault) {
        mv_refuse(engine, "%s: multiverse function %zu: %s", object, index, fault);
        return 0;
    }
    point->record = record;
    point->name = name = (const char *)record + record->name;
    point->n_guards = record->n_guards;
    point->is_inline = !!(record->flags & MULTIVERSE_FUNCTION_INLINE);
    point->body = point->is_inline ? 0 : mv_distance(&record->body);
    point->pad = mv_distance(&record->pad);
    point->variant = point->wanted_variant = -1;
    if (point->body && mv_table_get(&engine->points, point->body))
        return 0; /* the same function again */
    if (!mv_pad_is_original(engine, point)) {
        mv_refuse(engine, "%s: multiverse function %s: no %s", object, name,
                  point->is_inline ? "jump at its inline call" : "NOP at its entry");
        return 0;
    }
    fault = read_leads(engine, unit, record, point);
    if (fault) {
        mv_refuse(engine, "%s: multiverse function%s %s: %s", object,
                  point->is_inline ? "" : " pointer", name, fault);
        return 0;
    }
    if (!gather_guards(engine, unit, point))
        return 0;
    if (!mv_enter_point(engine, point)) {
        no_memory(engine, unit, "function", name);
        return 0;
    }
    mv_count_functions(point, 1);
    point->unit = unit;
    return 1;
}

void mv_gather_records(struct mv_engine *engine, struct mv_unit *unit)
{
    size_t n, n_guards, n_pads = 0, index = 0;

    unit->n_points = 0;
    for (struct mv_tables *t = unit->tables; t; t = t->next)
        for (uintptr_t at = t->switches; at < t->switches_end; at += *(const uint32_t *)at)
            gather_switch(engine, unit, index++, (const void *)at);
    n = n_guards = unit->n_points; /* constants have one each */
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
        if (unit->points[i].pad)
            unit->by_pad[n_pads++] = (struct mv_entry){unit->points[i].pad, &unit->points[i]};
    unit->n_pads = n_pads;
    rimf_sort(unit->by_pad, n_pads, sizeof *unit->by_pad);
}
