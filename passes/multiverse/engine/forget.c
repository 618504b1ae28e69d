/* SPDX-License-Identifier: MIT
 *
 * forget.c: closed objects.  Do not touch their memory: it is unmapped, or something else is mapped
 * there.
 */
#include "passes/multiverse/engine/engine.h"

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
    mv_release_tables(engine, unit->tables);
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
