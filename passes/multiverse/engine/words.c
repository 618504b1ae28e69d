/* SPDX-License-Identifier: MIT
 *
 * words.c: present and wanted content of a unit's entries and sites.
 *
 * A commit of ten thousand sites is a sweep over memory.  So the data that it needs of each site is
 * in arrays by address, apart from the rarely used data (struct mv_site):
 *
 *     words     places     address and length      given to the patch engine as they are
 *     bytes     [now]      as we wrote them         (patch_add_words)
 *               [!now]     as wanted
 *     original             as the linker wrote them
 *     slot_of   slots      one for all words of one point with the same encoding
 *
 * A slot's method is the same for all its words:
 *
 *     RULE      lead + (target - place) << shift; the distance is masked away if a body is
 *               copied or an entry gets its NOP back
 *     KEEP      the point does not change
 *     ORIGINAL  revert, or the whole unit is out of the target's reach
 *     EACH      part of the unit is out of reach, or a constant's read or an inline call: word by word
 *
 * A read of 8 bytes is longer than a word: it is two joined words.
 *
 * When a batch was applied completely, `now` becomes the other array.  layout.c makes the arrays.
 */
#include "passes/multiverse/engine/engine.h"

/* ---- what they are to hold */

static void set_rule(struct mv_slot *slot, uint64_t lead, uint32_t mask)
{
    slot->way = MV_RULE;
    slot->lead = lead;
    slot->mask = mask;
}

/* Called before the words of a unit are encoded. */
static void prepare_slot(const struct mv_unit *unit, struct mv_slot *slot)
{
    struct mv_point *point = slot->point;
    const struct mvld_word *places = unit->places;
    uintptr_t first, last;
    struct mv_lead lead;
    uint64_t body;

    slot->way = MV_KEEP;
    slot->to = 0;
    slot->shift = 0;
    if (!mv_needs_work(point))
        return;
    slot->way = MV_ORIGINAL; /* for an entry: the NOP */
    if (!point->wanted)
        return;
    if (slot->kind == MV_READ || point->is_inline) {
        slot->way = MV_EACH;
        return;
    }
    if (slot->kind == MV_SITE_NONE) { /* within reach; otherwise it would not be wanted */
        slot->to = (uint32_t)(point->goal - unit->base - MV_PAD_SIZE);
        slot->shift = 8;
        set_rule(slot, 0xe9, UINT32_MAX);
        return;
    }
    if (point->inlined.usable &&
        mv_body_encode(mv_site_is_jump(slot->kind), slot->length, &point->inlined, &body)) {
        set_rule(slot, body, 0);
        return;
    }
    lead = mv_site_lead(slot->kind, slot->length);
    slot->to = (uint32_t)(point->goal - unit->base - lead.next);
    slot->shift = (uint8_t)(8 * lead.at);
    first = unit->base + places[0].offset + lead.next;
    last = unit->base + places[unit->n_words - 1].offset + lead.next;
    if (!mv_is_far(first, point->goal) && !mv_is_far(last, point->goal))
        set_rule(slot, lead.opcode, UINT32_MAX);
    else if (mv_is_far(first, point->goal) && mv_is_far(last, point->goal) &&
             (point->goal < first) == (point->goal < last))
        point->n_far += slot->n;
    else
        slot->way = MV_EACH;
}

/* The word of a read that contains the constant's value. */
static uint64_t read_wanted(const struct mv_unit *unit, size_t i, uint64_t value)
{
    size_t first = i - (i > 0 && unit->places[i - 1].joined), end = first + mv_words_of(unit, first);
    uint8_t load[MVLD_PATCH_MAX], made[MVLD_PATCH_MAX + 8] = {0};
    unsigned length = 0, at = 0;
    uint64_t word;

    for (size_t k = first; k < end; k++) {
        at = k == i ? length : at;
        memcpy(load + length, &unit->original[k], 8);
        length += unit->places[k].length;
    }
    mv_read_encode(load, length, value, made);
    memcpy(&word, made + at, 8);
    return word & UINT64_MAX >> (64 - 8 * unit->places[i].length);
}

uint64_t mv_word_wanted(const struct mv_unit *unit, size_t i, int *far)
{
    const struct mv_slot *slot = &unit->slots[unit->slot_of[i]];
    const struct mv_point *point = slot->point;
    uint64_t wanted;

    if (!point->wanted)
        return unit->original[i];
    if (slot->kind == MV_READ)
        return read_wanted(unit, i, point->wanted_value);
    if (slot->kind == MV_SITE_NONE) {
        mv_pad_encode(slot->length, mv_word_address(unit, i), point->goal, &wanted);
        return wanted;
    }
    if (mv_site_encode(slot->kind, slot->length, mv_word_address(unit, i), point->goal,
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

int mv_encode_words(struct mv_unit *unit)
{
    uint64_t *wanted = unit->bytes[!unit->now];
    const struct mvld_word *places = unit->places;
    const uint32_t *slot_of = unit->slot_of;
    const struct mv_slot *slots = unit->slots;
    int some = 0;

    for (size_t i = 0; i < unit->n_slots; i++) {
        prepare_slot(unit, &unit->slots[i]);
        some |= slots[i].way != MV_KEEP;
    }
    if (!some)
        return 0;
    for (size_t i = 0, n = unit->n_words; i < n; i++) {
        const struct mv_slot *slot = &slots[slot_of[i]];
        uint64_t distance = (slot->to - places[i].offset) & slot->mask;

        wanted[i] = slot->way == MV_RULE ? slot->lead | distance << slot->shift
                                         : special(unit, i, slot);
    }
    return 1;
}

/* ---- what they do hold */

static uint64_t held(const struct mv_unit *unit, size_t i)
{
    return mv_bytes_at(mv_word_address(unit, i), unit->places[i].length);
}

int mv_words_are_intact(const struct mv_engine *engine, const struct mv_unit *unit)
{
    for (size_t i = 0; !unit->sites_read && i < unit->n_pads; i++)
        if (!mv_pad_is_original(engine, unit->by_pad[i].value))
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

/* The operation may have stopped before it prepared its points, so the wanted content is computed
 * again, and accepted where memory contains it.  The entry tells how a function is bound, and the
 * first read the value of a constant. */
void mv_repair(struct mv_engine *engine)
{
    for (struct mv_unit *u = engine->units; u; u = u->next)
        for (size_t i = 0; i < u->n_points; i++)
            u->points[i].goal = mv_running(engine, &u->points[i]);
    for (struct mv_unit *u = engine->units; u; u = u->next)
        if (u->sites_read)
            repair_words(u);
    for (struct mv_unit *u = engine->units; u; u = u->next)
        for (size_t i = 0; i < u->n_points; i++) {
            struct mv_point *p = &u->points[i];
            uint32_t word = !mv_is_constant(p) ? p->word : p->sites ? p->sites->word : MV_NO_WORD;
            int far = 0;

            if (p->selected && u->sites_read && word != MV_NO_WORD &&
                u->bytes[u->now][word] == mv_word_wanted(u, word, &far)) {
                p->target = p->wanted;
                p->variant = p->wanted_variant;
                p->value = p->wanted_value;
            }
            p->selected = p->reached = 0;
        }
}
