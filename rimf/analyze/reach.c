/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/reach.c: how units are entered.  REACHED: a movable unit is entered by more than movable
 * code.  HEAD: a jump may be written over its first bytes.
 *
 *     start:  f3 0f 1e fa    endbr64                  start:  f3 0f 1e fa
 *     head:   55             push %rbp                head:   e9 rel32     jmp moved head
 *             48 89 e5       mov %rsp,%rbp                    ..
 *             41 57          push %r15                        57
 *
 * Original code that runs may enter `start` and `head`, and anything behind those five bytes, but nothing
 * between.  Which originals run is unknown.  So every branch of every unit counts, including its own, every
 * pointer, symbol and landing pad (check.c records them), and what is searched here:
 *
 * - Jump tables.  What lea addresses may be one: it is followed while its offsets lead to
 *   code, as tables.c does, but with no regard to what is listed there.  In a function
 *   whose labels are taken, offsets may count from each label.
 * - Code that is not understood, in units and outside any.  There each byte may begin an
 *   instruction: whatever would be a branch or a lea, from any byte, is believed.
 *   If it could compute with its own address, all addresses of the object may be held.
 * - Data.  A word whose value is the distance from itself to a function's start may be a pointer to it.
 * - Return addresses of calls that a head would cover.
 *
 * Too many targets cost a head, or add a jump that is not needed.
 *
 * HELD is the part of REACHED without symbols and movable code: the unit's address may be anywhere, and any place
 * in it may be entered.  A unit without HELD is referred to only by what the analysis lists, and by names of the
 * dynamic symbol table.
 */
#include "rimf/analyze/analyser.h"

#define MOVABS 10u /* bytes of this instruction */

static uint32_t head_of(const struct analyser *a, const struct unit *u)
{
    return u->start + (uint32_t)endbr64_size(unit_code(a, u, u->start), u->end - u->start);
}

static int is_entered(const struct analyser *a, uint32_t address)
{
    const struct code *c = code_at(a, address);
    uint32_t bit = address - c->start;

    return c->entered[bit / 64] >> bit % 64 & 1;
}

void note_entered(struct analyser *a, uint64_t address)
{
    const struct code *c = code_at(a, address);

    if (c)
        c->entered[(address - c->start) / 64] |= 1ull << (address - c->start) % 64;
}

static void note_reached(struct analyser *a, uint64_t target)
{
    struct unit *u = unit_at(a, target);

    note_entered(a, target);
    if (u && (target == u->start || target == head_of(a, u)))
        u->reached = 1;
}

/* Records a target of something that the analysis does not list. */
static void note_held(struct analyser *a, uint64_t target)
{
    struct unit *u = unit_at(a, target);

    note_reached(a, target);
    if (u)
        u->held = 1;
}

/* ---- code that is not understood ------------------------------------------------------------ */

/* Whether a call or lea at `at` could take an address beside itself to which a movabs near it adds a distance
 * into the object (the large code model, check.c). */
static int is_base(const struct analyser *a, const struct code *c, uint64_t at, uint64_t target)
{
    uint64_t constant;

    if (target > at + 5 || target + MOVABS + 2 <= at) /* 2: the lea's REX, and more than enough */
        return 0;
    for (uint64_t place = at - c->start > 16 ? at - 16 : c->start; place < at + 32 && place + MOVABS <= c->end;
         place++) {
        const uint8_t *code = c->bytes + (place - c->start);

        memcpy(&constant, code + 2, sizeof constant);
        if ((code[0] & 0xfe) == 0x48 && (code[1] & 0xf8) == 0xb8 && constant &&
            target + constant - a->object.low < a->object.high - a->object.low)
            return 1;
    }
    return 0;
}

/* Every branch and lea that could begin at `at`, `room` bytes before the segment's end. */
static void suspect(struct analyser *a, const struct code *c, const uint8_t *at, uint64_t room, uint64_t address)
{
    uint64_t place = address;
    int32_t distance;
    unsigned opcode = *at, size;

    if ((opcode & 0xf0) == 0x70 || (opcode & 0xfc) == 0xe0 || opcode == 0xeb) {
        if (room >= 2)
            note_held(a, address + 2 + (uint64_t)(int64_t)(int8_t)at[1]);
        return;
    }
    size = opcode == 0xe8 || opcode == 0xe9 ? 1 : 2;
    if (room < size + sizeof distance ||
        !(size == 1 || (opcode == 0x0f && (at[1] & 0xf0) == 0x80) || /* jcc */
          (opcode == 0xc7 && at[1] == 0xf8) ||                       /* xbegin */
          (opcode == 0x8d && (at[1] & 0xc7) == 0x05)))               /* lea x(%rip) */
        return;
    memcpy(&distance, at + size, sizeof distance);
    address += size + sizeof distance + (uint64_t)(int64_t)distance;
    note_held(a, address);
    a->based |= (opcode == 0xe8 || opcode == 0x8d) && is_base(a, c, place, address);
    if (opcode == 0x8d)
        VECTOR_ADD(&a->taken, struct taken, (uint32_t)address, UINT32_MAX, 0);
}

static void suspect_range(struct analyser *a, const struct code *c, uint32_t start, uint32_t end)
{
    for (uint32_t at = start; at < end; at++)
        suspect(a, c, c->bytes + (at - c->start), c->end - at, at);
}

int is_padding(const struct code *c, uint32_t start, uint32_t end)
{
    struct instruction i;

    for (uint32_t at = start; at < end; at += i.length)
        if (!decode(c->bytes + (at - c->start), end - at, &i) || !instruction_is_padding(&i))
            return 0;
    return 1;
}

/* From the end of one unit to the start of the next.  Code there continues into the next unit. */
static void suspect_gaps(struct analyser *a, const struct code *c)
{
    struct unit *units = units_of(a);
    uint32_t start = c->start;

    for (size_t i = c->first_unit[0]; i < a->units.n && units[i].start < c->end; i++) {
        if (!is_padding(c, start, units[i].start)) {
            suspect_range(a, c, start, units[i].start);
            units[i].reached = units[i].held = 1;
        }
        start = units[i].end;
    }
    if (start < c->end)
        suspect_range(a, c, start, c->end);
}

/* ---- jump tables ------------------------------------------------------------------------------ */

/* The start of the next certain table. */
static uint64_t next_table(const struct analyser *a, uint32_t table)
{
    const uint32_t *candidates = a->candidates.at;
    size_t next = RIMF_BISECT(i, a->candidates.n, candidates[i] <= table);

    return next < a->candidates.n ? candidates[next] : UINT64_MAX;
}

/* Entries whose targets are outside the unit that takes the address are of a table that others may use. */
static void follow_table(struct analyser *a, const struct taken *by, uint32_t table, uint32_t base, uint64_t *budget)
{
    const struct unit *own = by->unit == UINT32_MAX ? NULL : &units_of(a)[by->unit];
    uint64_t target, end = next_table(a, table);
    const uint8_t *at;
    int32_t offset;

    for (uint64_t address = table; address < end; address += 4) {
        at = object_at(&a->object, address, 4);
        if (!at)
            return;
        memcpy(&offset, at, sizeof offset);
        target = base + (uint64_t)(int64_t)offset;
        if (!code_at(a, target) || !*budget)
            return;
        --*budget;
        if (own && target >= own->start && target < own->end)
            note_reached(a, target);
        else
            note_held(a, target);
    }
}

/* Follows each table that the unit addresses, from this base. */
static void follow_from(struct analyser *a, const struct taken *first, const struct taken *end,
                        uint32_t base, uint64_t *budget)
{
    for (const struct taken *t = first; t < end && *budget; t++) {
        --*budget;
        if (!t->is_label)
            follow_table(a, t, t->target, base, budget);
    }
}

/* The elements from `first` to `end` are of one unit. */
static void follow_unit(struct analyser *a, const struct taken *first, const struct taken *end,
                        uint64_t *budget)
{
    for (const struct taken *t = first; t < end && *budget; t++) {
        if (t->is_label)
            follow_from(a, first, end, t->target, budget);
        else
            follow_table(a, t, t->target, t->target, budget);
    }
}

/* 0, or -1: there was more than a file of this size can need. */
static int follow_tables(struct analyser *a)
{
    uint64_t budget = 4 * (uint64_t)a->object.size;
    const struct taken *first = a->taken.at, *end, *last = first + a->taken.n;

    for (; first < last && budget; first = end) { /* sorted by unit */
        for (end = first; end < last && end->unit == first->unit;)
            end++;
        follow_unit(a, first, end, &budget);
    }
    return budget ? 0 : -1;
}

/* ---- code that stays -------------------------------------------------------------------------- */

static void reach_from(struct analyser *a, const struct unit *u)
{
    void (*note)(struct analyser *, uint64_t) = u->reason ? note_held : note_reached;
    const struct code *c = code_at(a, u->start);
    struct instruction i;

    if (!unit_is_decoded(u))
        suspect_range(a, c, u->start, u->end);
    for (uint32_t at = u->start; at < u->end; at += i.length) {
        const uint8_t *code = c->bytes + (at - c->start);

        if (!decode(code, u->end - at, &i))
            i.length = 1;
        else if (flow_is_relative(instruction_flow(&i)))
            note(a, branch_target(code, at, &i));
    }
}

/* Words of a section of data that are the distance from themselves to a function, as in Swift's tables.  Those of
 * .eh_frame and of its header are known. */
static void hold_distances(struct analyser *a, uint64_t start, uint64_t end, uint64_t *budget)
{
    const Elf64_Phdr *header = object_phdr(&a->object, PT_GNU_EH_FRAME, 0);
    const uint8_t *bytes = object_at(&a->object, start, 0);
    uint64_t room = object_room(&a->object, start);

    if (!bytes || start == a->list.start || (header && start == header->p_vaddr))
        return;
    room = end - start < room ? end - start : room;
    for (uint64_t at = -start & 3; at + 4 <= room && *budget; at += 4, --*budget) {
        uint64_t target = start + at + (uint64_t)distance_at(bytes + at);
        const struct unit *u = unit_at(a, target);

        if (u && u->start == target)
            note_held(a, target);
    }
}

/* Objects without sections stay (places.c). */
static void hold_sections(struct analyser *a)
{
    uint64_t budget = 4 * (uint64_t)a->object.size;
    size_t n;
    const Elf64_Shdr *s = object_sections(&a->object, &n);

    for (size_t i = 0; i < n; i++)
        if (s[i].sh_type == SHT_PROGBITS && s[i].sh_flags & SHF_ALLOC && !(s[i].sh_flags & SHF_EXECINSTR))
            hold_distances(a, s[i].sh_addr, s[i].sh_addr + s[i].sh_size, &budget);
}

/* Operands of movable code are listed. */
static void hold_taken(struct analyser *a)
{
    const struct taken *taken = a->taken.at;

    for (size_t i = 0; i < a->taken.n; i++)
        if (taken[i].unit == UINT32_MAX || units_of(a)[taken[i].unit].reason)
            note_held(a, taken[i].target);
}

static void reach_from_originals(struct analyser *a)
{
    struct unit *units = units_of(a);
    const struct pointer *pointers = a->object.pointers.at;
    const uint32_t *labels = a->object.labels.at;

    for (size_t i = 0; i < a->object.pointers.n; i++) {
        if (pointers[i].target == pointers[i].from) /* a symbol */
            note_reached(a, pointers[i].target);
        else
            note_held(a, pointers[i].target);
    }
    note_held(a, a->object.header.e_entry);
    note_held(a, object_tag(&a->object, DT_INIT));
    note_held(a, object_tag(&a->object, DT_FINI));
    hold_taken(a);
    hold_sections(a);
    for (size_t i = 0; i < a->object.labels.n; i++)
        note_entered(a, labels[i]);
    for (size_t i = 0; i < a->n_code; i++)
        suspect_gaps(a, &a->code[i]);
    for (size_t i = 0; i < a->units.n; i++) {
        if (!units[i].reason)
            continue;
        reach_from(a, &units[i]);
        if (i + 1 < a->units.n && (units[i].falls || !unit_is_decoded(&units[i])))
            units[i + 1].reached = units[i + 1].held = 1;
    }
}

/* ---- heads -------------------------------------------------------------------------------------- */

/* Returns 1 if a call that a jump would cover returns to a covered byte. */
static int returns_into(const struct analyser *a, const struct unit *u, uint32_t head)
{
    struct instruction i;
    enum flow flow;

    for (uint32_t at = head; at < head + ANALYSIS_HEAD_SIZE; at += i.length) {
        if (!decode(unit_code(a, u, at), u->end - at, &i))
            return 1; /* cannot be: it is decoded */
        flow = instruction_flow(&i);
        if ((flow == FLOW_CALL || flow == FLOW_CALL_INDIRECT) &&
            at + i.length < head + ANALYSIS_HEAD_SIZE)
            return 1;
    }
    return 0;
}

static int has_head(const struct analyser *a, const struct unit *u)
{
    uint32_t head = head_of(a, u);

    if (u->end - head < ANALYSIS_HEAD_SIZE)
        return 0;
    for (uint32_t at = head + 1; at < head + ANALYSIS_HEAD_SIZE; at++)
        if (is_entered(a, at))
            return 0;
    return !returns_into(a, u, head);
}

/* A function that is entered from elsewhere and has no head runs in place.  So do all functions that it
 * branches to: those are reached, too.  The targets of their branches are already recorded. */
static void reach_from_headless(struct analyser *a)
{
    struct unit *units = units_of(a);

    for (int again = 1; again;) {
        again = 0;
        for (size_t i = 0; i < a->units.n; i++) {
            struct unit *u = &units[i];

            if (u->reason || !u->reached || u->followed || has_head(a, u))
                continue;
            u->followed = 1;
            again = 1;
            reach_from(a, u);
            if (u->falls && i + 1 < a->units.n)
                units[i + 1].reached = 1;
        }
    }
}

/* In an object at a fixed address, or with unknown pointers, nothing moves: all units are reached, and none
 * has a head. */
void reach_units(struct analyser *a)
{
    struct unit *units = units_of(a);
    int all = a->object.flags != 0, known = !all;

    if (!all) {
        sort_addresses(&a->candidates);
        reach_from_originals(a);
        known = follow_tables(a) == 0;
        reach_from_headless(a);
    }
    for (size_t i = 0; i < a->units.n; i++) {
        struct unit *u = &units[i];

        u->reached = (uint8_t)(!u->reason && (all || u->reached));
        u->held = (uint8_t)(!u->reason && (!known || a->based || u->held));
        u->head = (uint8_t)(known && u->reached && has_head(a, u));
    }
}
