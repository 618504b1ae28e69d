/* SPDX-License-Identifier: MIT
 *
 * bind.c: selects the points that an operation reaches, and the wanted binding of each: a variant,
 * or 0 for the generic; for a constant its value, or a load.  write.c then writes it.
 */
#include "passes/multiverse/engine/engine.h"

/* ---- which variant */

/* A variant fits if every guard's range contains the switch's value and no guard names an unbound
 * switch.  Among those that fit, the most guards win, then the narrowest ranges, then the first.
 */

typedef uint16_t may_alias_16 __attribute__((may_alias, aligned(1)));
typedef uint32_t may_alias_32 __attribute__((may_alias, aligned(1)));
typedef uint64_t may_alias_64 __attribute__((may_alias, aligned(1)));

/* Reads the value, extended to 64 bits by its sign, with one load because other threads may write. */
uint64_t mv_switch_read(const struct mv_switch *sw)
{
    const volatile void *at = (const volatile void *)sw->address;
    uint64_t value;

    switch (sw->width) {
    case 1:
        value = *(const volatile uint8_t *)at;
        break;
    case 2:
        value = *(const volatile may_alias_16 *)at;
        break;
    case 4:
        value = *(const volatile may_alias_32 *)at;
        break;
    default:
        return *(const volatile may_alias_64 *)at;
    }
    if (sw->flags & MULTIVERSE_SWITCH_SIGNED) {
        unsigned unused = 64 - 8u * sw->width;

        value = (uint64_t)((int64_t)(value << unused) >> unused);
    }
    return value;
}

/* Whether the switch's object is being closed: its memory may be unmapped. */
static int is_closing(const struct mv_engine *engine, uintptr_t address)
{
    for (const struct mv_unit *u = engine->some_closing ? engine->units : NULL; u; u = u->next)
        if (u->closing && address >= u->object->start && address < u->object->end)
            return 1;
    return 0;
}

static void read_switches(struct mv_engine *engine)
{
    for (struct mv_switch *sw = engine->switches; sw; sw = sw->next)
        if (sw->address && !is_closing(engine, sw->address))
            sw->value = mv_switch_read(sw);
}

/* Whether the values, as read, are those of the last commit of everything. */
static int values_are_in_force(const struct mv_engine *engine)
{
    const struct mv_switch *sw = engine->switches;

    while (sw && (!sw->address || (sw->has_value && sw->in_force == sw->value && sw->bound_in_force == sw->bound)))
        sw = sw->next;
    return !sw;
}

/* The value to use; returns 0 if the switch is unbound. */
static int value_of(const struct mv_switch *sw, int in_force, uint64_t *value)
{
    in_force = in_force && sw->has_value;
    *value = in_force ? sw->in_force : sw->value;
    return in_force ? sw->bound_in_force : sw->bound;
}

static int guard_holds(const struct multiverse_guard *guard, const struct mv_switch *sw,
                       int in_force)
{
    uint64_t value;

    if (!sw || !sw->address)
        return 0;
    if (!value_of(sw, in_force, &value))
        return 0;
    if (guard->flags & MULTIVERSE_SWITCH_SIGNED)
        return (int64_t)guard->low <= (int64_t)value && (int64_t)value <= (int64_t)guard->high;
    return guard->low <= value && value <= guard->high;
}

/* Returns 1 and the sum of the ranges' widths if the variant fits, else 0. */
static int variant_fits(const struct mv_point *point, const struct multiverse_variant *variant,
                        int in_force, unsigned __int128 *width)
{
    const struct multiverse_guard *guards = mv_guards(point);

    *width = 0;
    for (size_t i = variant->first_guard; i < variant->first_guard + variant->n_guards; i++) {
        if (!guard_holds(&guards[i], point->guards[i], in_force))
            return 0;
        *width += guards[i].high - guards[i].low;
    }
    return 1;
}

static void select_pointer(struct mv_engine *engine, struct mv_point *point)
{
    point->wanted_variant = -1;
    point->wanted = point->orphaned ? 0 : *(const volatile uintptr_t *)point->variable;
    point->wanted = mv_original(engine, point->wanted);
    if (point->wanted)
        return;
    mv_outcome(point, MULTIVERSE_GENERIC, EINVAL);
    mv_report(engine, "%s: function pointer %s is NULL: left as it is",
              point->unit->object->name, point->name);
}

/* Reads without a site use the variable. */
static void select_constant(struct mv_engine *engine, struct mv_point *point, int in_force)
{
    int bound = !point->orphaned && value_of(point->guards[0], in_force, &point->wanted_value);

    point->wanted = bound ? point->variable : 0;
    if (!bound || !point->is_loaded)
        return;
    mv_outcome(point, MULTIVERSE_GENERIC, ENOTSUP);
    mv_report(engine, "%s: constant %s: some reads of it stay loads", point->unit->object->name,
              point->name);
}

/* Sets the point's wanted binding.  `in_force`: by the committed values. */
static void select_variant(struct mv_engine *engine, struct mv_point *point, int in_force)
{
    const struct multiverse_variant *variants;
    unsigned __int128 width, best_width = 0;
    int best = -1, n;

    if (mv_is_constant(point)) {
        select_constant(engine, point, in_force);
        return;
    }
    if (point->record->flags & MULTIVERSE_FUNCTION_POINTER) {
        select_pointer(engine, point);
        return;
    }
    variants = mv_variants(point);
    n = point->record->n_variants;
    if (point->is_inline && !mv_function_of(engine, point))
        n = 0; /* its function cannot be bound */
    for (int i = 0; i < n; i++) {
        if (!variant_fits(point, &variants[i], in_force, &width))
            continue;
        if (best < 0 || variants[i].n_guards > variants[best].n_guards ||
            (variants[i].n_guards == variants[best].n_guards && width < best_width)) {
            best = i;
            best_width = width;
        }
    }
    point->wanted_variant = best;
    point->wanted = best < 0 ? 0 : mv_distance(&variants[best].body);
    if (best >= 0 || point->is_inline)
        return;
    mv_outcome(point, MULTIVERSE_GENERIC, ENOENT);
    mv_report(engine, "%s: %s: no variant fits: the generic function runs",
              point->unit->object->name, point->name);
}

static void remember_switch(struct mv_switch *sw, enum mv_action action)
{
    sw->has_value = action == MV_COMMIT;
    if (sw->has_value) {
        sw->in_force = sw->value;
        sw->bound_in_force = sw->bound;
    }
}

/* Records the state in force (README.md) after an operation on everything, or on one switch. */
static void remember_operation(struct mv_engine *engine, enum mv_action action, struct mv_switch *only)
{
    engine->clock++;
    if (only) {
        only->stamp = engine->clock;
        only->committed = action == MV_COMMIT;
        remember_switch(only, action);
        return;
    }
    engine->stamp = engine->clock;
    engine->committed = action == MV_COMMIT;
    for (struct mv_switch *sw = engine->switches; sw; sw = sw->next)
        remember_switch(sw, action);
}

/* Whether the last operation that reached such a function was a commit. */
static int is_in_force(const struct mv_engine *engine, const struct mv_point *point)
{
    uint32_t stamp = engine->stamp;
    int committed = engine->committed;

    for (size_t i = 0; i < point->n_guards; i++) {
        const struct mv_switch *sw = point->guards[i];

        if (sw && sw->stamp > stamp) {
            stamp = sw->stamp;
            committed = sw->committed;
        }
    }
    return committed;
}

/* ---- operations */

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
        select_variant(engine, point, in_force);
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
    if (!engine->settled || engine->some_closing || !values_are_in_force(engine))
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
        read_switches(engine);
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
        remember_operation(engine, action, sw);
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
            bound |= u->points[i].target || (u->fresh && is_in_force(engine, &u->points[i]));
    if (!bound) { /* nothing is committed: sites are read at the first commit */
        mv_finished(engine);
        return 0;
    }
    err = mv_read_sites(engine);
    if (err)
        return err;
    read_switches(engine);
    for (struct mv_unit *u = engine->units; u; u = u->next) {
        for (size_t i = 0; i < u->n_points; i++) {
            if (u->fresh && is_in_force(engine, &u->points[i]) &&
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
