/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/code.c: the bytes of moved code (moved/moved.h).
 *
 * They are copied from memory, not from the file, with the changes of earlier passes.  References to a
 * function that moved are changed to its moved code (moved/code.c); all others keep their targets, at
 * another distance.
 */
#include "rimf/moved/moved.h"

#include "rimf/base/base.h"
#include "rimf/emit/calls.h"
#include "rimf/image/private.h"
#include "rimf/x86/decode.h"
#include "rimf/x86/displace.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

#define INT3 0xcc
#define AHEAD 16u /* data that just moved is in distant caches */

/* ---- jump tables -------------------------------------------------------------------- */

/* Places the tables behind the code, in order: their offsets from the first one. */
static int place_tables(struct moving *c)
{
    const struct analysis *s = c->analysis;
    uint32_t at = 0;

    c->tables = rimf_heap_alloc(&c->image->heap, (s->n_jump_tables + 1) * sizeof *c->tables);
    if (!c->tables)
        return -ENOMEM;
    for (size_t i = 0; i < s->n_jump_tables; i++) {
        c->tables[i] = at;
        at += s->jump_tables[i].count * (uint32_t)sizeof(int32_t);
    }
    return 0;
}

/* The tables' address behind the first code that moves; 0: that was left out, and the tables stay. */
static uintptr_t tables_of(const struct moving *c)
{
    const struct moved_fragment *first = &c->image->moved->list[c->object->fragments[0].index];

    return first->at + first->size > moved_tables_at(first) ? moved_tables_at(first) : 0;
}

/* The new address of the table at `address`, or 0. */
static uintptr_t table_moved(const struct moving *c, uint32_t address)
{
    size_t i = ANALYSIS_FROM(c->analysis, jump_tables, address);

    return i < c->analysis->n_jump_tables && c->analysis->jump_tables[i].address == address
               ? tables_of(c) + c->tables[i]
               : 0;
}

/* The new address of an entry's target, an original, or 0.  An entry for what cannot happen points just
 * behind a function, perhaps behind a fragment. */
static uintptr_t entry_moved(struct moving *c, uintptr_t target)
{
    if (!moving_at(c, target) && !moving_at(c, target - 1))
        return 0;
    return target + (uintptr_t)c->distance;
}

static int move_table(struct moving *c, const struct analysis_jump_table *table, uintptr_t to)
{
    uintptr_t from = c->bias + table->address, target, fragment;
    int error = 0;

    if (!elf_holds(&c->object->view, from, table->count * sizeof(int32_t), PROT_READ))
        return moving_refuse(c, "a jump table lies outside it");
    for (uint32_t i = 0; i < table->count && !error; i++) {
        target = entry_target(from, from + 4ul * i);
        fragment = entry_moved(c, target);
        if (!fragment && !elf_holds(&c->object->view, target, 1, PROT_READ | PROT_EXEC))
            return moving_refuse(c, "a jump table leads outside its functions");
        error = moving_target(c, (uint8_t *)to + 4 * i, to, fragment ? fragment : target);
    }
    return error;
}

static int move_tables(struct moving *c)
{
    const struct analysis *s = c->analysis;
    int error = 0;

    for (size_t i = 0; i < s->n_jump_tables && tables_of(c) && !error; i++)
        error = move_table(c, &s->jump_tables[i], tables_of(c) + c->tables[i]);
    return error;
}

static int move_calls(struct moving *); /* after the bytes, see below */

/* ---- references ----------------------------------------------------------------------- */

/* The address of a function, whose original exists. */
static uintptr_t address_taken(struct moving *c, uintptr_t original)
{
    uintptr_t canonical = moving_canonical(c, original);

    if (canonical == original && c->object->held)
        move_entries_held(c->image, c->object, original);
    return canonical;
}

static int move_reference(struct moving *c, const struct analysis_reference *reference)
{
    uint8_t *at = moving_byte(c, reference->address);
    uintptr_t next = (uintptr_t)at + 4 + reference->rest, target;

    if (!at)
        return 0;
    target = next - (uintptr_t)c->distance + (uintptr_t)distance_at(at);
    if (reference->kind == ANALYSIS_TO_CODE)
        target = address_taken(c, target);
    if (reference->kind == ANALYSIS_TO_JUMP_TABLE && tables_of(c)) {
        target = table_moved(c, (uint32_t)(target - c->bias));
        if (!target)
            return moving_refuse(c, "a reference leads to a jump table that is not there");
    }
    return moving_target(c, at, next, target);
}

/* A branch from one fragment into another, or to one that was left out. */
static int move_branch(struct moving *c, const struct analysis_branch *branch)
{
    uint8_t *at = moving_byte(c, branch->address);
    uintptr_t next = (uintptr_t)at + 4, target;

    if (!at)
        return 0;
    target = next - (uintptr_t)c->distance + (uintptr_t)distance_at(at);
    if (moving_at(c, target))
        target += (uintptr_t)c->distance;
    return moving_target(c, at, next, target);
}

/* ---- all of it --------------------------------------------------------------------------- */

/* Between units there is padding, which may be executed. */
static void move_bytes(const struct moving *c, const struct moved_fragment *fragment)
{
    const struct analysis *s = c->analysis;
    uint32_t first = (uint32_t)(fragment->original - c->bias);
    size_t i = 0;

    memcpy((void *)fragment->at, (const void *)fragment->original, fragment->code);
    *(uint8_t *)(fragment->at + fragment->code) = INT3;
    if (c->object->n_fragments > 1)
        i = (size_t)(analysis_unit_at(s, first) - s->units); /* a fragment begins with a unit */
    for (; i < s->n_units && (s->units[i].start < first ||
                              s->units[i].start - first < fragment->code); i++)
        if (s->units[i].reason != ANALYSIS_PROVEN && s->units[i].start >= first)
            memset((void *)(fragment->at + (s->units[i].start - first)), INT3, s->units[i].size);
}

static int correct(struct moving *c)
{
    const struct analysis *s = c->analysis;
    int error = 0;

    for (size_t i = 0; i < s->n_references && !error; i++) {
        if (i + AHEAD < s->n_references) /* a guess where there are fragments */
            __builtin_prefetch((const void *)(c->bias + s->references[i + AHEAD].address +
                                              (uintptr_t)c->distance), 1);
        error = move_reference(c, &s->references[i]);
    }
    if (!error)
        error = move_calls(c);
    for (size_t i = 0; i < s->n_branches && !error; i++)
        error = move_branch(c, &s->branches[i]);
    return error ? error : move_tables(c);
}

/* Makes moved code a jump to the original, for functions whose originals must run (`kept` of rimf_feeder). */
static int jump_back(struct moving *c)
{
    for (size_t i = 0; i < RIMF_KEPT_ORIGINALS; i++) {
        uintptr_t original = c->image->feeder.kept[i].at, at;

        if (!moving_at(c, original))
            continue;
        at = original + (uintptr_t)c->distance;
        if (displace_jump((uint8_t *)at, at, original))
            return moving_refuse(c, "it is farther than 2 GiB from the region");
    }
    return 0;
}

int move_code(struct moving *c)
{
    const struct moved_fragment *list = c->image->moved->list;
    int error;

    if (place_tables(c)) {
        c->why = "memory is short";
        return -ENOMEM;
    }
    for (size_t i = 0; i < c->object->n_fragments; i++)
        move_bytes(c, &list[c->object->fragments[i].index]);
    error = correct(c);
    if (!error)
        error = jump_back(c);
    rimf_heap_release(&c->image->heap, c->tables);
    return error;
}

/* ---- calls through slots -----------------------------------------------------------------------
 *
 * The targets of moved code's calls that go, or went, through slots (moved/moved.h).
 *
 * The wanted targets are written here, as in code that does not move (emit/calls.h).  A call is bound to the
 * moved code of the function, if any; an unedited call keeps its target.
 */

#define CALLS_AHEAD 8u /* code that just moved is in distant caches */

/* A call through a slot reads it at its address. */
static int lead_on(struct moving *c, uint8_t *at, const struct site *site)
{
    uintptr_t next = (uintptr_t)at + site->length;

    return moving_target(c, at + site->length - 4, next, site->to_slot ? site->target
                                                                       : rimf_moved_or(c->image, site->target));
}

/* `moves`: the unit that contains the call does, if its fragment does. */
static int move_call(struct moving *c, struct emit_calls *e, const struct analysis_call *listed, int moves)
{
    uint8_t *at = moves ? moving_byte(c, listed->address) : NULL;
    struct way none = {.target = 0}, *way = e->ways ? way_of(e, listed) : &none;
    struct site site;
    const char *why;

    if (!at) { /* it is counted where it stays */
        way->calls--;
        return 0;
    }
    why = emit_call(e, listed, (uintptr_t)at, c->distance, SITE_MAX, way, &site);
    if (!site.length)
        return moving_refuse(c, "a call is not what the analysis says, nor what a pass made of it");
    if (why && way->target)
        emit_miss(e, way, why);
    if (why || !way->target)
        return lead_on(c, at, &site);
    memcpy(at, &site.made, 4); /* five bytes, or six */
    memcpy(at + site.length - 4, (const uint8_t *)&site.made + site.length - 4, 4);
    return 0;
}

/* No target is known for any call: they go through their slots in the copy, too. */
static void leave_all(const struct moving *c, size_t n, const char *why)
{
    for (struct rimf_edit *edit = rimf_edits_of(c->image, c->object); edit; edit = rimf_edit_behind(c->image, edit)) {
        edit->now.sites += n;
        rimf_edit_left(edit, why, n);
    }
}

/* Calls of units that stay are listed, too; within a fragment these have traps. */
static int move_calls(struct moving *c)
{
    const struct analysis *s = c->analysis;
    struct emit_calls e = {.image = c->image, .object = c->object, .calls = s->calls, .n_calls = s->n_calls,
                           .runs_at = rimf_moved_or};
    int error = emit_calls_open(&e, 1, &c->why);
    size_t unit = 0;

    if (error == -ENOMEM)
        return error;
    error = 0;
    for (size_t i = 0; i < s->n_calls && !error; i++) {
        if (i + CALLS_AHEAD < s->n_calls) /* a guess if there are fragments */
            __builtin_prefetch((const void *)(c->bias + s->calls[i + CALLS_AHEAD].address +
                                              (uintptr_t)c->distance), 1);
        while (s->calls[i].address - s->units[unit].start >= s->units[unit].size)
            unit++; /* the reader saw to it that there is one */
        error = move_call(c, &e, &s->calls[i], s->units[unit].reason == ANALYSIS_PROVEN);
    }
    if (e.ways)
        emit_count(&e, 0);
    else
        leave_all(c, s->n_calls, c->why);
    emit_calls_close(&e);
    return error;
}
