/* SPDX-License-Identifier: MIT
 *
 * engine.c: the engine's lock, look-ups, sentences, and the operations that
 * libmultiverse calls through interface.h.
 */
#include "engine.h"

/* ---- sentences */

static void add_line(char *text, size_t size, size_t *used, size_t *lost, const char *line)
{
    size_t length = rimf_strlen(line);

    if (length + 2 > size - *used) {
        ++*lost;
        return;
    }
    memcpy(text + *used, line, length);
    *used += length;
    text[(*used)++] = '\n';
    text[*used] = 0;
}

int mv_fail(struct mv_engine *engine, int err, const char *format, ...)
{
    char text[sizeof engine->reply->error];
    va_list args;

    va_start(args, format);
    rimf_vformat(text, sizeof text, format, args);
    va_end(args);
    if (engine->reply)
        memcpy(engine->reply->error, text, sizeof text);
    return engine->api->fail(engine->image, err, "%s", text);
}

static void report_line(struct mv_engine *engine, const char *line)
{
    struct mv_reply *reply = engine->reply;

    if (reply)
        add_line(reply->report, sizeof reply->report, &reply->used, &reply->lost, line);
    engine->api->log(engine->image, MVLD_LOG_PASSES, "multiverse: %s", line);
}

void mv_report(struct mv_engine *engine, const char *format, ...)
{
    char text[512];
    va_list args;

    if (!engine->reply && !engine->api->log_enabled(engine->image, MVLD_LOG_PASSES))
        return;
    va_start(args, format);
    rimf_vformat(text, sizeof text, format, args);
    va_end(args);
    report_line(engine, text);
}

void mv_refuse(struct mv_engine *engine, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    rimf_vformat(text, sizeof text, format, args);
    va_end(args);
    engine->api->fail(engine->image, ENOEXEC, "%s", text);
    engine->api->log(engine->image, MVLD_LOG_PASSES, "multiverse: %s", text);
    add_line(engine->refusals, sizeof engine->refusals, &engine->refusals_used,
             &engine->n_refusals_lost, text);
}

/* ---- lock */

int mv_lock(struct mv_engine *engine, struct mv_reply *reply)
{
    int err = rimf_lock_acquire(engine->sys, &engine->lock);

    if (err < 0) {
        static const char text[] = "called while this thread changes code: from a signal handler";

        if (reply)
            memcpy(reply->error, text, sizeof text);
        return err;
    }
    engine->reply = reply;
    engine->some_closing = 0;
    for (struct mv_unit *u = engine->units; u; u = u->next)
        u->closing = 0;
    if (err == RIMF_LOCK_INHERITED)
        mv_repair(engine);
    return 0;
}

void mv_unlock(struct mv_engine *engine)
{
    engine->reply = NULL;
    rimf_lock_release(engine->sys, &engine->lock);
}

struct mv_pin *mv_find_pin(struct mv_reply *reply, uintptr_t bias, const void *dynamic)
{
    for (size_t i = 0; i < reply->n_pins; i++)
        if (reply->pins[i].bias == bias && reply->pins[i].dynamic == dynamic)
            return &reply->pins[i];
    return NULL;
}

/* Units whose object is being closed by another thread are left out of the call.
 * -EAGAIN: one came after the pins were taken. */
static int mark_closing(struct mv_engine *engine)
{
    struct mv_reply *reply = engine->reply;

    for (struct mv_unit *u = engine->units; reply && reply->pins && u; u = u->next) {
        struct mv_pin *pin = mv_find_pin(reply, u->object->bias, u->object->dynamic);
        if (!pin || !(pin->fixed || pin->needed))
            return -EAGAIN;
        u->closing = !pin->fixed && !pin->handle;
        engine->some_closing |= u->closing;
    }
    return 0;
}

/* An object that is known and has no descriptors will not be looked at, unless the
 * list must be made anew because something was closed. */
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

/* Lock, and the objects as they are now. */
static int enter(struct mv_engine *engine, struct mv_reply *reply)
{
    int err;

    if (reply) {
        reply->report[0] = 0;
        reply->used = reply->lost = 0;
    }
    err = mv_lock(engine, reply);
    if (err)
        return err;
    err = engine->refresh ? engine->refresh(engine) : 0;
    if (!err)
        err = mark_closing(engine);
    if (err) {
        if (err != -EAGAIN)
            mv_fail(engine, -err, "the objects of the process could not be listed: %s",
                    engine->api->last_error(engine->image));
        mv_unlock(engine);
    }
    return err;
}

/* ---- look-ups */

struct mv_point *mv_find_point(struct mv_engine *engine, uintptr_t address)
{
    struct mv_point *point = mv_table_get(&engine->points, address);

    if (point && point->unit->closing)
        return NULL;
    /* A non-PIE's own PLT entry is what &function yields there. */
    if (!point && address && engine->api->object_find(engine->image, address))
        point = mv_table_get(&engine->points, engine->api->plt_target(engine->image, address));
    return point;
}

struct mv_switch *mv_find_switch(struct mv_engine *engine, uintptr_t address)
{
    return mv_table_get(&engine->by_switch, address);
}

/* ---- operations */

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

static int op_apply(struct mv_engine *engine, enum mv_action action, enum mv_scope scope,
                    void *what, struct mv_reply *reply)
{
    int result = enter(engine, reply);

    if (result)
        return result;
    result = mv_apply(engine, action, scope, (uintptr_t)what);
    if (scope == MV_ALL && action == MV_COMMIT)
        report_refusals(engine);
    mv_unlock(engine);
    return result;
}

static int op_refresh(struct mv_engine *engine, struct mv_reply *reply)
{
    int result = enter(engine, reply);

    if (!result)
        mv_unlock(engine);
    return result;
}

static int op_is_committed(struct mv_engine *engine, void *function, struct mv_reply *reply)
{
    int result = enter(engine, reply);
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
    int result = enter(engine, reply);
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
        .name = mv_point_name(point),
        .function = (void *)(point->variable ? point->variable : point->body),
        .is_pointer = point->variable != 0,
        .n_variants = point->record->n_variants,
        .n_callsites = sites,
        .active = (void *)point->target,
    };
    if (point->variant >= 0) {
        uint16_t name = mv_variants(point)[point->variant].name;

        point->info.active_name = name ? (const char *)point->record + name : NULL;
    }
}

static int op_info_var(struct mv_engine *engine, void *location,
                       const struct multiverse_info_var **out, struct mv_reply *reply)
{
    int result = enter(engine, reply);
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
    int result = enter(engine, reply);
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

static void dump_switch(struct mv_switch *sw, void (*line)(void *, const char *), void *cookie)
{
    char text[512];
    uint64_t value;

    if (!sw->address)
        return;
    value = mv_switch_read(sw);
    fill_var(sw);
    if (sw->info.is_signed)
        rimf_format(text, sizeof text, "switch %s at %p: %u bytes, value %ld, %zu functions%s",
                    sw->info.name, sw->info.location, sw->info.width, (long)value,
                    sw->info.n_functions, sw->bound ? "" : ", unbound");
    else
        rimf_format(text, sizeof text, "switch %s at %p: %u bytes, value %lu, %zu functions%s",
                    sw->info.name, sw->info.location, sw->info.width, (unsigned long)value,
                    sw->info.n_functions, sw->bound ? "" : ", unbound");
    line(cookie, text);
}

static void dump_point(struct mv_point *point, void (*line)(void *, const char *), void *cookie)
{
    char text[512];

    fill_fn(point);
    rimf_format(text, sizeof text, "function %s%s at %p: %zu variants, %zu call sites, %s %s",
                point->info.name, point->info.is_pointer ? " (pointer)" : "",
                point->info.function, point->info.n_variants, point->info.n_callsites,
                point->target ? "bound to" : "not bound",
                point->info.active_name ? point->info.active_name
                : point->target         ? "a function"
                                        : "");
    line(cookie, text);
}

static int op_dump(struct mv_engine *engine, void (*line)(void *, const char *), void *cookie,
                   struct mv_reply *reply)
{
    int result = enter(engine, reply);

    if (result)
        return result;
    result = mv_read_sites(engine);
    for (struct mv_switch *sw = engine->switches; !result && sw; sw = sw->next)
        dump_switch(sw, line, cookie);
    for (struct mv_unit *u = engine->units; !result && u; u = u->next)
        for (size_t i = 0; !u->closing && i < u->n_points; i++) {
            struct mv_point *p = &u->points[i];

            if (!p->variable || mv_table_get(&engine->points, p->variable) == p)
                dump_point(p, line, cookie);
        }
    mv_unlock(engine);
    return result;
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
        engine->lock.word = 0; /* its owner's number is the parent's */
    else
        mv_unlock(engine);
}

static const struct mv_ops ops = {
    .size = sizeof ops,
    .abi = MV_LINK_ABI,
    .apply = op_apply,
    .refresh = op_refresh,
    .want_pins = op_want_pins,
    .is_committed = op_is_committed,
    .bind = op_bind,
    .info_var = op_info_var,
    .info_fn = op_info_fn,
    .dump = op_dump,
    .fork_begin = op_fork_begin,
    .fork_end = op_fork_end,
};

int mv_create(struct mvld_image *image, const struct mvld_api *api, const struct rimf_sys *sys,
              struct mv_engine **out)
{
    struct mv_engine *engine = api->alloc(image, sizeof *engine);

    if (!engine)
        return api->fail(image, ENOMEM, "multiverse: out of memory");
    engine->ops = &ops;
    engine->api = api;
    engine->image = image;
    engine->sys = sys;
    *out = engine;
    return 0;
}

/* ---- copies of libmultiverse */

struct attaching {
    struct mv_engine *engine;
    const struct mvld_object *object;
    struct mv_engine *other; /* one that a link holds already */
    int look_only;
};

static int attach(void *cookie, const void *desc, size_t size)
{
    struct attaching *a = cookie;
    const struct mv_library_note *note = desc;
    struct mv_engine *there;
    struct mv_link *link;

    if (size < sizeof *note || note->abi != MV_LINK_ABI)
        return 0;
    link = (struct mv_link *)mv_distance(&note->link);
    if ((uintptr_t)link % 8 ||
        a->engine->api->object_holds(a->object, (uintptr_t)link, sizeof *link,
                                     PROT_READ | PROT_WRITE) != 1 ||
        link->size != sizeof *link || link->abi != MV_LINK_ABI)
        return 0;
    there = __atomic_load_n(&link->engine, __ATOMIC_ACQUIRE);
    if (there && there != a->engine)
        a->other = there;
    else if (!a->look_only)
        __atomic_store_n(&link->engine, a->engine, __ATOMIC_RELEASE);
    return 0;
}

struct mv_engine *mv_attach(struct mv_engine *engine, const struct mvld_object *const *objects,
                            size_t n)
{
    struct attaching a = {.engine = engine};

    for (a.look_only = 1; a.look_only >= 0 && !a.other; a.look_only--)
        for (size_t i = 0; i < n; i++) {
            a.object = objects[i];
            engine->api->note_each(objects[i], MULTIVERSE_NOTE_NAME, MV_NOTE_LIBRARY, attach, &a);
        }
    return a.other;
}
