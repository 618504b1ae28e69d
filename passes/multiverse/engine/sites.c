/* SPDX-License-Identifier: MIT
 *
 * sites.c: turns recorded calls into sites that belong to points.
 *
 * The callee of a site is found in two ways, which must agree:
 *
 *   the instruction    call f           its target is a body
 *                      call f@PLT       its target is a PLT entry, which ends at a body
 *                      call *f@GOT      its slot holds a body, or a PLT entry
 *   the descriptor     f itself, or the slot that the dynamic linker filled for f
 *
 * If the instruction itself targets a body, that is right whatever the slot contains (-Bsymbolic,
 * protected).  Otherwise both must name one body.  If neither is a variation point (something
 * without descriptors interposes f), the site is skipped silently.
 *
 * The same holds for a read of a constant: `mov c(%rip)` and the descriptor must name one constant,
 * of the width that is read; `mov 8(%rax)` names none itself.
 *
 * An address that was read may be in moved code: a function is known by its original address.  The
 * moved copy of a site must be the same call of the same function.
 *
 * Finally a unit's sites are sorted by address, without duplicates, and none overlaps another or
 * the pad of an entry.
 */
#include "passes/multiverse/engine/engine.h"

#include "rimf/x86/decode.h"

/* The point at a code address, through a PLT entry or not.  The table caches the PLT entry: many
 * calls use it. */
static struct mv_point *lead(struct mv_engine *engine, uintptr_t address)
{
    struct mv_point *point = mv_table_get(&engine->points, address);
    uintptr_t end;

    if (point || !address)
        return point;
    end = mv_original(engine, engine->api->plt_target(engine->image, mv_original(engine, address)));
    point = end == address ? NULL : mv_table_get(&engine->points, end);
    if (point)
        mv_table_put(engine, &engine->points, address, point); /* out of memory: only slower */
    return point;
}

static void refuse_site(struct mv_engine *engine, const struct mv_unit *unit, uintptr_t address,
                        const char *why)
{
    mv_refuse(engine, "%s: call site at %p (%p as linked): %s", unit->object->name,
              (void *)address, (void *)(address - unit->object->bias), why);
}

/* The point of the constant that a descriptor names: by address, record, or slot. */
static struct mv_point *named_constant(struct mv_engine *engine, struct mv_unit *unit, uintptr_t at)
{
    struct mv_point *point = mv_constant_of(engine, unit, at);

    if (point || at % 8)
        return point;
    for (const struct mv_tables *t = unit->tables; t; t = t->next)
        if (at >= t->switches && at < t->switches_end)
            return mv_recorded_constant(engine, unit, at, t->switches_end - at);
    if (!mv_holds(unit->object, &unit->data, at, 8, PROT_READ))
        return NULL;
    return mv_constant_of(engine, unit, *(const volatile uintptr_t *)at);
}

/* The point of the constant that a load reads, or NULL.  The constant's address is in the load, in
 * the descriptor, or in both. */
static struct mv_point *constant_of(struct mv_engine *engine, struct mv_unit *unit,
                                    uintptr_t address, const struct mv_decoded *site,
                                    uintptr_t named)
{
    struct mv_point *point = named_constant(engine, unit, named);

    if (!point || (site->target && site->target != point->variable) ||
        site->width != point->guards[0]->width) {
        if (point)
            point->is_loaded = 1;
        refuse_site(engine, unit, address, "it is no read of the constant that is named");
        return NULL;
    }
    return point;
}

/* Whether the code jumps through this slot, as a PLT entry does. */
static int jumps_through(struct mv_unit *unit, uintptr_t code, uintptr_t slot)
{
    struct mv_decoded jump;

    if (!mv_holds(unit->object, &unit->code, code, 4 + MV_SITE_MAX, PROT_READ | PROT_EXEC))
        return 0;
    code += endbr64_size((const void *)code, 4);
    return mv_site_decode((const uint8_t *)code, MV_SITE_MAX, code, &jump) && jump.kind == MV_JUMP_SLOT &&
           jump.target == slot;
}

/* The point that a decoded site calls, or NULL.  `field`: the descriptor's callee, or a slot for
 * it. */
static struct mv_point *callee_of(struct mv_engine *engine, struct mv_unit *unit,
                                  uintptr_t address, const struct mv_decoded *site,
                                  uintptr_t field, uintptr_t named)
{
    struct mv_point *direct, *described;
    uintptr_t target = site->target;

    if (mv_site_is_slot(site->kind)) {
        if (!mv_holds(unit->object, &unit->data, target, 8, PROT_READ)) {
            refuse_site(engine, unit, address, "its slot lies outside");
            return NULL;
        }
        target = *(const volatile uintptr_t *)target;
    } else if ((direct = mv_table_get(&engine->points, target)) && direct->body == target) {
        return direct;
    }
    described = lead(engine, named);
    /* The common case avoids the search for the relocation that fills the slot, which may look
     * through all relocations. */
    if (described && jumps_through(unit, target, field))
        return described;
    direct = lead(engine, target);
    if (direct == described)
        return direct;
    refuse_site(engine, unit, address, "its instruction and its descriptor name different "
                "functions");
    return NULL;
}

/* The descriptor's callee: the field is the distance to the function (in a kernel's module also of
 * another object), or to a slot with its address.  0: neither. */
static uintptr_t named_by(const struct mv_engine *engine, struct mv_unit *unit, uintptr_t at)
{
    if (mv_holds(unit->object, &unit->code, at, 1, PROT_READ | PROT_EXEC) || mv_table_get(&engine->points, at))
        return at;
    if (at % 8 || !mv_holds(unit->object, &unit->data, at, 8, PROT_READ))
        return 0;
    return *(const volatile uintptr_t *)at;
}

/* The number of readable bytes of moved code. */
static size_t room_at(const struct mv_engine *engine, uintptr_t moved)
{
    size_t room = MV_SITE_MAX;

    while (room && mv_original(engine, moved + room - 1) == moved + room - 1)
        room--;
    return room;
}

/* Decodes the instruction at `at`, original or moved. */
static int read_at(const struct mv_engine *engine, const struct mv_unit *unit, uintptr_t at,
                   size_t room, struct mv_decoded *out)
{
    if (!mv_site_decode((const uint8_t *)at, room, at, out))
        return 0;
    if (!unit->unmoved && out->kind != MV_READ && !mv_site_is_slot(out->kind))
        out->target = mv_original(engine, out->target);
    return 1;
}

/* Finds where the site runs, and decodes it: 1, or 0 if it is no call.  `there`: the same in moved code, if both run;
 * otherwise its kind is MV_SITE_NONE. */
static int place_site(struct mv_engine *engine, const struct mv_unit *unit, size_t room,
                      struct mv_site *site, struct mv_decoded *decoded, struct mv_decoded *there)
{
    uintptr_t moved = 0;

    there->kind = MV_SITE_NONE;
    site->word = site->other = MV_NO_WORD;
    site->runs_original = unit->unmoved || mv_places(engine, site->address, &moved);
    site->distance = (int32_t)(moved ? moved - site->address : 0);
    if (!site->runs_original)
        return read_at(engine, unit, moved, room_at(engine, moved), decoded);
    return read_at(engine, unit, site->address, room, decoded) &&
           (!moved || read_at(engine, unit, moved, room_at(engine, moved), there));
}

/* The point that an instruction calls or reads, or NULL. */
static struct mv_point *point_of(struct mv_engine *engine, struct mv_unit *unit, uintptr_t address,
                                 const struct mv_decoded *decoded, uintptr_t field, uintptr_t named)
{
    return decoded->kind == MV_READ ? constant_of(engine, unit, address, decoded, field)
                                    : callee_of(engine, unit, address, decoded, field, named);
}

/* The number of bytes that may be written at both, the same up to a distance; 0: the instructions differ.  Another
 * pass may have made a call through a slot direct, in moved code only: `jmp *slot` is e9 rel32 90 there. */
static uint8_t common_length(const struct mv_decoded *a, const struct mv_decoded *b)
{
    int jump = mv_site_is_jump(a->kind);

    if ((a->kind == MV_READ) != (b->kind == MV_READ) || jump != mv_site_is_jump(b->kind) || a->width != b->width ||
        (!jump && a->length != b->length))
        return 0;
    return a->length < b->length ? a->length : b->length;
}

/* Returns 1 if `site` was filled. */
static int read_site(struct mv_engine *engine, struct mv_unit *unit,
                     const struct multiverse_callsite *record, struct mv_site *site)
{
    uintptr_t address = mv_distance(&record->site), field = mv_distance(&record->callee), named;
    struct mv_decoded decoded, there;
    size_t room = MV_SITE_MAX;

    while (!mv_holds(unit->object, &unit->code, address, room, PROT_READ | PROT_EXEC))
        if (--room < MV_SITE_MIN) {
            refuse_site(engine, unit, address, "it lies outside the object's code");
            return 0;
        }
    /* mold 2.30 relaxes `call *slot(%rip)` to `nop; call`.  A thread may stand between them, so the NOP stays. */
    if (room > MV_SITE_MIN && ((const uint8_t *)address)[0] == 0x90 && ((const uint8_t *)address)[1] == 0xe8) {
        address++;
        room--;
    }
    if (address - unit->object->start > MV_UNIT_MAX) {
        refuse_site(engine, unit, address, "it lies more than 4 GiB into the object");
        return 0;
    }
    named = named_by(engine, unit, field);
    site->address = address;
    if (!place_site(engine, unit, room, site, &decoded, &there)) {
        struct mv_point *constant = named_constant(engine, unit, field);

        if (constant)
            constant->is_loaded = 1;
        if (constant || !named || lead(engine, named))
            refuse_site(engine, unit, address, "no call or jump that could be changed");
        return 0;
    }
    if (!named && decoded.kind != MV_READ) {
        refuse_site(engine, unit, address, "its callee's slot lies outside");
        return 0;
    }
    site->point = point_of(engine, unit, address, &decoded, field, named);
    if (!site->point)
        return 0;
    if (there.kind != MV_SITE_NONE)
        decoded.length = common_length(&decoded, &there);
    if (!decoded.length ||
        (there.kind != MV_SITE_NONE && point_of(engine, unit, address, &there, field, named) != site->point)) {
        site->point->is_loaded |= decoded.kind == MV_READ;
        refuse_site(engine, unit, address, "its moved code is another call");
        return 0;
    }
    site->unit = unit;
    site->kind = (uint8_t)decoded.kind;
    site->length = decoded.length;
    return 1;
}

/* Joins two records of one site; refuses both of two that overlap. */
static void refuse_overlaps(struct mv_engine *engine, struct mv_unit *unit)
{
    uintptr_t end = 0;
    struct mv_site *last = NULL;

    for (size_t i = 0; i < unit->n_sites; i++) {
        struct mv_site *site = &unit->sites[i];

        if (last && site->address < end) {
            int twice = site->address == last->address && site->point == last->point;

            if (!twice) {
                refuse_site(engine, unit, site->address, "it overlaps another");
                last->kind = MV_SITE_NONE;
            }
            site->kind = MV_SITE_NONE;
        }
        if (site->address + site->length > end) {
            end = site->address + site->length;
            last = site;
        }
    }
}

/* The first site of the unit that ends behind `address`. */
static size_t first_behind(const struct mv_unit *unit, uintptr_t address)
{
    return RIMF_BISECT(i, unit->n_sites, unit->sites[i].address + unit->sites[i].length <= address);
}

int mv_has_sites(const struct mv_unit *unit, uintptr_t start, size_t size)
{
    size_t i = unit->sites_read ? first_behind(unit, start) : 0;

    return unit->sites_read && i < unit->n_sites && unit->sites[i].address < start + size;
}

static void refuse_on_pads(struct mv_engine *engine, struct mv_unit *unit)
{
    for (size_t i = 0; i < unit->n_points; i++) {
        uintptr_t pad = unit->points[i].pad;

        for (size_t at = first_behind(unit, pad);
             at < unit->n_sites && unit->sites[at].address < pad + mv_pad_size(unit->points[i].record); at++) {
            refuse_site(engine, unit, unit->sites[at].address, "it overlaps an entry");
            unit->sites[at].kind = MV_SITE_NONE;
        }
    }
}

static void compact(struct mv_unit *unit)
{
    size_t kept = 0;

    for (size_t i = 0; i < unit->n_sites; i++)
        if (unit->sites[i].kind != MV_SITE_NONE) {
            if (kept != i)
                unit->sites[kept] = unit->sites[i];
            kept++;
        }
    unit->n_sites = kept;
}

/* `fresh`: calls of a bound point are not bound yet. */
static void link_unit(const struct mv_engine *engine, struct mv_unit *unit, int fresh)
{
    for (size_t i = 0; i < unit->n_points; i++) {
        struct mv_point *function = mv_function_of(engine, &unit->points[i]);

        if (function)
            function->n_sites++;
    }
    /* From last to first, so that the lists are in ascending order. */
    for (size_t i = unit->n_sites; i-- > 0;) {
        struct mv_site *site = &unit->sites[i];

        if (!site->point)
            continue;
        site->next = site->point->sites;
        site->point->sites = site;
        site->point->n_sites++;
        site->point->dirty |= fresh && site->point->target;
    }
}

static int read_unit(struct mv_engine *engine, struct mv_unit *unit)
{
    size_t n = 0, most = unit->n_sites;
    uintptr_t moved;

    unit->unmoved = mv_places(engine, unit->object->start, &moved) == 2;
    unit->sites = engine->api->alloc(engine->image, most * sizeof *unit->sites + 1);
    if (!unit->sites)
        return mv_fail(engine, ENOMEM, "%s: out of memory for its %zu call sites",
                       unit->object->name, most);
    for (struct mv_tables *t = unit->tables; t; t = t->next)
        for (uintptr_t at = t->callsites; at < t->callsites_end;
             at += sizeof(struct multiverse_callsite))
            n += (size_t)read_site(engine, unit, (const void *)at, &unit->sites[n]);
    unit->n_sites = n;
    rimf_sort(unit->sites, n, sizeof *unit->sites); /* fast: linkers keep sections in order */
    refuse_overlaps(engine, unit);
    compact(unit);
    refuse_on_pads(engine, unit);
    compact(unit);
    if (mv_make_words(engine, unit)) {
        engine->api->release(engine->image, unit->sites);
        unit->sites = NULL;
        unit->n_sites = most;
        return mv_fail(engine, ENOMEM, "%s: out of memory for its %zu call sites",
                       unit->object->name, most);
    }
    unit->sites_read = 1;
    link_unit(engine, unit, 1);
    return 0;
}

int mv_read_sites(struct mv_engine *engine)
{
    int read = 0, err = 0;

    for (struct mv_unit *unit = engine->units; unit && !err; unit = unit->next) {
        if (unit->sites_read || unit->closing)
            continue;
        err = read_unit(engine, unit);
        read = 1;
    }
    if (read)
        mv_link_stretches(engine);
    return err;
}

void mv_link_sites(struct mv_engine *engine)
{
    for (struct mv_unit *u = engine->units; u; u = u->next)
        for (size_t i = 0; i < u->n_points; i++) {
            u->points[i].sites = NULL;
            u->points[i].n_sites = 0;
        }
    for (struct mv_unit *u = engine->units; u; u = u->next)
        if (u->sites_read)
            link_unit(engine, u, 0);
}
