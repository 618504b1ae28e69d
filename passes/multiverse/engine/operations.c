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

static int op_apply(struct mv_engine *engine, struct mv_call *c)
{
    struct mv_reply *reply = engine->reply;
    int result;

    count_operation(engine);
    if (reply) {
        reply->operation = engine->operation;
        reply->missed = 0;
        memset(&reply->status, 0, sizeof reply->status); /* without objects that just came */
    }
    result = mv_apply(engine, c->action, c->scope, (uintptr_t)c->what);
    if (c->scope == MV_ALL && c->action == MV_COMMIT)
        report_refusals(engine);
    return result;
}

static struct mv_point *point_of(struct mv_engine *engine, const struct mv_call *c, int *err)
{
    struct mv_point *point = mv_find_point(engine, (uintptr_t)c->what);

    *err = point ? 0 : mv_fail(engine, EINVAL, "%p is no variation point", c->what);
    return point;
}

static struct mv_switch *switch_of(struct mv_engine *engine, const struct mv_call *c, int *err)
{
    struct mv_switch *sw = mv_find_switch(engine, (uintptr_t)c->what);

    *err = sw ? 0 : mv_fail(engine, EINVAL, "%p is no switch", c->what);
    return sw;
}

static int op_is_committed(struct mv_engine *engine, struct mv_call *c)
{
    int err;
    const struct mv_point *point = point_of(engine, c, &err);

    return point ? point->target != 0 : err;
}

static int op_bind(struct mv_engine *engine, struct mv_call *c)
{
    int err;
    struct mv_switch *sw = switch_of(engine, c, &err);

    if (!sw)
        return err;
    if (!(sw->flags & MULTIVERSE_SWITCH_TRACKED))
        return mv_fail(engine, EINVAL, "switch %s is not tracked", sw->name ? sw->name : "");
    if (c->state < -1 || c->state > 1)
        return mv_fail(engine, EINVAL, "a switch's state is 0, 1, or -1 to ask");
    return c->state < 0 ? sw->bound : (sw->bound = (uint8_t)c->state);
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

static int op_info_var(struct mv_engine *engine, struct mv_call *c)
{
    int err;
    struct mv_switch *sw = switch_of(engine, c, &err);

    if (!sw)
        return err;
    fill_var(sw);
    c->var = &sw->info;
    return 0;
}

static int op_info_fn(struct mv_engine *engine, struct mv_call *c)
{
    int err = mv_read_sites(engine);
    struct mv_point *point = err ? NULL : point_of(engine, c, &err);

    if (!point)
        return err;
    fill_fn(point);
    c->fn = &point->info;
    return 0;
}

static int op_missed(struct mv_engine *engine, struct mv_call *c)
{
    int n = 0;

    for (struct mv_unit *u = engine->units; u; u = u->next)
        for (size_t i = 0; !u->closing && i < u->n_points && n < c->room; i++) {
            struct mv_point *point = &u->points[i];

            if (!point->missed || point->missed > c->until)
                continue;
            point->missed = 0;
            if (point->outcome < MULTIVERSE_GENERIC) /* another operation retried it */
                continue;
            fill_fn(point);
            c->missed[n++] = &point->info;
        }
    return n;
}

static int op_each(struct mv_engine *engine, struct mv_call *c)
{
    int err = mv_read_sites(engine);

    for (struct mv_switch *sw = engine->switches; !err && sw; sw = sw->next) {
        struct mv_item item = {.var = &sw->info, .flags = sw->flags};

        if (!sw->address)
            continue;
        fill_var(sw);
        item.value = mv_switch_read(sw);
        c->visit(c->cookie, &item);
    }
    for (struct mv_unit *u = engine->units; !err && u; u = u->next)
        for (size_t i = 0; !u->closing && i < u->n_points; i++) {
            struct mv_point *p = &u->points[i];
            struct mv_item item = {.fn = &p->info, .object = u->object->name, .n_guards = p->n_guards,
                                   .guards = (const struct mv_switch *const *)p->guards};

            if (!mv_is_first(engine, p))
                continue;
            fill_fn(p);
            c->visit(c->cookie, &item);
        }
    return err;
}

/* Of an inline call all of the function that has it, for where an arm ends nobody knows.  Not what a function pointer
 * led to: that is code like any other. */
static void visit_old(const struct mv_point *p, const struct mv_call *c)
{
    const struct multiverse_variant *v = mv_variants(p);
    const struct mvld_object *object = p->unit->object;

    if (p->is_inline) {
        c->visit_old(c->cookie, &(struct mv_old){object, p->pad, 0, 0});
        return;
    }
    if (p->target)
        c->visit_old(c->cookie, &(struct mv_old){object, p->body, p->target, 0});
    for (size_t i = 0; i < p->record->n_variants; i++)
        if (mv_distance(&v[i].body) != p->target)
            c->visit_old(c->cookie, &(struct mv_old){object, mv_distance(&v[i].body), p->target, v[i].body_size});
}

static int op_each_old(struct mv_engine *engine, struct mv_call *c)
{
    c->until = engine->operation;
    for (struct mv_unit *u = engine->units; u; u = u->next)
        for (size_t i = 0; !u->closing && i < u->n_points; i++) {
            const struct mv_point *p = &u->points[i];

            if (!p->left || mv_is_constant(p) || p->record->flags & MULTIVERSE_FUNCTION_POINTER)
                continue;
            if (p->dirty)
                return mv_fail(engine, EBUSY, "a call of %s could not be changed, and may lead to what it replaces",
                               p->name ? p->name : "");
            visit_old(p, c);
        }
    return 0;
}

static int op_old_is_left(struct mv_engine *engine, struct mv_call *c)
{
    for (struct mv_unit *u = engine->units; u; u = u->next)
        for (size_t i = 0; i < u->n_points; i++)
            if (u->points[i].left <= c->until)
                u->points[i].left = 0;
    return 0;
}

static int op_call(struct mv_engine *engine, struct mv_call *c, struct mv_reply *reply)
{
    static int (*const operations[MV_OPERATIONS])(struct mv_engine *, struct mv_call *) = {
        [MV_APPLY] = op_apply,       [MV_IS_COMMITTED] = op_is_committed,
        [MV_BIND] = op_bind,         [MV_INFO_VAR] = op_info_var, [MV_INFO_FN] = op_info_fn,
        [MV_MISSED] = op_missed,     [MV_VISIT] = op_each,         [MV_VISIT_OLD] = op_each_old,
        [MV_OLD_IS_LEFT] = op_old_is_left,
    };
    int result;

    if (reply && c->operation == MV_APPLY)
        mv_report_clear(reply);
    result = mv_enter(engine, reply);
    if (result)
        return result;
    if (operations[c->operation])
        result = operations[c->operation](engine, c);
    mv_unlock(engine);
    return result;
}

/* Each copy of libmultiverse calls both functions: the first call of each counts. */
static void op_fork_begin(struct mv_engine *engine)
{
    /* -EDEADLK: another copy has called, or fork from a handler inside an operation; the child repairs. */
    if (!mv_lock(engine, NULL))
        engine->forking = 1;
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
    .call = op_call,
    .want_pins = op_want_pins,
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
