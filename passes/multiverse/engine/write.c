/* SPDX-License-Identifier: MIT
 *
 * write.c: writes the wanted bindings of points into memory.
 *
 * An operation marks points and decides the wanted binding of each (bind.c).  This file writes the
 * difference as one batch: the entry pad of each point and each of its sites.
 *
 *     point    wanted ≠ target ──► words ──► batch ──► now, target
 *
 * A change is recorded only after the patch engine confirms it.  A refused word keeps its bytes,
 * its point stays dirty, and the next operation tries again.
 *
 * An operation on many sites gives the arrays of whole units to the patch engine, which reads them
 * without a copy; an operation on few adds their words one by one (fill).  The result is the same:
 * one patch for each word that differs, in the order of each_word().  If no point needs work there
 * is no batch, and no system call.
 *
 * A constant has no entry, and its value is always in reach.
 *
 * A site out of reach gets its original bytes: it calls the generic, whose entry jumps to the
 * variant.  If the entry is out of reach, the whole point stays unbound, since otherwise some calls
 * would run the variant and others the generic.
 */
#include "passes/multiverse/engine/engine.h"

struct batch {
    struct mv_engine *engine;
    struct mvld_batch *patches;
    int all; /* whole units */
    int err;
    size_t next; /* index of the next word's patch */
};

/* Whether the wanted target is out of reach of the entry, where that runs. */
static int is_out_of_reach(const struct mv_point *point)
{
    const struct mv_unit *unit = point->unit;

    return mv_is_far(mv_word_address(unit, point->word) + MV_PAD_SIZE, point->goal) ||
           (point->other != MV_NO_WORD &&
            mv_is_far(mv_word_address(unit, point->other) + MV_PAD_SIZE, point->goal));
}

#define BODY_MAX 15u /* endbr64, an instruction of a site's length, rep ret or a jump */

/* The unit whose code contains these bytes, or NULL. */
static const struct mv_unit *unit_of(const struct mv_engine *engine, uintptr_t address, size_t size)
{
    for (const struct mv_unit *u = engine->units; u; u = u->next) {
        const struct mvld_segment *code = NULL;

        if (!u->closing && mv_holds(u->object, &code, address, size, PROT_READ | PROT_EXEC))
            return u;
    }
    return NULL;
}

/* Reads the body that may be copied into sites.  The target of a function pointer has no known
 * length, and may be a variation point whose entry changes.  Only objects with descriptors cannot
 * be closed while they are read. */
static void read_body(struct mv_engine *engine, struct mv_point *point)
{
    const struct mv_unit *unit = point->unit;
    uintptr_t body = point->wanted;
    size_t size = BODY_MAX;

    if (point->wanted_variant >= 0)
        size = mv_variants(point)[point->wanted_variant].body_size;
    else if (mv_table_get(&engine->points, body) || !(unit = unit_of(engine, body, size)))
        return;
    if (mv_has_sites(unit, body, size)) /* a call in it may be patched out at present */
        return;
    if (engine->some_moved)
        body = mv_readable(engine, body, size);
    mv_inline_read((const uint8_t *)body, size, engine->return_thunk, &point->inlined);
    if (engine->tied_to_address && point->inlined.usable)
        point->inlined.usable = !point->inlined.nops && !engine->tied_to_address(body, size);
}

/* Sets the target of calls. */
static void prepare_point(struct batch *batch, struct mv_point *point)
{
    point->applied = point->refused = 0;
    point->n_far = 0;
    point->inlined = (struct mv_inline){0};
    if (mv_is_constant(point)) {
        point->dirty |= point->wanted != point->target ||
                        (point->wanted && point->wanted_value != point->value);
        return;
    }
    point->goal = mv_running(batch->engine, point);
    if (point->wanted && is_out_of_reach(point)) {
        mv_report(batch->engine, "%s: %s: %p is out of reach: left as it is",
                  point->unit->object->name, point->name, (void *)point->wanted);
        mv_outcome(point, MULTIVERSE_REFUSED, ERANGE);
        point->wanted = 0;
        point->wanted_variant = -1;
    }
    if (point->wanted != point->target)
        point->dirty = 1;
    if (point->dirty && point->wanted && !point->is_inline)
        read_body(batch->engine, point);
}

/* ---- the batch */

static void add_stretch(struct batch *batch, const struct mv_stretch *stretch)
{
    const struct mvld_api *api = batch->engine->api;
    const struct mv_unit *unit = stretch->unit;
    const uint64_t *now = unit->bytes[unit->now], *wanted = unit->bytes[!unit->now];
    size_t first = stretch->first;

    batch->err = api->patch_add_words(batch->patches, unit->base, unit->places + first, now + first,
                                      wanted + first, stretch->n);
}

/* Adds a word, or two that are joined. */
static void add_word(struct batch *batch, struct mv_unit *unit, size_t i)
{
    const struct mvld_api *api = batch->engine->api;
    uint64_t *now = &unit->bytes[unit->now][i], *wanted = &unit->bytes[!unit->now][i];
    struct mv_point *point = unit->slots[unit->slot_of[i]].point;
    uint8_t expect[MVLD_PATCH_MAX], replace[MVLD_PATCH_MAX];
    size_t n = mv_words_of(unit, i), length = 0;
    int far = 0;

    if (batch->err)
        return;
    for (size_t k = 0; k < n; k++) {
        wanted[k] = mv_word_wanted(unit, i + k, &far);
        memcpy(expect + length, &now[k], 8);
        memcpy(replace + length, &wanted[k], 8);
        length += unit->places[i + k].length;
    }
    point->n_far += (uint32_t)far;
    if (memcmp(now, wanted, n * sizeof *now))
        batch->err = api->patch_add(batch->patches, mv_word_address(unit, i), expect, replace,
                                    length);
}

/* Visits the words of the points that need work, point by point. */
static void few(struct batch *batch, void (*visit)(struct batch *, struct mv_unit *, size_t))
{
    for (struct mv_unit *u = batch->engine->units; u; u = u->next)
        for (size_t i = 0; i < u->n_points; i++) {
            if (!mv_needs_work(&u->points[i]))
                continue;
            if (u->points[i].word != MV_NO_WORD)
                visit(batch, u, u->points[i].word);
            if (u->points[i].other != MV_NO_WORD)
                visit(batch, u, u->points[i].other);
            for (struct mv_site *s = u->points[i].sites; s; s = s->next) {
                visit(batch, s->unit, s->word);
                if (s->other != MV_NO_WORD)
                    visit(batch, s->unit, s->other);
            }
        }
}

static int is_open(const struct mv_unit *unit)
{
    return unit->sites_read && !unit->closing;
}

static void fill(struct batch *batch)
{
    if (!batch->all)
        few(batch, add_word);
    for (struct mv_unit *u = batch->all ? batch->engine->units : NULL; u; u = u->next)
        u->encoded = is_open(u) && mv_encode_words(u);
    for (struct mv_stretch *s = batch->all ? batch->engine->stretches : NULL; s && !batch->err;
         s = s->next)
        if (s->unit->encoded)
            add_stretch(batch, s);
}

/* ---- what became of it */

/* A line a function: under a plain ld.so libraries are far from a PIE. */
static void report_far(struct mv_engine *engine)
{
    for (struct mv_unit *u = engine->units; u; u = u->next)
        for (size_t i = 0; i < u->n_points; i++)
            if (u->points[i].selected && u->points[i].n_far)
                mv_report(engine, "%s: %s: out of reach of %u call sites, which call its entry",
                          u->object->name, u->points[i].name, u->points[i].n_far);
}

/* One word of a point that needs work, in a batch that was refused in part or whole. */
static void finish_word(struct batch *batch, struct mv_unit *unit, size_t i)
{
    const struct mvld_api *api = batch->engine->api;
    uint64_t *now = &unit->bytes[unit->now][i], *wanted = &unit->bytes[!unit->now][i];
    const struct mv_slot *slot = &unit->slots[unit->slot_of[i]];
    size_t size = mv_words_of(unit, i) * sizeof *now;
    const struct mvld_patch *patch;

    if (!memcmp(now, wanted, size))
        return;
    patch = api->patch_at(batch->patches, batch->next++);
    if (!patch || patch->result) {
        slot->point->refused = (uint8_t)(patch ? -patch->result : EIO);
        if (!patch)
            return;
        mv_report(batch->engine, "%s at %p: %s", slot->point->is_inline     ? "inline call"
                                                 : slot->kind == MV_SITE_NONE ? "entry"
                                                 : slot->kind == MV_READ      ? "read"
                                                                              : "call site",
                  (void *)patch->address, mv_why(-patch->result));
    } else {
        memcpy(now, wanted, size);
        slot->point->applied = 1;
    }
}

static void each_word(struct batch *batch,
                      void (*visit)(struct batch *, struct mv_unit *, size_t))
{
    if (!batch->all)
        few(batch, visit);
    for (struct mv_stretch *s = batch->all ? batch->engine->stretches : NULL; s; s = s->next)
        for (size_t i = s->first; is_open(s->unit) && i < s->first + s->n;
             i += mv_words_of(s->unit, i))
            if (mv_needs_work(s->unit->slots[s->unit->slot_of[i]].point))
                visit(batch, s->unit, i);
}

static void accept_word(struct batch *batch, struct mv_unit *unit, size_t i)
{
    (void)batch;
    memcpy(&unit->bytes[unit->now][i], &unit->bytes[!unit->now][i],
           mv_words_of(unit, i) * sizeof(uint64_t));
}

/* Everything was applied. */
static void accept(struct batch *batch)
{
    if (!batch->all)
        few(batch, accept_word);
    for (struct mv_unit *u = batch->all ? batch->engine->units : NULL; u; u = u->next)
        if (u->encoded)
            u->now = !u->now;
}

/* 1 when the point's binding changed. */
static int finish_point(struct batch *batch, struct mv_point *point)
{
    int changed = 0;

    if (point->applied || !point->refused) {
        changed = point->target != point->wanted ||
                  (mv_is_constant(point) && point->value != point->wanted_value);
        if (changed)
            point->left = batch->engine->operation;
        point->target = point->wanted;
        point->variant = point->wanted_variant;
        point->value = point->wanted_value;
    }
    point->dirty = point->refused != 0;
    mv_outcome(point, point->target != point->wanted ? MULTIVERSE_REFUSED
                      : changed                      ? MULTIVERSE_CHANGED
                                                     : MULTIVERSE_UNCHANGED, point->refused);
    return changed && mv_is_first(batch->engine, point);
}

static int finish_points(struct batch *batch, int failed)
{
    int changed = 0;

    for (struct mv_unit *u = batch->engine->units; u; u = u->next)
        for (size_t i = 0; i < u->n_points; i++) {
            struct mv_point *point = &u->points[i];

            if (failed)
                point->refused = (uint8_t)-failed;
            if (mv_needs_work(point))
                changed += finish_point(batch, point);
            point->selected = 0;
        }
    mv_outcomes_finish(batch->engine);
    return changed;
}

/* 0, or negative errno: nothing was changed. */
static int commit(struct batch *batch)
{
    struct mv_engine *engine = batch->engine;
    struct mvld_patch_report report = {0};
    int err = engine->api->patch_commit(batch->patches, &report);

    /* Every single patch was refused, each for its reason. */
    int each = err == -ESTALE || err == -EFAULT || err == -EEXIST;

    if (err && !each)
        return mv_fail(engine, err == -EACCES ? EPERM : -err, "nothing was changed: %s",
                       engine->api->last_error(engine->image));
    if (each || report.refused)
        each_word(batch, finish_word);
    else
        accept(batch);
    return 0;
}

/* One word by one costs as much as so many in arrays. */
#define FEW 8

/* 1: some point needs work.  `all`: points of units that are gone do. */
static int prepare(struct batch *batch, int all)
{
    struct mv_engine *engine = batch->engine;
    size_t needed = 0, words = 0;

    for (struct mv_unit *u = engine->units; u; u = u->next) {
        for (size_t i = 0; i < u->n_points; i++) {
            if (!u->points[i].selected)
                continue;
            prepare_point(batch, &u->points[i]);
            if (u->points[i].dirty)
                needed += 1 + u->points[i].n_sites;
        }
        words += u->n_points + u->n_sites;
    }
    batch->all = all || engine->some_closing /* the way that knows a site's unit */ ||
                 needed >= words / FEW;
    return all || needed;
}

int mv_write(struct mv_engine *engine, int all)
{
    struct batch batch = {.engine = engine};
    int changed, err = 0;

    engine->settled = 0;
    if (prepare(&batch, all)) {
        batch.patches = engine->api->patch_begin(engine->image);
        if (batch.patches) {
            fill(&batch);
            report_far(engine);
        }
        err = !batch.patches || batch.err ? mv_fail(engine, ENOMEM, "out of memory for a batch of patches")
                                          : commit(&batch);
    }
    changed = finish_points(&batch, err);
    if (batch.patches)
        engine->api->patch_end(batch.patches);
    return err ? err : changed;
}
