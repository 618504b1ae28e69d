/* SPDX-License-Identifier: MIT
 *
 * layout.c: makes the words of a unit when its sites are read (words.c explains words).
 *
 * Words ascend by address: original entries and sites, and those in moved code, which are behind or
 * before them, depending on the region.  So a unit has up to two stretches of memory.  A batch
 * takes the stretches of all units in order.  Original and moved words share their slots, because
 * both have the same target.
 */
#include "passes/multiverse/engine/engine.h"

/* Allocates arrays for n words in one block: 0, -ENOMEM. */
static int lay_out(struct mv_engine *engine, struct mv_unit *unit, size_t n)
{
    unit->words = engine->api->alloc(engine->image, n * (3 * sizeof(uint64_t) +
                                                         sizeof *unit->places +
                                                         sizeof *unit->slot_of) + 1);
    if (!unit->words)
        return -ENOMEM;
    unit->bytes[0] = unit->words;
    unit->bytes[1] = unit->bytes[0] + n;
    unit->original = unit->bytes[1] + n;
    unit->places = (struct mvld_word *)(void *)(unit->original + n);
    unit->slot_of = (uint32_t *)(void *)(unit->places + n);
    return 0;
}

/* The number of the slot for this point's words of this kind and length. */
static uint32_t slot_for(struct mv_engine *engine, struct mv_unit *unit, struct mv_point *point,
                         enum mv_site_kind kind, unsigned length)
{
    /* Each word of a constant is made separately. */
    unsigned way = kind == MV_SITE_NONE ? 4 : kind == MV_READ ? 0
                   : (unsigned)mv_site_is_jump(kind) * 2 + (length == 6);

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

    if (length > 8) {
        add_word(engine, unit, point, address + MV_HEAD, kind, length - MV_HEAD);
        length = MV_HEAD;
    }
    unit->places[i] = (struct mvld_word){(uint32_t)(address - unit->base),
                                         (uint16_t)length, length == MV_HEAD};
    unit->bytes[0][i] = unit->original[i] =
        kind == MV_SITE_NONE && !point->is_inline ? MV_PAD_NOP : mv_bytes_at(address, length);
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

/* A future word: an entry, if there is no site. */
struct coming {
    uintptr_t address; /* first: see rimf_sort */
    struct mv_point *point;
    struct mv_site *site;
};

/* Sets the first word of a site or entry, or the second. */
static void number(uint32_t i, uint32_t *word, uint32_t *other)
{
    *(*word == MV_NO_WORD ? word : other) = i;
}

static void add_site(struct mv_engine *engine, struct mv_unit *unit, struct mv_site *site,
                     uintptr_t address)
{
    number(add_word(engine, unit, site->point, address, site->kind, site->length), &site->word,
           &site->other);
}

static void add_entry(struct mv_engine *engine, struct mv_unit *unit, struct mv_point *point,
                      uintptr_t address)
{
    number(add_word(engine, unit, point, address, MV_SITE_NONE, mv_pad_size(point->record)), &point->word,
           &point->other);
}

/* Adds original sites and entries, by address. */
static void add_originals(struct mv_engine *engine, struct mv_unit *unit,
                          struct mv_stretch *stretch)
{
    struct mv_site *site = unit->sites, *end = site + unit->n_sites;
    struct mv_entry *pad = unit->by_pad, *last = pad + unit->n_pads;
    uintptr_t moved;

    stretch->first = (uint32_t)unit->n_words;
    while (site < end || pad < last) {
        if (site == end || (pad < last && pad->key < site->address)) {
            if (unit->unmoved || mv_places(engine, pad->key, &moved))
                add_entry(engine, unit, pad->value, pad->key);
            pad++;
        } else {
            if (site->runs_original)
                add_site(engine, unit, site, site->address);
            site++;
        }
    }
    stretch->n = (uint32_t)unit->n_words - stretch->first;
}

/* Stores those in moved code in `list`, if given; returns their number. */
static size_t list_moved(struct mv_engine *engine, struct mv_unit *unit, struct coming *list)
{
    size_t n = 0;
    uintptr_t moved;

    for (size_t i = 0; i < unit->n_points; i++)
        unit->points[i].word = unit->points[i].other = MV_NO_WORD;
    if (unit->unmoved)
        return 0;
    for (size_t i = 0; i < unit->n_sites; i++) {
        struct mv_site *site = &unit->sites[i];

        if (!site->distance)
            continue;
        if (list)
            list[n] = (struct coming){site->address + (uintptr_t)(intptr_t)site->distance,
                                      site->point, site};
        n++;
    }
    for (size_t i = 0; i < unit->n_pads; i++) {
        mv_places(engine, unit->by_pad[i].key, &moved);
        if (!moved)
            continue;
        if (list)
            list[n] = (struct coming){moved, unit->by_pad[i].value, NULL};
        n++;
    }
    return n;
}

static void add_moved(struct mv_engine *engine, struct mv_unit *unit,
                      const struct coming *list, size_t n, struct mv_stretch *stretch)
{
    stretch->first = (uint32_t)unit->n_words;
    for (size_t i = 0; i < n; i++) {
        if (list[i].site)
            add_site(engine, unit, list[i].site, list[i].address);
        else
            add_entry(engine, unit, list[i].point, list[i].address);
    }
    stretch->n = (uint32_t)unit->n_words - stretch->first;
}

static void add_words(struct mv_engine *engine, struct mv_unit *unit, struct coming *list,
                      size_t n)
{
    int before;

    rimf_sort(list, n, sizeof *list);
    before = n && list[0].address < unit->object->start;
    unit->base = before ? list[0].address : unit->object->start;
    unit->n_words = unit->n_slots = unit->now = 0;
    engine->n_slotted++;
    if (before)
        add_moved(engine, unit, list, n, &unit->stretches[1]);
    add_originals(engine, unit, &unit->stretches[0]);
    if (!before)
        add_moved(engine, unit, list, n, &unit->stretches[1]);
}

static int fill_slots(struct mv_engine *engine, struct mv_unit *unit)
{
    unit->slots = engine->api->alloc(engine->image, unit->n_slots * sizeof *unit->slots + 1);
    if (!unit->slots)
        return -ENOMEM;
    for (size_t i = 0; i < unit->n_sites; i++)
        fill_slot(unit, unit->sites[i].word, unit->sites[i].point, unit->sites[i].kind);
    for (size_t i = 0; i < unit->n_pads; i++) {
        struct mv_point *point = unit->by_pad[i].value;

        fill_slot(unit, point->word, point, MV_SITE_NONE);
    }
    return 0;
}

/* The number of additional words of sites with two words, original and moved. */
static size_t count_rests(const struct mv_unit *unit)
{
    size_t n = 0;

    for (size_t i = 0; i < unit->n_sites; i++)
        n += 2 * (unit->sites[i].length > 8);
    return n;
}

int mv_make_words(struct mv_engine *engine, struct mv_unit *unit)
{
    size_t n = list_moved(engine, unit, NULL);
    struct coming *list = n ? engine->api->alloc(engine->image, n * sizeof *list) : NULL;
    int err = (n && !list) || lay_out(engine, unit, unit->n_sites + unit->n_pads + n +
                                                        count_rests(unit)) ? -ENOMEM : 0;

    if (!err) {
        if (n)
            list_moved(engine, unit, list);
        add_words(engine, unit, list, n);
        err = fill_slots(engine, unit);
    }
    engine->api->release(engine->image, list);
    if (err) {
        engine->api->release(engine->image, unit->words);
        unit->words = NULL;
        unit->n_words = 0;
    }
    return err;
}

/* Whether its address is lower. */
static int is_before(const struct mv_stretch *one, const struct mv_stretch *two)
{
    return mv_word_address(one->unit, one->first) < mv_word_address(two->unit, two->first);
}

void mv_link_stretches(struct mv_engine *engine)
{
    engine->stretches = NULL;
    engine->some_moved = 0;
    for (struct mv_unit *u = engine->units; u; u = u->next)
        for (size_t i = 0; u->sites_read && i < RIMF_COUNT(u->stretches); i++) {
            struct mv_stretch *stretch = &u->stretches[i], **at = &engine->stretches;

            stretch->unit = u;
            if (!stretch->n)
                continue;
            engine->some_moved |= i == 1;
            while (*at && is_before(*at, stretch))
                at = &(*at)->next;
            stretch->next = *at;
            *at = stretch;
        }
}

/* ---- addresses of moved code */

/* A site or an entry, and its callee, are known by their original addresses.  If code has moved,
 * the copy runs, and the original too unless it begins with a jump to the copy (moved_find tells).
 * A change is made at both places, in one batch:
 *
 *     original                     moved
 *     f:   endbr64                 f':  endbr64
 *          jmp f'+4  (not ours)         nopl → jmp variant'
 *     g:   …                       g':  …
 *          call f → call variant'       call f' → call variant'
 *
 * So an entry or a site has one or two words.  Both are bound to the moved code of the wanted
 * variant, if any.
 */

uintptr_t mv_original(const struct mv_engine *engine, uintptr_t address)
{
    uintptr_t original = engine->api->original_of(engine->image, address);

    return original ? original : address;
}

static int find_moved(const struct mv_engine *engine, uintptr_t original, size_t length, uintptr_t *moved)
{
    *moved = 0;
    return engine->api->moved_find(engine->image, original, length, moved);
}

uintptr_t mv_running(const struct mv_engine *engine, const struct mv_point *point)
{
    uintptr_t moved = 0;

    if (point->wanted && (engine->some_moved || point->is_inline))
        find_moved(engine, point->wanted, 1, &moved);
    return moved ? moved : point->wanted;
}

uintptr_t mv_readable(const struct mv_engine *engine, uintptr_t original, size_t length)
{
    uintptr_t moved;

    return find_moved(engine, original, length, &moved) ? original : moved;
}

int mv_places(const struct mv_engine *engine, uintptr_t original, uintptr_t *moved)
{
    return find_moved(engine, original, MV_SITE_MIN, moved);
}
