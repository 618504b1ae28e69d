/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/tables.c: jump tables.
 *
 * A `switch` becomes a table of four-byte offsets from its own start to the cases:
 *
 *     lea table(%rip),%rdx;  movslq (%rdx,%rax,4),%rax;  add %rdx,%rax;  jmp *%rax
 *
 * A table that is left at home leads home, which is right, only slower.  So what
 * matters of one that is listed is that no entry is missing: a table is taken to go on
 * as long as its offsets lead to instructions of units that move, or right behind one
 * (the case that cannot happen), and until the next table starts.  An entry too many
 * is never used.  A table with an entry into code that stays home is not listed.
 */
#include "analysis.h"

/* 1: an entry; 0: none; -1: an entry that leads to code that stays. */
static int entry_leads(const struct analysis *a, uint32_t table, uint64_t at, struct unit **seen)
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
static uint32_t count_entries(const struct analysis *a, uint32_t table, uint64_t next)
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
    struct sidecar_jump_table *at = v->at;

    for (size_t i = 0; i < v->n / 2; i++) {
        struct sidecar_jump_table other = at[i];

        at[i] = at[v->n - 1 - i];
        at[v->n - 1 - i] = other;
    }
}

static int by_address(const void *a, const void *b)
{
    const struct sidecar_jump_table *x = a, *y = b;

    return x->address < y->address ? -1 : x->address > y->address;
}

/* References to the start of a table are of that kind. */
static void rename_references(struct analysis *a)
{
    struct sidecar_reference *references = a->references.at;

    for (size_t i = 0; i < a->references.n && a->jump_tables.n; i++) {
        struct sidecar_reference *r = &references[i];
        const uint8_t *at = object_at(&a->object, r->address, 4);
        struct sidecar_jump_table key;
        int32_t distance;

        if (r->kind != SIDECAR_TO_RODATA && r->kind != SIDECAR_TO_HOME)
            continue;
        memcpy(&distance, at, sizeof distance);
        key.address = r->address + 4 + r->rest + (uint32_t)distance;
        if (bsearch(&key, a->jump_tables.at, a->jump_tables.n, sizeof key, by_address))
            r->kind = SIDECAR_TO_JUMP_TABLE;
    }
}

void find_jump_tables(struct analysis *a)
{
    const uint32_t *candidates;
    uint64_t next = UINT32_MAX;

    sort_addresses(&a->candidates);
    candidates = a->candidates.at;
    for (size_t i = a->candidates.n; i-- > 0;) {
        uint32_t n = count_entries(a, candidates[i], next);

        if (!n)
            continue;
        VECTOR_ADD(&a->jump_tables, struct sidecar_jump_table, candidates[i], n);
        next = candidates[i];
    }
    reverse(&a->jump_tables);
    rename_references(a);
}
