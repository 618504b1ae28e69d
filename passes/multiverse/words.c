/* SPDX-License-Identifier: MIT
 *
 * words.c: what a unit's entries and sites hold, and what they are to hold.
 *
 * A commit of ten thousand sites is a sweep over memory, so what it needs of each is
 * kept apart from what is needed seldom (struct mv_site), in arrays by address:
 *
 *     words     places     where, how long        what the patch engine is given as it is
 *     bytes     [now]      as we left it          (patch_add_words)
 *               [!now]     as it is to become
 *     original             as the linker left it
 *     slot_of   slots      one for all words of one point that are encoded alike
 *
 * A slot says once for all its words what would be the same for each:
 *
 *     RULE      lead + (target - place) << shift, the distance masked away where a body
 *               is copied or an entry gets its NOP back
 *     KEEP      the point does not change
 *     ORIGINAL  revert, or the whole unit is out of the target's reach
 *     EACH      part of the unit is: word by word
 *
 * When a batch was applied whole, `now` becomes the other array.
 */
#include "engine.h"

/* ---- made when the sites are read */

size_t mv_words_size(size_t n)
{
    return n * (3 * sizeof(uint64_t) + sizeof(struct mvld_word) + sizeof(uint32_t));
}

/* `memory` has room for mv_words_size(n). */
static void lay_out(struct mv_unit *unit, void *memory, size_t n)
{
    unit->bytes[0] = memory;
    unit->bytes[1] = unit->bytes[0] + n;
    unit->original = unit->bytes[1] + n;
    unit->places = (struct mvld_word *)(void *)(unit->original + n);
    unit->slot_of = (uint32_t *)(void *)(unit->places + n);
}

/* The slot of this point's words of this kind and length: its number. */
static uint32_t slot_for(struct mv_engine *engine, struct mv_unit *unit, struct mv_point *point,
                         enum mv_site_kind kind, unsigned length)
{
    unsigned way = kind == MV_SITE_NONE ? 4 : (unsigned)mv_site_is_jump(kind) * 2 + (length == 6);

    if (point->slots_of != engine->n_slotted) {
        point->slots_of = engine->n_slotted;
        memset(point->slots, 0xff, sizeof point->slots);
    }
    if (point->slots[way] == UINT32_MAX)
        point->slots[way] = (uint32_t)unit->n_slots++;
    return point->slots[way];
}

/* MV_SITE_NONE: an entry. */
static uint32_t add_word(struct mv_engine *engine, struct mv_unit *unit, struct mv_point *point,
                         uintptr_t address, enum mv_site_kind kind, unsigned length)
{
    size_t i = unit->n_words++;

    unit->places[i] = (struct mvld_word){(uint32_t)(address - unit->object->start),
                                         (uint16_t)length, 0};
    unit->bytes[0][i] = unit->original[i] =
        kind == MV_SITE_NONE ? MV_PAD_NOP : mv_bytes_at(address, length);
    unit->slot_of[i] = slot_for(engine, unit, point, kind, length);
    return (uint32_t)i;
}

static void fill_slot(struct mv_unit *unit, uint32_t i, struct mv_point *point,
                      enum mv_site_kind kind)
{
    struct mv_slot *slot = &unit->slots[unit->slot_of[i]];

    slot->point = point;
    slot->kind = (uint8_t)kind;
    slot->length = (uint8_t)unit->places[i].length;
    slot->n++;
}

int mv_make_words(struct mv_engine *engine, struct mv_unit *unit, void *memory)
{
    struct mv_site *site = unit->sites, *end = site + unit->n_sites;
    struct mv_entry *pad = unit->by_pad, *last = pad + unit->n_points;

    lay_out(unit, memory, unit->n_sites + unit->n_points);
    unit->n_words = unit->n_slots = unit->now = 0;
    engine->n_slotted++;
    while (site < end || pad < last) {
        if (site == end || (pad < last && pad->key < site->address)) {
            struct mv_point *point = pad++->value;

            point->word = add_word(engine, unit, point, point->pad, MV_SITE_NONE, MV_PAD_SIZE);
        } else {
            site->word = add_word(engine, unit, site->point, site->address, site->kind,
                                  site->length);
            site++;
        }
    }
    unit->slots = engine->api->alloc(engine->image, unit->n_slots * sizeof *unit->slots + 1);
    if (!unit->slots)
        return -ENOMEM;
    for (site = unit->sites; site < end; site++)
        fill_slot(unit, site->word, site->point, site->kind);
    for (size_t i = 0; i < unit->n_points; i++)
        fill_slot(unit, unit->points[i].word, &unit->points[i], MV_SITE_NONE);
    return 0;
}

/* ---- what they are to hold */

void mv_prepare_pad(struct mv_point *point)
{
    point->pad_wanted = MV_PAD_NOP;
    if (point->wanted)
        mv_pad_encode(point->pad, point->wanted, &point->pad_wanted);
}

static void set_rule(struct mv_slot *slot, uint64_t lead, uint32_t mask)
{
    slot->way = MV_RULE;
    slot->lead = lead;
    slot->mask = mask;
}

/* Before the words of a unit are encoded. */
static void prepare_slot(const struct mv_unit *unit, struct mv_slot *slot)
{
    struct mv_point *point = slot->point;
    const struct mvld_word *places = unit->places;
    uintptr_t start = unit->object->start, first, last;
    struct mv_lead lead;
    uint64_t body;

    slot->way = MV_KEEP;
    slot->to = 0;
    slot->shift = 0;
    if (!mv_needs_work(point))
        return;
    if (slot->kind == MV_SITE_NONE) {
        set_rule(slot, point->pad_wanted, 0);
        return;
    }
    slot->way = MV_ORIGINAL;
    if (!point->wanted)
        return;
    if (point->inlined.usable &&
        mv_body_encode(mv_site_is_jump(slot->kind), slot->length, &point->inlined, &body)) {
        set_rule(slot, body, 0);
        return;
    }
    lead = mv_site_lead(slot->kind, slot->length);
    slot->to = (uint32_t)(point->wanted - start - lead.next);
    slot->shift = (uint8_t)(8 * lead.at);
    first = start + places[0].offset + lead.next;
    last = start + places[unit->n_words - 1].offset + lead.next;
    if (!mv_is_far(first, point->wanted) && !mv_is_far(last, point->wanted))
        set_rule(slot, lead.opcode, UINT32_MAX);
    else if (mv_is_far(first, point->wanted) && mv_is_far(last, point->wanted) &&
             (point->wanted < first) == (point->wanted < last))
        point->n_far += slot->n;
    else
        slot->way = MV_EACH;
}

uint64_t mv_word_wanted(const struct mv_unit *unit, size_t i, int *far)
{
    const struct mv_slot *slot = &unit->slots[unit->slot_of[i]];
    const struct mv_point *point = slot->point;
    uint64_t wanted;

    if (slot->kind == MV_SITE_NONE)
        return point->pad_wanted;
    if (!point->wanted)
        return unit->original[i];
    if (mv_site_encode(slot->kind, slot->length, mv_word_address(unit, i), point->wanted,
                       &point->inlined, &wanted))
        return wanted;
    ++*far;
    return unit->original[i];
}

static uint64_t special(struct mv_unit *unit, size_t i, const struct mv_slot *slot)
{
    int far = 0;
    uint64_t wanted;

    if (slot->way == MV_KEEP)
        return unit->bytes[unit->now][i];
    if (slot->way == MV_ORIGINAL)
        return unit->original[i];
    wanted = mv_word_wanted(unit, i, &far);
    slot->point->n_far += (uint32_t)far;
    return wanted;
}

void mv_encode_words(struct mv_unit *unit)
{
    uint64_t *wanted = unit->bytes[!unit->now];
    const struct mvld_word *places = unit->places;
    const uint32_t *slot_of = unit->slot_of;
    const struct mv_slot *slots = unit->slots;

    for (size_t i = 0; i < unit->n_slots; i++)
        prepare_slot(unit, &unit->slots[i]);
    for (size_t i = 0, n = unit->n_words; i < n; i++) {
        const struct mv_slot *slot = &slots[slot_of[i]];
        uint64_t distance = (slot->to - places[i].offset) & slot->mask;

        wanted[i] = slot->way == MV_RULE ? slot->lead | distance << slot->shift
                                         : special(unit, i, slot);
    }
}

/* ---- what they do hold */

static uint64_t held(const struct mv_unit *unit, size_t i)
{
    return mv_bytes_at(mv_word_address(unit, i), unit->places[i].length);
}

int mv_words_are_intact(const struct mv_unit *unit)
{
    for (size_t i = 0; !unit->sites_read && i < unit->n_points; i++)
        if (mv_bytes_at(unit->points[i].pad, MV_PAD_SIZE) != MV_PAD_NOP)
            return 0;
    for (size_t i = 0; i < unit->n_words; i++)
        if (held(unit, i) != unit->bytes[unit->now][i])
            return 0;
    return 1;
}

static void repair_words(struct mv_unit *unit)
{
    for (size_t i = 0; i < unit->n_words; i++) {
        struct mv_point *point = unit->slots[unit->slot_of[i]].point;
        int far = 0;

        if (!point || !point->selected)
            continue;
        if (held(unit, i) == mv_word_wanted(unit, i, &far))
            unit->bytes[unit->now][i] = held(unit, i);
        point->dirty = 1;
    }
}

/* The operation may have stopped before it had prepared its points, so what they were
 * to get is worked out anew; it counts where memory holds it.  The entry tells where a
 * function is bound. */
void mv_repair(struct mv_engine *engine)
{
    for (struct mv_unit *u = engine->units; u; u = u->next)
        for (size_t i = 0; i < u->n_points; i++)
            mv_prepare_pad(&u->points[i]);
    for (struct mv_unit *u = engine->units; u; u = u->next)
        if (u->sites_read)
            repair_words(u);
    for (struct mv_unit *u = engine->units; u; u = u->next)
        for (size_t i = 0; i < u->n_points; i++) {
            struct mv_point *p = &u->points[i];

            if (p->selected && u->sites_read && u->bytes[u->now][p->word] == p->pad_wanted) {
                p->target = p->wanted;
                p->variant = p->wanted_variant;
            }
            p->selected = 0;
        }
}
