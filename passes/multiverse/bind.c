/* SPDX-License-Identifier: MIT
 *
 * bind.c: from what the points want to bytes in memory.
 *
 * An operation marks points, decides what each wants (a variant, or 0 for the
 * generic), and writes the difference as one batch: the entry pad of each point
 * and each of its sites.  Nothing is taken for done before the patch engine
 * says so: what it refused keeps the bytes it had, its point stays dirty, and
 * the next operation tries again.
 *
 *     point    wanted ≠ target ──► pad, sites ──► batch ──► now, target
 *
 * A site out of reach gets its original bytes: it calls the generic, whose
 * entry jumps to the variant.  An entry out of reach leaves the whole point
 * unbound, since half of the calls would go one way and half the other.
 */
#include "engine.h"

/* With ten thousand sites the calls of a visit are what it costs. */
#define ALWAYS_INLINE inline __attribute__((always_inline))

struct batch {
    struct mv_engine *engine;
    struct mvld_batch *patches;
    size_t n;
    int err;
};

static ALWAYS_INLINE void add(struct batch *batch, uintptr_t address, const uint64_t *now,
                              const uint64_t *wanted, size_t length)
{
    int err;

    if (batch->err)
        return;
    err = batch->engine->api->patch_add(batch->patches, address, now, wanted, length);
    if (err)
        batch->err = err;
    else
        batch->n++;
}

static int is_far(uintptr_t from, uintptr_t to)
{
    intptr_t distance = (intptr_t)(to - from);

    return distance != (int32_t)distance;
}

/* What the entry should hold, and the body that sites may take over. */
static void prepare_point(struct batch *batch, struct mv_point *point)
{
    point->applied = point->refused = 0;
    point->n_far = 0;
    point->inlined = (struct mv_inline){0};
    if (point->wanted && is_far(point->pad + MV_PAD_SIZE, point->wanted)) {
        mv_report(batch->engine, "%s: %s: %p is out of reach: left as it is",
                  point->unit->object->name, mv_point_name(point), (void *)point->wanted);
        point->wanted = 0;
        point->wanted_variant = -1;
    }
    if (point->wanted != point->target)
        point->dirty = 1;
    if (!point->dirty)
        return;
    if (point->wanted_variant >= 0) {
        const struct multiverse_variant *v = &mv_variants(point)[point->wanted_variant];

        mv_inline_read((const uint8_t *)point->wanted, v->body_size, &point->inlined);
    }
    point->pad_wanted = MV_PAD_NOP;
    if (point->wanted)
        mv_pad_encode(point->pad, point->wanted, &point->pad_wanted);
}

static void add_pad(struct batch *batch, struct mv_point *point)
{
    if (point->pad_now == point->pad_wanted)
        return;
    point->pad_pending = MV_PENDING;
    add(batch, point->pad, &point->pad_now, &point->pad_wanted, MV_PAD_SIZE);
}

static inline int encode(const struct mv_point *point, const struct mv_site *site, uint64_t *out)
{
    if (!point->inlined.usable)
        return mv_site_lead(site->kind, site->length, site->address, point->wanted, out);
    return mv_site_encode(site->kind, site->length, site->address, point->wanted,
                          &point->inlined, out);
}

static ALWAYS_INLINE void add_site(struct batch *batch, struct mv_site *site)
{
    struct mv_point *point = site->point;
    uint64_t wanted = site->original;

    if (point->wanted && !encode(point, site, &wanted)) {
        point->n_far++;
        wanted = site->original;
    }
    site->wanted = wanted;
    if (site->now == wanted)
        return;
    site->pending = MV_PENDING;
    add(batch, site->address, &site->now, &site->wanted, site->length);
}

static int needs_work(const struct mv_point *point)
{
    return point && point->selected && point->dirty;
}

/* Entries and sites of one unit in the order of their addresses, so that the
 * patch engine need not sort them. */
static ALWAYS_INLINE void visit_unit(struct batch *batch, struct mv_unit *u,
                                     void (*pad)(struct batch *, struct mv_point *),
                                     void (*site)(struct batch *, struct mv_site *))
{
    struct mv_site *end = u->sites + (u->sites_read ? u->n_sites : 0);
    struct mv_entry *next = u->by_pad, *last = next + u->n_points;
    uintptr_t pad_address = next < last ? next->key : UINTPTR_MAX;

    if (u->closing)
        return;

    for (struct mv_site *s = u->sites; s < end; s++) {
        while (pad_address < s->address) {
            if (needs_work(next->value))
                pad(batch, next->value);
            pad_address = ++next < last ? next->key : UINTPTR_MAX;
        }
        if (needs_work(s->point))
            site(batch, s);
    }
    for (; next < last; next++)
        if (needs_work(next->value))
            pad(batch, next->value);
}

/* Visits entries and sites of the points that need work: all units from end to
 * end, or point by point when they are few. */
static ALWAYS_INLINE void visit(struct batch *batch, int all,
                                void (*pad)(struct batch *, struct mv_point *),
                                void (*site)(struct batch *, struct mv_site *))
{
    for (struct mv_unit *u = batch->engine->units; u; u = u->next) {
        if (all) {
            visit_unit(batch, u, pad, site);
            continue;
        }
        for (size_t i = 0; i < u->n_points; i++) {
            if (!needs_work(&u->points[i]))
                continue;
            pad(batch, &u->points[i]);
            for (struct mv_site *s = u->points[i].sites; s; s = s->next)
                site(batch, s);
        }
    }
}

/* A line a function: under a plain ld.so libraries are far from a PIE. */
static void report_far(struct mv_engine *engine)
{
    for (struct mv_unit *u = engine->units; u; u = u->next)
        for (size_t i = 0; i < u->n_points; i++)
            if (u->points[i].selected && u->points[i].n_far)
                mv_report(engine, "%s: %s: out of reach of %u call sites, which call its entry",
                          u->object->name, mv_point_name(&u->points[i]), u->points[i].n_far);
}

static const char *reason(int result)
{
    switch (-result) {
    case ESTALE:
        return "its bytes are not those that were written by the linker or by us";
    case EFAULT:
        return "it is not in executable memory of an object";
    case EEXIST:
        return "it overlaps another change";
    case EDEADLK:
        return "it cannot be changed safely while other threads run";
    case EPERM: case EACCES:
        return "this process may not change its code";
    }
    return "the system refused";
}

static struct mv_point *pad_at(struct mv_engine *engine, uintptr_t address)
{
    for (struct mv_unit *u = engine->units; u; u = u->next)
        for (size_t i = 0; i < u->n_points; i++)
            if (u->points[i].pad == address)
                return &u->points[i];
    return NULL;
}

/* Marks what the patch engine did not do. */
static void mark_refused(struct batch *batch)
{
    struct mv_engine *engine = batch->engine;
    size_t n = engine->api->patch_count(batch->patches);

    for (size_t i = 0; i < n; i++) {
        const struct mvld_patch *patch = engine->api->patch_at(batch->patches, i);
        struct mv_point *point;
        struct mv_site *site;

        if (!patch->result)
            continue;
        site = mv_site_at(engine, patch->address);
        point = site ? site->point : pad_at(engine, patch->address);
        if (!point)
            continue;
        if (site)
            site->pending = MV_REFUSED;
        else
            point->pad_pending = MV_REFUSED;
        mv_report(engine, "%s at %p: %s", site ? "call site" : "entry", (void *)patch->address,
                  reason(patch->result));
    }
}

static ALWAYS_INLINE void settle_site(struct batch *batch, struct mv_site *site)
{
    if (site->pending == MV_PENDING && !batch->err) {
        site->now = site->wanted;
        site->point->applied = 1;
    } else if (site->pending) {
        site->point->refused = 1;
    }
    site->pending = MV_SETTLED;
}

static void settle_pad(struct batch *batch, struct mv_point *point)
{
    if (point->pad_pending == MV_PENDING && !batch->err) {
        point->pad_now = point->pad_wanted;
        point->applied = 1;
    } else if (point->pad_pending) {
        point->refused = 1;
    }
    point->pad_pending = MV_SETTLED;
}

/* 1 when the point's binding changed. */
static int settle_point(struct batch *batch, struct mv_point *point)
{
    int changed = 0;

    if (point->applied || !point->refused) {
        changed = point->target != point->wanted;
        point->target = point->wanted;
        point->variant = point->wanted_variant;
    }
    point->dirty = point->refused;
    /* The stubs of one function pointer are one function. */
    return changed && (!point->variable || point->orphaned ||
                       mv_table_get(&batch->engine->points, point->variable) == point);
}

static int settle(struct batch *batch, int all)
{
    int changed = 0;

    if (!all)
        visit(batch, 0, settle_pad, settle_site);
    for (struct mv_unit *u = batch->engine->units; u; u = u->next) {
        for (size_t i = 0; all && u->sites_read && i < u->n_sites; i++)
            if (u->sites[i].pending)
                settle_site(batch, &u->sites[i]);
        for (size_t i = 0; all && i < u->n_points; i++)
            settle_pad(batch, &u->points[i]);
        for (size_t i = 0; i < u->n_points; i++) {
            if (needs_work(&u->points[i]))
                changed += settle_point(batch, &u->points[i]);
            u->points[i].selected = 0;
        }
    }
    return changed;
}

int mv_write(struct mv_engine *engine, int all)
{
    struct batch batch = {.engine = engine, .patches = engine->api->patch_begin(engine->image)};
    struct mvld_patch_report report = {0};
    int changed;

    all |= engine->some_closing; /* the way that knows a site's unit */
    if (!batch.patches)
        return mv_fail(engine, ENOMEM, "out of memory for a batch of patches");
    for (struct mv_unit *u = engine->units; u; u = u->next)
        for (size_t i = 0; i < u->n_points; i++)
            if (u->points[i].selected)
                prepare_point(&batch, &u->points[i]);
    visit(&batch, all, add_pad, add_site);
    report_far(engine);
    if (batch.err) {
        mv_fail(engine, -batch.err, "out of memory for a batch of patches");
    } else if (batch.n) {
        batch.err = engine->api->patch_commit(batch.patches, &report);
        if (batch.err == -EACCES)
            batch.err = -EPERM;
        if (batch.err == -ESTALE || batch.err == -EFAULT || batch.err == -EEXIST) {
            batch.err = 0; /* every single patch was refused, each for its reason */
            report.refused = batch.n;
        }
        if (batch.err)
            mv_fail(engine, -batch.err, "nothing was changed: %s",
                    engine->api->last_error(engine->image));
        else if (report.refused)
            mark_refused(&batch);
    }
    changed = settle(&batch, all);
    engine->api->patch_end(batch.patches);
    return batch.err ? batch.err : changed;
}

static int has_guard_on(const struct mv_point *point, const struct mv_switch *sw)
{
    for (size_t i = 0; i < point->n_guards; i++)
        if (point->guards[i] == sw)
            return 1;
    return 0;
}

/* Points that something new calls, or that could not be written: once more. */
static void select_dirty(struct mv_point *point)
{
    if (point->selected || !point->dirty || point->unit->closing)
        return;
    point->selected = 1;
    point->wanted = point->target;
    point->wanted_variant = point->variant;
}

static void decide(struct mv_engine *engine, struct mv_point *point, enum mv_action action,
                   int in_force)
{
    if (point->unit->closing)
        return;
    point->selected = 1;
    if (action == MV_COMMIT) {
        mv_select(engine, point, in_force);
        return;
    }
    point->wanted = 0;
    point->wanted_variant = -1;
}

int mv_apply(struct mv_engine *engine, enum mv_action action, enum mv_scope scope, uintptr_t what)
{
    struct mv_point *point = NULL;
    struct mv_switch *sw = NULL;
    int changed = mv_read_sites(engine);

    if (changed)
        return changed;
    if (scope == MV_REFS && !(sw = mv_find_switch(engine, what)))
        return mv_fail(engine, EINVAL, "%p is no switch", (void *)what);
    if (scope == MV_FUNCTION && !(point = mv_find_point(engine, what)))
        return mv_fail(engine, EINVAL, "%p is no variation point", (void *)what);
    if (action == MV_COMMIT)
        mv_read_switches(engine);
    for (struct mv_point *p = point; p; p = p->peer)
        decide(engine, p, action, 0);
    for (struct mv_unit *u = engine->units; u; u = u->next)
        for (size_t i = 0; i < u->n_points; i++) {
            if (scope == MV_ALL || (sw && has_guard_on(&u->points[i], sw)))
                decide(engine, &u->points[i], action, 0);
            select_dirty(&u->points[i]);
        }
    changed = mv_write(engine, scope == MV_ALL);
    if (changed >= 0 && scope != MV_FUNCTION)
        mv_remember(engine, action, sw);
    return changed;
}

int mv_apply_fresh(struct mv_engine *engine)
{
    int bound = 0, err;

    for (struct mv_unit *u = engine->units; u; u = u->next)
        for (size_t i = 0; i < u->n_points; i++)
            bound |= u->points[i].target || (u->fresh && mv_is_in_force(engine, &u->points[i]));
    if (!bound) { /* nothing is committed: sites can be read when something is */
        mv_settled(engine);
        return 0;
    }
    err = mv_read_sites(engine);
    if (err)
        return err;
    mv_read_switches(engine);
    for (struct mv_unit *u = engine->units; u; u = u->next) {
        for (size_t i = 0; i < u->n_points; i++) {
            if (u->fresh && mv_is_in_force(engine, &u->points[i]))
                decide(engine, &u->points[i], MV_COMMIT, 1);
            select_dirty(&u->points[i]);
        }
    }
    mv_settled(engine);
    return mv_write(engine, 1);
}

void mv_settled(struct mv_engine *engine)
{
    for (struct mv_unit *u = engine->units; u; u = u->next)
        u->fresh = 0;
}

static int unit_is_intact(const struct mv_unit *unit)
{
    for (size_t i = 0; i < unit->n_points; i++)
        if (mv_bytes_at(unit->points[i].pad, MV_PAD_SIZE) != unit->points[i].pad_now)
            return 0;
    for (size_t i = 0; unit->sites_read && i < unit->n_sites; i++)
        if (mv_bytes_at(unit->sites[i].address, unit->sites[i].length) != unit->sites[i].now)
            return 0;
    return 1;
}

int mv_object_is_intact(struct mv_engine *engine, const struct mvld_object *object)
{
    for (const struct mv_unit *u = engine->units; u; u = u->next)
        if (u->object == object)
            return unit_is_intact(u);
    return 0; /* nothing was changed there: it can as well be found anew */
}

void mv_repair(struct mv_engine *engine)
{
    for (struct mv_unit *u = engine->units; u; u = u->next) {
        for (size_t i = 0; u->sites_read && i < u->n_sites; i++) {
            struct mv_site *site = &u->sites[i];

            if (!site->point || site->pending != MV_PENDING)
                continue;
            if (mv_bytes_at(site->address, site->length) == site->wanted)
                site->now = site->wanted;
            site->pending = MV_SETTLED;
            site->point->dirty = 1;
        }
        for (size_t i = 0; i < u->n_points; i++) {
            struct mv_point *p = &u->points[i];

            p->selected = 0;
            if (p->pad_pending != MV_PENDING)
                continue;
            if (mv_bytes_at(p->pad, MV_PAD_SIZE) == p->pad_wanted) {
                p->pad_now = p->pad_wanted;
                p->target = p->wanted;
                p->variant = p->wanted_variant;
            }
            p->pad_pending = MV_SETTLED;
            p->dirty = 1;
        }
    }
}
