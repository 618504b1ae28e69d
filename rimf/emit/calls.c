/* SPDX-License-Identifier: MIT
 *
 * rimf/emit/calls.c: makes the calls of an object through slots as passes want (emit/calls.h).
 */
#include "rimf/emit/calls.h"

#include "rimf/base/base.h"
#include "rimf/image/original.h"

#include <errno.h> /* numbers only */

/* ---- where they are wanted ------------------------------------------------------------------ */

size_t emit_calls_places(struct emit_calls *c)
{
    uint32_t low = UINT32_MAX, high = 0;

    for (size_t i = 0; i < c->n_calls; i++) {
        uint32_t slot = analysis_slot(&c->calls[i]);

        low = slot < low ? slot : low;
        high = slot > high ? slot : high;
    }
    c->first = low;
    return high ? (high - low) / 8 + 1 : 0;
}

/* Whether it is out of reach from everywhere in the object, which needs no look at the code. */
static int is_far(const struct mvld_object *object, uintptr_t target)
{
    intptr_t low = (intptr_t)(target - object->end), high = (intptr_t)(target - object->start);

    return (low > INT32_MAX && high > INT32_MAX) || (low < INT32_MIN && high < INT32_MIN);
}

/* Memory for reasons, which is not touched if there are none. */
static void ask_of(struct emit_calls *c, size_t i, int in_moved)
{
    struct way *way = &c->ways[i];
    struct rimf_wanted wanted = rimf_edit_wanted(c->image, c->object, way_slot(c, i));

    way->target = in_moved ? wanted.moved : wanted.target;
    if (wanted.why)
        c->whys[i] = wanted.why;
    if (rimf_edit_behind(c->image, c->edits))
        c->by[i] = in_moved ? wanted.by_moved : wanted.by;
    if (way->target && c->runs_at)
        way->target = c->runs_at(c->image, way->target);
    way->all_far = way->target && !in_moved && is_far(&c->object->public, way->target);
    if (way->all_far)
        way->target = 0;
}

int emit_calls_open(struct emit_calls *c, int in_moved, const char **why)
{
    c->n_ways = emit_calls_places(c);
    *why = "its slots lie too far apart";
    if (c->n_ways > EMIT_WAYS_MOST)
        return -ENODATA;
    c->ways = rimf_heap_alloc(&c->image->heap,
                              c->n_ways * (sizeof *c->ways + sizeof *c->missed + sizeof *c->whys + sizeof *c->by));
    c->whys = (const char **)(c->ways + c->n_ways);
    c->missed = (struct missed *)(c->whys + c->n_ways);
    c->by = (uint32_t *)(c->missed + c->n_ways);
    *why = "memory is short";
    if (!c->ways)
        return -ENOMEM;
    for (size_t i = 0; i < c->n_calls; i++)
        way_of(c, &c->calls[i])->calls++;
    c->edits = rimf_edits_of(c->image, c->object);
    for (size_t i = 0; c->edits && i < c->n_ways; i++)
        if (c->ways[i].calls)
            ask_of(c, i, in_moved);
    *why = NULL;
    return 0;
}

void emit_calls_close(struct emit_calls *c)
{
    rimf_heap_release(&c->image->heap, c->ways);
    c->ways = NULL;
}

/* ---- a call ------------------------------------------------------------------------------------ */

/* Whether it goes through the slot, by a PLT entry or without one; or was made direct before. */
static int is_through(struct emit_calls *c, const struct site *site, struct way *way, uintptr_t slot)
{
    uintptr_t names = site->target;

    if (site->to_slot)
        return names == slot;
    if (names == c->object->view.bias + way->entry && way->entry)
        return 1;
    if (rimf_plt_slot(&c->object->public, names) != slot)
        return rimf_edit_led(c->image, c->object, slot, rimf_unmoved(c->image, names));
    way->entry = (uint32_t)(names - c->object->view.bias);
    return 1;
}

const char *emit_call(struct emit_calls *c, const struct analysis_call *call, uintptr_t at, intptr_t away, size_t room,
                      struct way *way, struct site *site)
{
    enum mvld_reference_kind kind = (enum mvld_reference_kind)analysis_call_kind(call);

    if (!site_read_any(site, kind, at, room)) {
        site->length = 0;
        return edit_other;
    }
    site->target -= (uintptr_t)away;
    if (!is_through(c, site, way, c->object->view.bias + analysis_slot(call)))
        return edit_other;
    return site_make(site, way->target) ? NULL : edit_far;
}

void emit_miss(struct emit_calls *c, const struct way *way, const char *why)
{
    struct missed *missed = &c->missed[way - c->ways];

    missed->far += why == edit_far;
    missed->other += why != edit_far;
    c->any_missed = 1;
}

/* ---- counting ----------------------------------------------------------------------------------- */

static void count_way(const struct emit_calls *c, size_t i, struct rimf_edit *edit, uint32_t bit)
{
    const struct way *way = &c->ways[i];
    const struct missed missed = c->any_missed ? c->missed[i] : (struct missed){0, 0};
    int wants = !rimf_edit_behind(c->image, c->edits) ? way->target || way->all_far : (c->by[i] & bit) != 0;
    size_t left = !wants ? way->calls : way->target ? missed.other : way->all_far ? 0 : way->calls;
    size_t far = !wants ? 0 : way->all_far ? way->calls : missed.far;

    edit->now.sites += way->calls;
    edit->now.made += way->calls - left - far;
    rimf_edit_left(edit, edit_far, far);
    rimf_edit_left(edit, wants && way->target ? edit_other : c->whys[i], left);
}

void emit_count(struct emit_calls *c, size_t pages)
{
    uint32_t bit = 1;

    for (struct rimf_edit *edit = c->edits; edit; edit = rimf_edit_behind(c->image, edit), bit <<= 1) {
        for (size_t i = 0; i < c->n_ways; i++)
            if (c->ways[i].calls)
                count_way(c, i, edit, bit);
        edit->now.pages += pages;
        c->object->code.calls_direct |= edit->now.made != 0;
    }
}
