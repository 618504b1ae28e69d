/* SPDX-License-Identifier: MIT
 *
 * bind.c: selects the points that an operation reaches, and the wanted binding of each: a variant,
 * or 0 for the generic; for a constant its value, or a load.  write.c then writes it.
 */
#include "passes/multiverse/engine/engine.h"

static int has_guard_on(const struct mv_point *point, const struct mv_switch *sw)
{
    for (size_t i = 0; i < point->n_guards; i++)
        if (point->guards[i] == sw)
            return 1;
    return 0;
}

/* Selects again the points that a new object calls, or that could not be written. */
static void select_dirty(struct mv_point *point)
{
    if (point->selected || !point->dirty || point->unit->closing)
        return;
    point->selected = 1;
    mv_outcome_begin(point, 0);
    point->wanted = point->target;
    point->wanted_variant = point->variant;
    point->wanted_value = point->value;
}

static void decide(struct mv_engine *engine, struct mv_point *point, enum mv_action action,
                   int in_force)
{
    if (point->unit->closing)
        return;
    point->selected = 1;
    mv_outcome_begin(point, 1);
    if (action == MV_COMMIT) {
        mv_select(engine, point, in_force);
        return;
    }
    point->wanted = 0;
    point->wanted_variant = -1;
    point->wanted_value = point->value;
}

/* Whether a commit of everything would change nothing.  Not known while an object is being closed,
 * because its functions are skipped. */
static int is_settled(struct mv_engine *engine)
{
    if (!engine->settled || engine->some_closing || !mv_values_are_in_force(engine))
        return 0;
    if (engine->reply)
        engine->reply->status.n_unchanged = engine->settled;
    return 1;
}

/* The target of a function pointer must be read each time. */
static void settle(struct mv_engine *engine)
{
    uint32_t n = 0;

    for (struct mv_unit *u = engine->units; u; u = u->next)
        for (size_t i = 0; i < u->n_points; i++) {
            const struct mv_point *point = &u->points[i];

            if (point->dirty || point->outcome != MULTIVERSE_UNCHANGED || point->missed || u->closing ||
                (point->record && point->record->flags & MULTIVERSE_FUNCTION_POINTER))
                return;
            n += (uint32_t)mv_is_first(engine, point);
        }
    engine->settled = n;
}

int mv_apply(struct mv_engine *engine, enum mv_action action, enum mv_scope scope, uintptr_t what)
{
    struct mv_point *point = NULL;
    struct mv_switch *sw = NULL;
    int changed = mv_read_sites(engine);

    if (changed)
        return changed;
    if (action == MV_COMMIT && engine->incomplete)
        return mv_fail(engine, ENOMEM, "memory was short when an object came: what a commit would have "
                       "to change there is not known");
    if (scope == MV_REFS && !(sw = mv_find_switch(engine, what)))
        return mv_fail(engine, EINVAL, "%p is no switch", (void *)what);
    if (scope == MV_FUNCTION && !(point = mv_find_point(engine, what)))
        return mv_fail(engine, EINVAL, "%p is no variation point", (void *)what);
    if (action == MV_COMMIT)
        mv_read_switches(engine);
    if (action == MV_COMMIT && scope == MV_ALL && is_settled(engine))
        return 0;
    for (struct mv_point *p = point; p; p = p->peer)
        decide(engine, p, action, 0);
    for (struct mv_unit *u = engine->units; u; u = u->next)
        for (size_t i = 0; i < u->n_points; i++) {
            if (scope == MV_ALL || (sw && has_guard_on(&u->points[i], sw)) ||
                (point && mv_function_of(engine, &u->points[i]) == point))
                decide(engine, &u->points[i], action, 0);
            select_dirty(&u->points[i]);
        }
    changed = mv_write(engine, 0);
    if (changed >= 0 && scope != MV_FUNCTION)
        mv_remember(engine, action, sw);
    if (!changed && action == MV_COMMIT && scope == MV_ALL)
        settle(engine);
    return changed;
}

/* An inline call of a function that existed before: the values with which that was bound are
 * unknown.  It calls the function until the next commit. */
static int calls_known(const struct mv_engine *engine, const struct mv_point *point)
{
    const struct mv_point *function = mv_function_of(engine, point);

    return function && !function->unit->fresh;
}

int mv_apply_fresh(struct mv_engine *engine)
{
    int bound = 0, err;

    for (struct mv_unit *u = engine->units; u; u = u->next)
        for (size_t i = 0; i < u->n_points; i++)
            bound |= u->points[i].target || (u->fresh && mv_is_in_force(engine, &u->points[i]));
    if (!bound) { /* nothing is committed: sites are read at the first commit */
        mv_finished(engine);
        return 0;
    }
    err = mv_read_sites(engine);
    if (err)
        return err;
    mv_read_switches(engine);
    for (struct mv_unit *u = engine->units; u; u = u->next) {
        for (size_t i = 0; i < u->n_points; i++) {
            if (u->fresh && mv_is_in_force(engine, &u->points[i]) &&
                !calls_known(engine, &u->points[i]))
                decide(engine, &u->points[i], MV_COMMIT, 1);
            select_dirty(&u->points[i]);
        }
    }
    mv_finished(engine);
    return mv_write(engine, 0);
}

void mv_finished(struct mv_engine *engine)
{
    for (struct mv_unit *u = engine->units; u; u = u->next)
        u->fresh = 0;
}

int mv_object_is_intact(struct mv_engine *engine, const struct mvld_object *object)
{
    for (const struct mv_unit *u = engine->units; u; u = u->next)
        if (u->object == object)
            return mv_words_are_intact(engine, u);
    return 0; /* nothing was changed there: the object can be gathered anew */
}
