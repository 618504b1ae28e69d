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

static uint8_t *copy_at(const struct copying *c, uint32_t linked)
{
    return (uint8_t *)(c->bias + linked + (uintptr_t)c->distance);
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

static uintptr_t tables_of(const struct copying *c)
{
    return c->copy->at + ((c->copy->code + 7) & ~(size_t)7);
}

/* The copy of the table at `address`, or 0. */
static uintptr_t table_copy(const struct copying *c, uint32_t address)
{
    size_t i = sidecar_jump_table_from(c->analysis, address);

    return i < c->analysis->n_jump_tables && c->analysis->jump_tables[i].address == address
               ? tables_of(c) + c->tables[i]
               : 0;
}

static int copy_table(struct copying *c, const struct sidecar_jump_table *table, uintptr_t to)
{
    uintptr_t from = c->bias + table->address, target;
    int error = 0;

    if (!elf_holds(&c->copy->object->view, from, table->count * sizeof(int32_t), PROT_READ))
        return refuse(c, "a jump table lies outside it");
    for (uint32_t i = 0; i < table->count && !error; i++) {
        target = from + (uintptr_t)distance_at((const uint8_t *)from + 4 * i);
        if (target - c->copy->home > c->copy->code)
            return refuse(c, "a jump table leads outside its functions");
        error = lead(c, (uint8_t *)to + 4 * i, to, target + (uintptr_t)c->distance);
    }
    return error;
}

static int copy_tables(struct copying *c)
{
    const struct sidecar *s = c->analysis;
    int error = 0;

    for (size_t i = 0; i < s->n_jump_tables && !error; i++)
        error = copy_table(c, &s->jump_tables[i], tables_of(c) + c->tables[i]);
    return error;
}

/* ---- references ----------------------------------------------------------------------- */

static int copy_reference(struct copying *c, const struct sidecar_reference *reference)
{
    uint8_t *at = copy_at(c, reference->address);
    uintptr_t next = (uintptr_t)at + 4 + reference->rest;
    uintptr_t target = next - (uintptr_t)c->distance + (uintptr_t)distance_at(at);

    if (reference->kind == SIDECAR_TO_JUMP_TABLE) {
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

static int copy_call(struct copying *c, const struct sidecar_call *call)
{
    uint8_t *at = copy_at(c, call->address);
    unsigned length, displacement;
    uintptr_t next, target, copy;
    int direct;

    displacement = call_shape(at, sidecar_call_kind(call), &length, &direct);
    if (!displacement)
        return refuse(c, "a call is not what the analysis says, nor what a pass made of it");
    next = (uintptr_t)at + length;
    target = next - (uintptr_t)c->distance +
             (uintptr_t)distance_at(at + displacement);
    copy = direct ? rimf_copy_of(c->image, target) : 0;
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

/* ---- all of it --------------------------------------------------------------------------- */

/* Between units there is padding, which may be run through. */
static void copy_bytes(const struct copying *c)
{
    const struct sidecar *s = c->analysis;
    uint32_t first = (uint32_t)(c->copy->home - c->bias);

    memcpy((void *)c->copy->at, (const void *)c->copy->home, c->copy->code);
    for (size_t i = 0; i < s->n_units; i++) {
        const struct sidecar_unit *unit = &s->units[i];

        if (unit->reason != SIDECAR_PROVEN && unit->start >= first &&
            unit->start - first < c->copy->code)
            memset(copy_at(c, unit->start), INT3, unit->size);
    }
}

static int correct(struct copying *c)
{
    const struct sidecar *s = c->analysis;
    int error = 0;

    for (size_t i = 0; i < s->n_references && !error; i++)
        error = copy_reference(c, &s->references[i]);
    if (!error)
        error = copy_calls(c);
    return error ? error : copy_tables(c);
}

/* Functions that must run at home (rimf_image_keep_home). */
static int jump_home(struct copying *c)
{
    for (size_t i = 0; i < RIMF_KEPT_HOME; i++) {
        uintptr_t home = c->image->kept_home[i], at = home + (uintptr_t)c->distance;

        if (home >= c->copy->home && home - c->copy->home < c->copy->code &&
            displace_jump((uint8_t *)at, at, home))
            return refuse(c, "it is farther than 2 GiB from the region");
    }
    return 0;
}

int copy_code(struct copying *c)
{
    int error;

    if (c->distance != (int32_t)c->distance)
        return refuse(c, "it is farther than 2 GiB from the region");
    if (place_tables(c)) {
        c->why = "memory is short";
        return -ENOMEM;
    }
    copy_bytes(c);
    error = correct(c);
    if (!error)
        error = jump_home(c);
    rimf_heap_release(&c->image->heap, c->tables);
    return error;
}
