/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/tables.c: jump tables.
 *
 * A `switch` becomes a table of four-byte offsets from its own start to the cases:
 *
 *     lea table(%rip),%rdx;  movslq (%rdx,%rax,4),%rax;  add %rdx,%rax;  jmp *%rax
 *
 * A table that is not corrected leads to originals, which is right, only slower.  One that is
 * listed is written anew for moved code, so it must be one: numbers may look like offsets to
 * code, by accident.  A candidate is what a unit jumps through, in just that way: other
 * instructions may stand between these, but no other branch behind the movslq, and of
 * several addresses that lea put into the register, the last one counts.
 *
 * Only that lea leads to the moved table.  Another one of the same address may mean what lies
 * in front of it, an array that ends there: `for (int i : {5, 4, 3})` compares with its end.
 *
 * Of a table that is listed no entry may be missing: it is taken to go on as long as its
 * offsets lead to instructions of units that move, or right behind one (the case that
 * cannot happen), and until the next table starts.  An entry too many is never used.  A
 * table with an entry into code that stays is not listed.
 */
#include "rimf/analyze/analyser.h"

/* ---- candidates ------------------------------------------------------------------------ */

static unsigned reg_of(const struct instruction *i)
{
    return modrm_reg(i) | (i->rex & 4) << 1;
}

static unsigned rm_of(const struct instruction *i)
{
    return (i->modrm & 7u) | (i->rex & 1) << 3;
}

/* What else puts an address that lea took elsewhere into a register: mov, movslq, pop. */
static void forget_lea(struct dispatch *d, const struct instruction *i)
{
    if (instruction_is(i, 0, 0x8b) || instruction_is(i, 0, 0x63))
        d->places[reg_of(i)] = 0;
    else if (instruction_is(i, 0, 0x89) && i->modrm >= 0xc0)
        d->places[rm_of(i)] = 0;
    else if (!i->map && i->opcode >= 0x58 && i->opcode <= 0x5f)
        d->places[(i->opcode & 7u) | (i->rex & 1) << 3] = 0;
}

/* movslq (base,index,4),offset */
static int reads_entry(const struct instruction *i, const uint8_t *code, uint8_t *base)
{
    const uint8_t *sib = code + i->opcode_at + 2;

    if (!instruction_is(i, 0, 0x63) || !(i->rex & 8) || (i->modrm & 7) != 4 ||
        i->modrm >= 0x80 || *sib >> 6 != 2)
        return 0;
    if (i->modrm >= 0x40 ? code[i->displacement_at] != 0 : (*sib & 7) == 5)
        return 0;
    *base = (uint8_t)((*sib & 7) | (i->rex & 1) << 3);
    return 1;
}

static int are_both(const struct dispatch *d, unsigned one, unsigned other)
{
    return (one == d->base && other == d->offset) || (other == d->base && one == d->offset);
}

/* lea (one,other) */
static int is_sum(const struct dispatch *d, const struct instruction *i, const uint8_t *code)
{
    uint8_t sib;

    if (!is_lea(i) || i->modrm >= 0x40 || (i->modrm & 7) != 4)
        return 0;
    sib = code[i->opcode_at + 2];
    return sib < 0x40 && (sib & 7) != 5 &&
           are_both(d, (sib & 7u) | (i->rex & 1) << 3, (sib >> 3 & 7u) | (i->rex & 2) << 2);
}

/* The register that gets base + offset, or 16. */
static unsigned sum_of(const struct dispatch *d, const struct instruction *i, const uint8_t *code)
{
    if (!(i->rex & 8))
        return 16;
    if ((instruction_is(i, 0, 0x01) || instruction_is(i, 0, 0x03)) && i->modrm >= 0xc0 &&
        are_both(d, reg_of(i), rm_of(i)))
        return i->opcode == 0x01 ? rm_of(i) : reg_of(i);
    return is_sum(d, i, code) ? reg_of(i) : 16;
}

static int could_be_table(const struct analyser *a, uint64_t target)
{
    const struct segment *s = object_segment(&a->object, target);

    return s && !(s->flags & PF_W) && target % 4 == 0 && !unit_at(a, target);
}

void watch_dispatch(struct analyser *a, struct dispatch *d, const uint8_t *code, uint32_t at,
                    const struct instruction *i)
{
    unsigned sum = d->table ? sum_of(d, i, code) : 16;
    uint64_t target;
    uint8_t base;

    if (is_lea(i) && i->rip) {
        target = rip_target(code, at, i);
        d->leas[reg_of(i)] = could_be_table(a, target) ? (uint32_t)target : 0;
        d->places[reg_of(i)] = at + i->displacement_at;
    } else if (reads_entry(i, code, &base)) {
        d->table = d->leas[base];
        d->place = d->places[base];
        d->base = base;
        d->offset = (uint8_t)reg_of(i);
        d->sum = 16;
    } else if (sum < 16) {
        d->sum = (uint8_t)sum;
    } else if (instruction_flow(i) != FLOW_NEXT) {
        if (d->table && instruction_is(i, 0, 0xff) && modrm_reg(i) == 4 && i->modrm >= 0xc0 &&
            rm_of(i) == d->sum) {
            VECTOR_ADD(&a->candidates, uint32_t, d->table);
            VECTOR_ADD(&a->dispatched, uint32_t, d->place);
        }
        d->table = 0;
    }
    forget_lea(d, i);
}

/* ---- entries --------------------------------------------------------------------------- */

/* 1: an entry; 0: none; -1: an entry that leads to code that stays. */
static int entry_leads(const struct analyser *a, uint32_t table, uint64_t at, struct unit **seen)
{
    const uint8_t *bytes = object_at(&a->object, at, 4);
    struct unit *u;
    uint64_t target;
    int32_t offset;

    if (!bytes || unit_at(a, at))
        return 0;
    memcpy(&offset, bytes, sizeof offset);
    target = table + (uint64_t)(int64_t)offset;
    if (*seen && target == (*seen)->end)
        return 1;
    u = is_start(a, target) ? unit_at(a, target) : NULL;
    if (!u)
        return 0;
    *seen = u;
    return u->reason ? -1 : 1;
}

/* Tables are looked at from the last to the first, so that the start of the next one,
 * if it is one, is known: `next`. */
static uint32_t count_entries(const struct analyser *a, uint32_t table, uint64_t next)
{
    struct unit *seen = NULL;
    uint32_t n = 0;
    int leads;

    for (uint64_t at = table; at < next; at += 4, n++) {
        leads = entry_leads(a, table, at, &seen);
        if (leads < 0)
            return 0;
        if (!leads)
            break;
    }
    return n;
}

static void reverse(struct vector *v)
{
    struct analysis_jump_table *at = v->at;

    for (size_t i = 0; i < v->n / 2; i++) {
        struct analysis_jump_table other = at[i];

        at[i] = at[v->n - 1 - i];
        at[v->n - 1 - i] = other;
    }
}

static int by_address(const void *a, const void *b)
{
    const struct analysis_jump_table *x = a, *y = b;

    return x->address < y->address ? -1 : x->address > y->address;
}

/* References by which a table is jumped through are of that kind. */
static void rename_references(struct analyser *a)
{
    struct analysis_reference *references = a->references.at;

    sort_addresses(&a->dispatched);

    for (size_t i = 0; i < a->references.n && a->jump_tables.n; i++) {
        struct analysis_reference *r = &references[i];
        const uint8_t *at = object_at(&a->object, r->address, 4);
        struct analysis_jump_table key;
        int32_t distance;

        if ((r->kind != ANALYSIS_TO_RODATA && r->kind != ANALYSIS_TO_ORIGINAL) ||
            (at[-2] == 0x8d && !has_address(&a->dispatched, r->address))) /* another lea */
            continue;
        memcpy(&distance, at, sizeof distance);
        key.address = r->address + 4 + r->rest + (uint32_t)distance;
        if (bsearch(&key, a->jump_tables.at, a->jump_tables.n, sizeof key, by_address))
            r->kind = ANALYSIS_TO_JUMP_TABLE;
    }
}

void find_jump_tables(struct analyser *a)
{
    const uint32_t *candidates;
    uint64_t next = UINT32_MAX;

    sort_addresses(&a->candidates);
    candidates = a->candidates.at;
    for (size_t i = a->candidates.n; i-- > 0;) {
        uint32_t n = count_entries(a, candidates[i], next);

        if (!n)
            continue;
        VECTOR_ADD(&a->jump_tables, struct analysis_jump_table, candidates[i], n);
        next = candidates[i];
    }
    reverse(&a->jump_tables);
    rename_references(a);
}
