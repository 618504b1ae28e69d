/* SPDX-License-Identifier: MIT
 *
 * rimf/copy_code.c: the bytes of a copy (copies.h).
 *
 * They are those in memory, not those of the file: what earlier passes made of them
 * counts.  So the bytes of a call say what it is by now:
 *
 *     e8 rel32  e9 rel32  0f 8x rel32     call, jmp, jcc: a PLT entry, or the function itself
 *     67 e8 rel32                         was ff 15: addr32 call f
 *     ff 15 rel32   ff 25 rel32           still goes through its slot
 *     e9 rel32 90                         was ff 25: jmp f; nop
 *
 * What leads to a function that has a copy is led there; everything else goes where it
 * went, at another distance.
 */
#include "copies.h"

#include "base.h"
#include "decode.h"
#include "displace.h"
#include "image_private.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

#define INT3 0xcc

static int refuse(struct copying *c, const char *why)
{
    c->why = why;
    return -ENOEXEC;
}

/* Where the copy of the byte is; its piece is at hand then.  NULL: it has none. */
static uint8_t *copy_at(struct copying *c, uint32_t linked)
{
    return copying_at(c, c->bias + linked)
               ? (uint8_t *)(c->bias + linked + (uintptr_t)c->distance)
               : NULL;
}

/* The displacement at `at`, of an instruction that ends at `next`, leads to `target`. */
static int lead(struct copying *c, uint8_t *at, uintptr_t next, uintptr_t target)
{
    int64_t distance = (int64_t)(target - next);
    int32_t value = (int32_t)distance;

    if (value != distance)
        return refuse(c, "something that it uses is farther than 2 GiB from the region");
    memcpy(at, &value, sizeof value);
    return 0;
}

/* ---- jump tables -------------------------------------------------------------------- */

/* Behind the code, in their order: where each begins, from the first one. */
static int place_tables(struct copying *c)
{
    const struct sidecar *s = c->analysis;
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

/* Behind the first code that moves; 0: that was left out, and the tables stay home. */
static uintptr_t tables_of(const struct copying *c)
{
    const struct rimf_copy *first = &c->image->copies->list[c->object->pieces[0]];

    return first->at + first->size > copies_tables(first) ? copies_tables(first) : 0;
}

/* The copy of the table at `address`, or 0. */
static uintptr_t table_copy(const struct copying *c, uint32_t address)
{
    size_t i = sidecar_jump_table_from(c->analysis, address);

    return i < c->analysis->n_jump_tables && c->analysis->jump_tables[i].address == address
               ? tables_of(c) + c->tables[i]
               : 0;
}

/* Where an entry leads, at home: its copy, or 0.  One for what cannot happen leads right
 * behind a function, perhaps behind a piece. */
static uintptr_t entry_copy(struct copying *c, uintptr_t target)
{
    if (!copying_at(c, target) && !copying_at(c, target - 1))
        return 0;
    return target + (uintptr_t)c->distance;
}

static int copy_table(struct copying *c, const struct sidecar_jump_table *table, uintptr_t to)
{
    uintptr_t from = c->bias + table->address, target, copy;
    int error = 0;

    if (!elf_holds(&c->object->view, from, table->count * sizeof(int32_t), PROT_READ))
        return refuse(c, "a jump table lies outside it");
    for (uint32_t i = 0; i < table->count && !error; i++) {
        target = from + (uintptr_t)distance_at((const uint8_t *)from + 4 * i);
        copy = entry_copy(c, target);
        if (!copy && !elf_holds(&c->object->view, target, 1, PROT_READ | PROT_EXEC))
            return refuse(c, "a jump table leads outside its functions");
        error = lead(c, (uint8_t *)to + 4 * i, to, copy ? copy : target);
    }
    return error;
}

static int copy_tables(struct copying *c)
{
    const struct sidecar *s = c->analysis;
    int error = 0;

    for (size_t i = 0; i < s->n_jump_tables && tables_of(c) && !error; i++)
        error = copy_table(c, &s->jump_tables[i], tables_of(c) + c->tables[i]);
    return error;
}

/* ---- references ----------------------------------------------------------------------- */

static int copy_reference(struct copying *c, const struct sidecar_reference *reference)
{
    uint8_t *at = copy_at(c, reference->address);
    uintptr_t next = (uintptr_t)at + 4 + reference->rest, target;

    if (!at)
        return 0;
    target = next - (uintptr_t)c->distance + (uintptr_t)distance_at(at);
    if (reference->kind == SIDECAR_TO_CODE)
        target = copying_identity(c, target);
    if (reference->kind == SIDECAR_TO_JUMP_TABLE && tables_of(c)) {
        target = table_copy(c, (uint32_t)(target - c->bias));
        if (!target)
            return refuse(c, "a reference leads to a jump table that is not there");
    }
    return lead(c, at, next, target);
}

/* Where the displacement of a call is, and how long the instruction; 0: it is none that
 * is known.  *direct: it leads to code, not to a slot. */
static unsigned call_shape(const uint8_t *at, enum sidecar_call_kind kind, unsigned *length,
                           int *direct)
{
    *direct = 1;
    *length = 6;
    switch (kind) {
    case SIDECAR_CALL_PLT:
        *length = 5;
        return at[0] == 0xe8 ? 1 : 0;
    case SIDECAR_JMP_PLT:
        *length = 5;
        return at[0] == 0xe9 ? 1 : 0;
    case SIDECAR_JCC_PLT:
        return at[0] == 0x0f && (at[1] & 0xf0) == 0x80 ? 2 : 0;
    case SIDECAR_CALL_SLOT:
        *direct = at[0] == 0x67 && at[1] == 0xe8;
        return *direct || (at[0] == 0xff && at[1] == 0x15) ? 2 : 0;
    case SIDECAR_JMP_SLOT:
        *direct = at[0] == 0xe9 && at[5] == 0x90;
        if (*direct)
            *length = 5;
        return *direct ? 1 : at[0] == 0xff && at[1] == 0x25 ? 2 : 0;
    default:
        return 0;
    }
}

/* Most calls lead where one before did: the copies of some functions, each in its place. */
struct copy_found {
    uintptr_t home, copy; /* 0: it has none */
};
#define FOUND 256u

static uintptr_t copy_of(const struct copying *c, uintptr_t home)
{
    struct copy_found *found = &c->found[home / 16 % FOUND];

    if (found->home != home)
        *found = (struct copy_found){home, rimf_copy_of(c->image, home)};
    return found->copy;
}

static int copy_call(struct copying *c, const struct sidecar_call *call)
{
    uint8_t *at = copy_at(c, call->address);
    unsigned length, displacement;
    uintptr_t next, target, copy;
    int direct;

    if (!at)
        return 0;
    displacement = call_shape(at, sidecar_call_kind(call), &length, &direct);
    if (!displacement)
        return refuse(c, "a call is not what the analysis says, nor what a pass made of it");
    next = (uintptr_t)at + length;
    target = next - (uintptr_t)c->distance +
             (uintptr_t)distance_at(at + displacement);
    copy = direct ? copy_of(c, target) : 0;
    return lead(c, at + displacement, next, copy ? copy : target);
}

/* Calls are listed of units that stay home, too. */
static int copy_calls(struct copying *c)
{
    const struct sidecar *s = c->analysis;
    size_t unit = 0;
    int error = 0;

    for (size_t i = 0; i < s->n_calls && !error; i++) {
        while (s->calls[i].address - s->units[unit].start >= s->units[unit].size)
            unit++; /* the reader saw to it that there is one */
        if (s->units[unit].reason == SIDECAR_PROVEN)
            error = copy_call(c, &s->calls[i]);
    }
    return error;
}

/* From one piece into another, or to one that was left out. */
static int copy_branch(struct copying *c, const struct sidecar_branch *branch)
{
    uint8_t *at = copy_at(c, branch->address);
    uintptr_t next = (uintptr_t)at + 4, target;

    if (!at)
        return 0;
    target = next - (uintptr_t)c->distance + (uintptr_t)distance_at(at);
    if (copying_at(c, target))
        target += (uintptr_t)c->distance;
    return lead(c, at, next, target);
}

/* ---- all of it --------------------------------------------------------------------------- */

/* Between units there is padding, which may be run through. */
static void copy_bytes(const struct copying *c, const struct rimf_copy *copy)
{
    const struct sidecar *s = c->analysis;
    uint32_t first = (uint32_t)(copy->home - c->bias);
    size_t i = 0;

    memcpy((void *)copy->at, (const void *)copy->home, copy->code);
    *(uint8_t *)(copy->at + copy->code) = INT3;
    if (c->object->n_pieces > 1)
        i = (size_t)(sidecar_unit_at(s, first) - s->units); /* a piece begins with one */
    for (; i < s->n_units && (s->units[i].start < first ||
                              s->units[i].start - first < copy->code); i++)
        if (s->units[i].reason != SIDECAR_PROVEN && s->units[i].start >= first)
            memset((void *)(copy->at + (s->units[i].start - first)), INT3, s->units[i].size);
}

static int correct(struct copying *c)
{
    const struct sidecar *s = c->analysis;
    int error = 0;

    for (size_t i = 0; i < s->n_references && !error; i++)
        error = copy_reference(c, &s->references[i]);
    if (!error)
        error = copy_calls(c);
    for (size_t i = 0; i < s->n_branches && !error; i++)
        error = copy_branch(c, &s->branches[i]);
    return error ? error : copy_tables(c);
}

/* Functions that must run at home (rimf_image_keep_home). */
static int jump_home(struct copying *c)
{
    for (size_t i = 0; i < RIMF_KEPT_HOME; i++) {
        uintptr_t home = c->image->kept_home[i], at;

        if (!copying_at(c, home))
            continue;
        at = home + (uintptr_t)c->distance;
        if (displace_jump((uint8_t *)at, at, home))
            return refuse(c, "it is farther than 2 GiB from the region");
    }
    return 0;
}

int copy_code(struct copying *c)
{
    const struct rimf_copy *list = c->image->copies->list;
    int error;

    c->found = rimf_heap_alloc(&c->image->heap, FOUND * sizeof *c->found);
    if (!c->found || place_tables(c)) {
        rimf_heap_release(&c->image->heap, c->found);
        c->why = "memory is short";
        return -ENOMEM;
    }
    for (size_t i = 0; i < c->object->n_pieces; i++)
        copy_bytes(c, &list[c->object->pieces[i]]);
    error = correct(c);
    if (!error)
        error = jump_home(c);
    rimf_heap_release(&c->image->heap, c->tables);
    rimf_heap_release(&c->image->heap, c->found);
    return error;
}
