/* SPDX-License-Identifier: MIT
 *
 * core.c: a kernel's operations on its engine.
 */
#include "kernel/core/core.h"

static struct mvld_image image;
static struct mv_engine *engine;
static struct mv_reply reply; /* of the last operation */

const char *mvk_error(void)
{
    return reply.error;
}

const char *mvk_report(void)
{
    return reply.report;
}

static int refuse(int err, const char *sentence)
{
    rimf_format(reply.error, sizeof reply.error, "%s", sentence);
    return -err;
}

int mvk_start(void)
{
    int err = mv_create(&image, &mvk_api, NULL, &engine);

    if (err)
        return refuse(-err, image.error);
    engine->tied_to_address = mvk_tied_to_address;
    engine->return_thunk = mvk_return_thunk();
    return 0;
}

/* ---- what was refused */

static void each_line(const char *text, void (*line)(void *, const char *), void *cookie)
{
    char one[512];

    while (*text) {
        size_t n = 0;

        while (text[n] && text[n] != '\n')
            n++;
        rimf_format(one, sizeof one, "refused: %.*s", (int)n, text);
        line(cookie, one);
        text += n + !!text[n];
    }
}

static void log_line(void *cookie, const char *line)
{
    (void)cookie;
    mvk_log(line);
}

/* ---- objects */

static void unlink_object(struct mvk_object *object)
{
    struct mvk_object **at = &image.objects;

    while (*at && *at != object)
        at = &(*at)->next;
    if (*at)
        *at = object->next;
}

int mvk_has(const struct mvk_object *object)
{
    for (const struct mv_unit *u = engine ? engine->units : NULL; u; u = u->next)
        if (u->object == &object->object)
            return 1;
    return 0;
}

static void span(struct mvld_object *object)
{
    object->start = UINTPTR_MAX;
    for (size_t i = 0; i < object->n_segments; i++) {
        const struct mvld_segment *s = &object->segments[i];

        object->start = s->start < object->start ? s->start : object->start;
        object->end = s->end > object->end ? s->end : object->end;
    }
}

int mvk_add(struct mvk_object *object)
{
    const struct mvld_object *added = &object->object;
    size_t refused, lost;
    int err;

    if (!engine)
        return refuse(ENODEV, "there is no engine");
    span(&object->object);
    object->next = image.objects;
    image.objects = object;
    refused = engine->refusals_used;
    lost = engine->n_refusals_lost;
    mv_lock(engine, &reply);
    err = mv_added(engine, &added, 1);
    if (err >= 0)
        err = mv_apply_fresh(engine);
    mv_unlock(engine);
    each_line(engine->refusals + refused, log_line, NULL);
    if (engine->n_refusals_lost != lost)
        mvk_log(image.error);
    engine->incomplete = 0; /* what was left out stays as linked: it reads switches and calls entries */
    if (mvk_has(object))
        return err < 0 ? err : 1;
    unlink_object(object);
    return err < 0 ? err : 0;
}

void mvk_remove(struct mvk_object *object)
{
    const struct mvld_object *removed = &object->object;

    mv_lock(engine, NULL);
    mv_removed(engine, &removed, 1);
    mv_unlock(engine);
    unlink_object(object);
}

/* ---- operations */

int mvk_apply(enum mv_action action, enum mv_scope scope, void *what)
{
    if (!engine)
        return refuse(ENODEV, "there is no engine");
    return mv_ops_apply(engine, action, scope, what, &reply);
}

/* The first switch of this name in the list. */
static struct mv_switch *named(struct mv_switch *sw, const char *name)
{
    while (sw && !(sw->address && sw->name && rimf_streq(sw->name, name)))
        sw = sw->next;
    return sw;
}

int mvk_find(const char *name, void **variable)
{
    struct mv_switch *sw = named(engine ? engine->switches : NULL, name);

    *variable = NULL;
    if (!sw)
        return refuse(ENOENT, "there is no such switch");
    if (named(sw->next, name)) /* static variables */
        return refuse(ENOTUNIQ, "there are several switches of this name");
    *variable = (void *)sw->address;
    return 0;
}

static int can_hold(const struct mv_switch *sw, int64_t value)
{
    unsigned bits = 8u * sw->width;
    int64_t limit;

    if (sw->flags & MULTIVERSE_SWITCH_BOOL)
        return value == 0 || value == 1;
    if (bits == 64)
        return sw->flags & MULTIVERSE_SWITCH_SIGNED || value >= 0;
    limit = (int64_t)1 << (sw->flags & MULTIVERSE_SWITCH_SIGNED ? bits - 1 : bits);
    return value < limit && value >= (sw->flags & MULTIVERSE_SWITCH_SIGNED ? -limit : 0);
}

static void write_switch(const struct mv_switch *sw, uint64_t value)
{
    volatile void *at = (volatile void *)sw->address;

    switch (sw->width) {
    case 1:
        *(volatile uint8_t *)at = (uint8_t)value;
        break;
    case 2:
        *(volatile uint16_t *)at = (uint16_t)value;
        break;
    case 4:
        *(volatile uint32_t *)at = (uint32_t)value;
        break;
    default:
        *(volatile uint64_t *)at = value;
    }
}

static int is_read_only_later(const struct mv_switch *sw)
{
    const struct mvld_object *object = mvk_api.object_find(&image, sw->address);

    return object && mvk_api.object_holds(object, sw->address, 1, MVK_READ_ONLY_LATER);
}

int mvk_set(void *variable, int64_t value)
{
    struct mv_switch *sw = engine ? mv_find_switch(engine, (uintptr_t)variable) : NULL;
    uint64_t before;
    int result;

    if (!sw)
        return refuse(EINVAL, "it is no switch");
    if (is_read_only_later(sw))
        return refuse(EPERM, "it is in memory that is read-only once the kernel, or its module, has started");
    if (!can_hold(sw, value))
        return refuse(ERANGE, "the switch cannot hold this value");
    before = mv_switch_read(sw);
    write_switch(sw, (uint64_t)value);
    result = mvk_apply(MV_COMMIT, MV_REFS, variable);
    if (result < 0)
        write_switch(sw, before);
    return result;
}

static int asks(const struct mv_point *point, const void *variable)
{
    for (size_t i = 0; i < point->n_guards; i++)
        if (point->guards[i] && point->guards[i]->address == (uintptr_t)variable)
            return 1;
    return 0;
}

int mvk_is_settled(const void *variable)
{
    for (const struct mv_unit *u = engine ? engine->units : NULL; u; u = u->next)
        for (size_t i = 0; i < u->n_points; i++)
            if (u->points[i].dirty && asks(&u->points[i], variable))
                return 0;
    return 1;
}

struct lines {
    void (*line)(void *cookie, const char *text);
    void *cookie;
};

static void describe_item(void *cookie, const struct mv_item *item)
{
    const struct lines *lines = cookie;
    char text[512];

    mv_describe(item, text, sizeof text);
    lines->line(lines->cookie, text);
}

int mvk_dump(void (*line)(void *cookie, const char *text), void *cookie)
{
    struct lines lines = {line, cookie};
    struct mv_call call = {.operation = MV_VISIT, .visit = describe_item, .cookie = &lines};
    int err;

    if (!engine)
        return refuse(ENODEV, "there is no engine");
    err = mv_ops.call(engine, &call, &reply);
    if (err)
        return err;
    each_line(engine->refusals, line, cookie);
    if (engine->n_refusals_lost) {
        char text[64];

        rimf_format(text, sizeof text, "refused: and %zu more", engine->n_refusals_lost);
        line(cookie, text);
    }
    return 0;
}

int mvk_list(void (*line)(void *cookie, uintptr_t at, const char *text), void *cookie)
{
    int err;

    if (!engine)
        return refuse(ENODEV, "there is no engine");
    mv_lock(engine, &reply);
    err = mvk_list_places(engine, line, cookie);
    mv_unlock(engine);
    return err;
}
