/* SPDX-License-Identifier: MIT
 *
 * operations.c: the functions of interface.h, called by libmultiverse.
 */
#include "passes/multiverse/engine/engine.h"

/* A known object without descriptors is not looked at, unless the list must be rebuilt because
 * something was closed. */
static int is_needed(struct mv_engine *engine, const struct mv_pin *pin, int anew)
{
    size_t n = engine->api->object_count(engine->image);

    for (struct mv_unit *u = engine->units; u; u = u->next)
        if (u->object->bias == pin->bias && u->object->dynamic == pin->dynamic)
            return 1;
    for (size_t i = 0; !anew && i < n; i++) {
        const struct mvld_object *o = engine->api->object_at(engine->image, i);

        if (o && o->bias == pin->bias && o->dynamic == pin->dynamic)
            return 0;
    }
    return 1;
}

static int op_want_pins(struct mv_engine *engine, struct mv_reply *reply)
{
    int err = mv_lock(engine, reply);

    if (err)
        return err;
    for (size_t i = 0; i < reply->n_pins; i++)
        reply->pins[i].needed =
            !reply->pins[i].fixed &&
            is_needed(engine, &reply->pins[i],
                      engine->refresh && engine->n_removed != reply->n_removed);
    mv_unlock(engine);
    return 0;
}

static void report_refusals(struct mv_engine *engine)
{
    struct mv_reply *reply = engine->reply;

    if (!reply)
        return;
    if (engine->refusals_used && engine->refusals_used < sizeof reply->report - reply->used) {
        memcpy(reply->report + reply->used, engine->refusals, engine->refusals_used + 1);
        reply->used += engine->refusals_used;
    }
    reply->lost += engine->n_refusals_lost;
    if (reply->lost) {
        size_t room = sizeof reply->report - reply->used;

        reply->used += rimf_format(reply->report + reply->used, room, "and %zu more\n",
                                   reply->lost);
        if (reply->used >= sizeof reply->report)
            reply->used = sizeof reply->report - 1;
    }
}

/* Counts operations of the program.  After MV_OFTEN the patch engine may cache what it otherwise
 * queries each time.  Objects that come and go do not count. */
static void count_operation(struct mv_engine *engine)
{
    if (engine->n_asked == MV_OFTEN || ++engine->n_asked < MV_OFTEN)
        return;
    engine->api->patch_often(engine->image);
}

static int op_apply(struct mv_engine *engine, enum mv_action action, enum mv_scope scope,
                    void *what, struct mv_reply *reply)
{
    int result;

    if (reply)
        mv_report_clear(reply);
    result = mv_enter(engine, reply);
    if (result)
        return result;
    count_operation(engine);
    if (reply) {
        reply->operation = engine->operation;
        reply->missed = 0;
        memset(&reply->status, 0, sizeof reply->status); /* without objects that just came */
    }
    result = mv_apply(engine, action, scope, (uintptr_t)what);
    if (scope == MV_ALL && action == MV_COMMIT)
        report_refusals(engine);
    mv_unlock(engine);
    return result;
}

static int op_refresh(struct mv_engine *engine, struct mv_reply *reply)
{
    int result = mv_enter(engine, reply);

    if (!result)
        mv_unlock(engine);
    return result;
}

static int op_is_committed(struct mv_engine *engine, void *function, struct mv_reply *reply)
{
    int result = mv_enter(engine, reply);
    struct mv_point *point;

    if (result)
        return result;
    point = mv_find_point(engine, (uintptr_t)function);
    result = point ? point->target != 0
                   : mv_fail(engine, EINVAL, "%p is no variation point", function);
    mv_unlock(engine);
    return result;
}

static int op_bind(struct mv_engine *engine, void *location, int state, struct mv_reply *reply)
{
    int result = mv_enter(engine, reply);
    struct mv_switch *sw;

    if (result)
        return result;
    sw = mv_find_switch(engine, (uintptr_t)location);
    if (!sw)
        result = mv_fail(engine, EINVAL, "%p is no switch", location);
    else if (!(sw->flags & MULTIVERSE_SWITCH_TRACKED))
        result = mv_fail(engine, EINVAL, "switch %s is not tracked", sw->name ? sw->name : "");
    else if (state < -1 || state > 1)
        result = mv_fail(engine, EINVAL, "a switch's state is 0, 1, or -1 to ask");
    else
        result = state < 0 ? sw->bound : (sw->bound = (uint8_t)state);
    mv_unlock(engine);
    return result;
}

static void fill_var(struct mv_switch *sw)
{
    sw->info = (struct multiverse_info_var){
        .name = sw->name ? sw->name : "",
        .location = (void *)sw->address,
        .width = sw->width,
        .is_signed = !!(sw->flags & MULTIVERSE_SWITCH_SIGNED),
        .is_tracked = !!(sw->flags & MULTIVERSE_SWITCH_TRACKED),
        .is_bound = sw->bound,
        .n_functions = sw->n_functions,
    };
}

static void fill_fn(struct mv_point *point)
{
    size_t sites = 0;

    for (const struct mv_point *p = point; p; p = p->peer)
        sites += p->n_sites;
    point->info = (struct multiverse_info_fn){
        .name = point->name,
        .function = (void *)(point->variable ? point->variable : point->body),
        .is_pointer = point->variable && !mv_is_constant(point),
        .is_constant = mv_is_constant(point),
        .n_variants = mv_is_constant(point) ? 0 : point->record->n_variants,
        .n_callsites = sites,
        .active = (void *)point->target,
        .outcome = point->outcome,
        .error = point->error,
        .why = point->error ? mv_why(point->error) : NULL,
    };
    if (point->variant >= 0) {
        uint16_t name = mv_variants(point)[point->variant].name;

        point->info.active_name = name ? (const char *)point->record + name : NULL;
    }
}

static int op_info_var(struct mv_engine *engine, void *location,
                       const struct multiverse_info_var **out, struct mv_reply *reply)
{
    int result = mv_enter(engine, reply);
    struct mv_switch *sw;

    if (result)
        return result;
    sw = mv_find_switch(engine, (uintptr_t)location);
    if (sw) {
        fill_var(sw);
        *out = &sw->info;
    } else {
        result = mv_fail(engine, EINVAL, "%p is no switch", location);
    }
    mv_unlock(engine);
    return result;
}

static int op_info_fn(struct mv_engine *engine, void *function,
                      const struct multiverse_info_fn **out, struct mv_reply *reply)
{
    int result = mv_enter(engine, reply);
    struct mv_point *point;

    if (result)
        return result;
    result = mv_read_sites(engine);
    point = mv_find_point(engine, (uintptr_t)function);
    if (!result && !point)
        result = mv_fail(engine, EINVAL, "%p is no variation point", function);
    if (!result) {
        fill_fn(point);
        *out = &point->info;
    }
    mv_unlock(engine);
    return result;
}

static int op_missed(struct mv_engine *engine, uint64_t operation,
                     const struct multiverse_info_fn **out, int room, struct mv_reply *reply)
{
    int n = 0, result = mv_enter(engine, reply);

    if (result)
        return result;
    for (struct mv_unit *u = engine->units; u; u = u->next)
        for (size_t i = 0; !u->closing && i < u->n_points && n < room; i++) {
            struct mv_point *point = &u->points[i];

            if (!point->missed || point->missed > operation)
                continue;
            point->missed = 0;
            if (point->outcome < MULTIVERSE_GENERIC) /* another operation retried it */
                continue;
            fill_fn(point);
            out[n++] = &point->info;
        }
    mv_unlock(engine);
    return n;
}

static int op_each(struct mv_engine *engine, void (*visit)(void *cookie, const struct mv_item *), void *cookie,
                   struct mv_reply *reply)
{
    int result = mv_enter(engine, reply);

    if (result)
        return result;
    result = mv_read_sites(engine);
    for (struct mv_switch *sw = engine->switches; !result && sw; sw = sw->next) {
        struct mv_item item = {.var = &sw->info, .flags = sw->flags};

        if (!sw->address)
            continue;
        fill_var(sw);
        item.value = mv_switch_read(sw);
        visit(cookie, &item);
    }
    for (struct mv_unit *u = engine->units; !result && u; u = u->next)
        for (size_t i = 0; !u->closing && i < u->n_points; i++) {
            struct mv_point *p = &u->points[i];
            struct mv_item item = {.fn = &p->info, .object = u->object->name, .n_guards = p->n_guards,
                                   .guards = (const struct mv_switch *const *)p->guards};

            if (!mv_is_first(engine, p))
                continue;
            fill_fn(p);
            visit(cookie, &item);
        }
    mv_unlock(engine);
    return result;
}

/* Of an inline call all of the function that has it, for where an arm ends nobody knows.  Not what a function pointer
 * led to: that is code like any other. */
static void visit_old(const struct mv_point *p, void (*visit)(void *cookie, const struct mv_old *), void *cookie)
{
    const struct multiverse_variant *v = mv_variants(p);
    const struct mvld_object *object = p->unit->object;

    if (p->is_inline) {
        visit(cookie, &(struct mv_old){object, p->pad, 0, 0});
        return;
    }
    if (p->target)
        visit(cookie, &(struct mv_old){object, p->body, p->target, 0});
    for (size_t i = 0; i < p->record->n_variants; i++)
        if (mv_distance(&v[i].body) != p->target)
            visit(cookie, &(struct mv_old){object, mv_distance(&v[i].body), p->target, v[i].body_size});
}

static int op_each_old(struct mv_engine *engine, void (*visit)(void *cookie, const struct mv_old *), void *cookie,
                       uint64_t *operation, struct mv_reply *reply)
{
    int result = mv_enter(engine, reply);

    if (result)
        return result;
    *operation = engine->operation;
    for (struct mv_unit *u = engine->units; !result && u; u = u->next)
        for (size_t i = 0; !u->closing && !result && i < u->n_points; i++) {
            const struct mv_point *p = &u->points[i];

            if (!p->left || mv_is_constant(p) || p->record->flags & MULTIVERSE_FUNCTION_POINTER)
                continue;
            if (p->dirty)
                result = mv_fail(engine, EBUSY, "a call of %s could not be changed, and may lead to what it replaces",
                                 p->name ? p->name : "");
            else
                visit_old(p, visit, cookie);
        }
    mv_unlock(engine);
    return result;
}

static int op_old_is_left(struct mv_engine *engine, uint64_t operation, struct mv_reply *reply)
{
    int result = mv_lock(engine, reply);

    if (result)
        return result;
    for (struct mv_unit *u = engine->units; u; u = u->next)
        for (size_t i = 0; i < u->n_points; i++)
            if (u->points[i].left <= operation)
                u->points[i].left = 0;
    mv_unlock(engine);
    return 0;
}

static void op_fork_begin(struct mv_engine *engine)
{
    /* -EDEADLK: fork from a handler inside an operation; the child repairs. */
    engine->forking = mv_lock(engine, NULL) == 0;
}

static void op_fork_end(struct mv_engine *engine, int in_child)
{
    if (!engine->forking)
        return;
    engine->forking = 0;
    engine->reply = NULL;
    if (in_child)
        engine->lock.word = 0; /* its owner has the parent's number */
    else
        mv_unlock(engine);
}

const struct mv_ops mv_ops = {
    .size = sizeof mv_ops,
    .abi = MV_LINK_ABI,
    .apply = op_apply,
    .refresh = op_refresh,
    .want_pins = op_want_pins,
    .is_committed = op_is_committed,
    .bind = op_bind,
    .info_var = op_info_var,
    .info_fn = op_info_fn,
    .missed = op_missed,
    .each = op_each,
    .each_old = op_each_old,
    .old_is_left = op_old_is_left,
    .fork_begin = op_fork_begin,
    .fork_end = op_fork_end,
};

int mv_create(struct mvld_image *image, const struct mvld_api *api, const struct rimf_sys *sys,
              struct mv_engine **out)
{
    struct mv_engine *engine = api->alloc(image, sizeof *engine);

    if (!engine)
        return api->fail(image, ENOMEM, "multiverse: out of memory");
    engine->ops = &mv_ops;
    engine->api = api;
    engine->image = image;
    engine->sys = sys;
    *out = engine;
    return 0;
}
