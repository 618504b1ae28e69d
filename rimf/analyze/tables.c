/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/tables.c: jump tables.
 *
 * A `switch` becomes a table of four-byte offsets from its own start to the cases:
 *
 *     lea table(%rip),%rdx;  movslq (%rdx,%rax,4),%rax;  add %rdx,%rax;  jmp *%rax
 *
 * Moved code that uses an original table jumps to originals, which is right, only slower.  A listed table
 * is copied for moved code with other contents, so it must certainly be a table: numbers may look like
 * offsets to code by accident.  A candidate is a table that a unit was seen to jump through (dispatch.c).
 *
 * Moved code uses the moved table if all uses of the original's address are such jumps, in code that moves.
 * Another use may mean data before the table, an array that ends there (`for (int i : {5, 4, 3})` compares
 * with its end), or be the other half of a jump.
 *
 * A listed table must lack no entry: it is assumed to continue as long as its offsets point to instructions
 * of movable units, or just behind one (the case that cannot happen), and up to the next table.  Additional
 * entries are never used.  A table with an entry into code that stays is not listed.
 */
#include "rimf/analyze/analyser.h"

/* ---- entries --------------------------------------------------------------------------- */

int entry_leads(const struct analyser *a, uint32_t table, uint64_t at)
{
    const uint8_t *bytes = object_at(&a->object, at, 4);
    struct unit *u;
    uint64_t target;

    if (!bytes || unit_at(a, at))
        return 0;
    target = table + (uint64_t)distance_at(bytes);
    u = unit_at(a, target);
    if (u && !is_start(a, target))
        return 0;
    if (!u) /* just behind one: the case that cannot happen */
        u = unit_at(a, target - 1);
    return !u ? 0 : u->reason ? -1 : 1;
}

/* Tables are visited from the last to the first, so that the start of the next one is known: `next`. */
static uint32_t count_entries(const struct analyser *a, uint32_t table, uint64_t next)
{
    uint32_t n = 0;
    int leads;

    for (uint64_t at = table; at < next; at += 4, n++) {
        leads = entry_leads(a, table, at);
        if (leads < 0)
            return 0;
        if (!leads)
            break;
    }
    return n;
}

/* The target of the reference: a lea or another operand. */
static uint32_t target_of(const struct analyser *a, const struct analysis_reference *r, int *lea)
{
    const uint8_t *at = object_at(&a->object, r->address, 4);

    *lea = at[-2] == 0x8d && (at[-1] & 0xc7) == 0x05;
    return (uint32_t)(r->address + 4 + r->rest + (uint64_t)distance_at(at));
}

static int is_operand(const struct analysis_reference *r)
{
    return r->kind == ANALYSIS_TO_RODATA || r->kind == ANALYSIS_TO_ORIGINAL;
}

/* Spoils tables whose addresses are used otherwise than dispatch.c has seen. */
static void spoil_tables(struct analyser *a)
{
    const struct taken *taken = a->taken.at;
    const struct pointer *words = a->object.words.at;
    const struct analysis_reference *references = a->references.at;
    int lea;

    for (size_t i = 0; i < a->taken.n; i++) {
        const struct unit *u = taken[i].unit < a->units.n ? &units_of(a)[taken[i].unit] : NULL;

        if (!u || u->reason || !u->dispatches || u->spoils & table_bit(taken[i].target) ||
            !has_address(&a->candidates, taken[i].target))
            VECTOR_ADD(&a->spoiled, uint32_t, taken[i].target);
    }
    for (size_t i = 0; i < a->object.words.n; i++)
        VECTOR_ADD(&a->spoiled, uint32_t, words[i].target);
    for (size_t i = 0; i < a->references.n; i++) {
        uint32_t target = is_operand(&references[i]) ? target_of(a, &references[i], &lea) : 0;

        if (target && !lea)
            VECTOR_ADD(&a->spoiled, uint32_t, target);
    }
    sort_addresses(&a->spoiled);
}

static int by_address(const void *a, const void *b)
{
    const struct analysis_jump_table *x = a, *y = b;

    return x->address < y->address ? -1 : x->address > y->address;
}

/* Whether its address is spoiled, or one inside. */
static int is_spoiled(const struct analyser *a, const struct analysis_jump_table *table)
{
    const uint32_t *spoiled = a->spoiled.at;
    size_t i = RIMF_BISECT(k, a->spoiled.n, spoiled[k] < table->address);

    return i < a->spoiled.n && (spoiled[i] - table->address) / 4 < table->count;
}

/* Marks references to tables that are jumped through. */
static void rename_references(struct analyser *a)
{
    struct analysis_reference *references = a->references.at;
    const struct analysis_jump_table *table;
    struct analysis_jump_table key;
    int lea;

    spoil_tables(a);
    for (size_t i = 0; i < a->references.n; i++) {
        if (!is_operand(&references[i]))
            continue;
        key.address = target_of(a, &references[i], &lea);
        table = bsearch(&key, a->jump_tables.at, a->jump_tables.n, sizeof key, by_address);
        if (table && !is_spoiled(a, table))
            references[i].kind = ANALYSIS_TO_JUMP_TABLE;
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
    if (!a->jump_tables.n)
        return;
    qsort(a->jump_tables.at, a->jump_tables.n, sizeof(struct analysis_jump_table), by_address);
    rename_references(a);
}
