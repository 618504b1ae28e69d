/* SPDX-License-Identifier: MIT
 *
 * select.c: which variant fits the values of the switches.
 *
 * A variant fits if every guard's range contains the switch's value and no guard names an unbound
 * switch.  Among those that fit, the most guards win, then the narrowest ranges, then the first.
 */
#include "passes/multiverse/engine/engine.h"

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

void mv_read_switches(struct mv_engine *engine)
{
    for (struct mv_switch *sw = engine->switches; sw; sw = sw->next)
        if (sw->address && !is_closing(engine, sw->address))
            sw->value = mv_switch_read(sw);
}

int mv_values_are_in_force(const struct mv_engine *engine)
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

void mv_select(struct mv_engine *engine, struct mv_point *point, int in_force)
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

void mv_remember(struct mv_engine *engine, enum mv_action action, struct mv_switch *only)
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

int mv_is_in_force(const struct mv_engine *engine, const struct mv_point *point)
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
