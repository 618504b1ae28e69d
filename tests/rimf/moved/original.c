/* SPDX-License-Identifier: MIT
 *
 * original.c: the original executable bytes are those of the file, but for the jumps to
 * moved code, operands that take the address of a function, and calls of code that stays,
 * which an earlier pass made direct (moved.h), to originals or to moved code.  Whose canonical address is not the
 * original has no jump.  From a
 * snapshot: all calls, all jumps.
 */
#include "moved.h"

/* Bytes of the jump at the start of a function. */
static int is_in_head(const struct seen_object *o, uint32_t from, uint32_t to)
{
    const struct unit *u = unit_at(&o->analysis, from);
    uint32_t head;

    if (!u || u->reason || !u->head)
        return 0;
    head = u->start;
    if (memcmp(unit_code(&o->analysis, u, head), endbr64, sizeof endbr64) == 0)
        head += sizeof endbr64;
    return from < head + JUMP && to > head;
}

/* Into `want`, what an earlier pass may have made of calls that did not move, or of all.  Where
 * a jump at the start of a function was written over a call, moved code shows what was there. */
static void want_calls(struct process *p, const struct seen_object *o, const struct segment *segment,
                       uint8_t *want, const uint8_t *is)
{
    const struct analysis_call *calls = o->analysis.calls.at;

    for (size_t i = 0; i < o->analysis.calls.n; i++) {
        uint32_t at = calls[i].address - segment->start, length = analysis_call_length(&calls[i]);
        uintptr_t target;
        int direct = 0;

        if (calls[i].address < segment->start || calls[i].address >= segment->file_end ||
            memcmp(want + at, is + at, length) == 0 ||
            (!o->snapshot && moved_to(p, o->bias + calls[i].address)))
            continue;
        if (o->snapshot && is_in_head(o, calls[i].address, calls[i].address + length)) {
            memcpy(want + at, is + at, length);
            continue;
        }
        target = call_leads(o, &calls[i], want + at, is + at, o->bias + calls[i].address, &direct);
        if (!target ||
            (direct && !slot_leads(p, o, analysis_slot(&calls[i]), original_of(p, target))))
            wrong(p, o, calls[i].address, "an original call leads to 0x%lx", (unsigned long)target);
        memcpy(want + at, is + at, length);
    }
}

/* Into `want`, operands that lead to moved code. */
static void want_operands(struct process *p, const struct seen_object *o,
                          const struct segment *segment, uint8_t *want)
{
    const struct analysis_reference *r = o->analysis.references.at;

    for (size_t i = 0; i < o->analysis.references.n; i++) {
        uint8_t *at = want + (r[i].address - segment->start);
        int32_t distance;
        uintptr_t original;

        if (r[i].kind != ANALYSIS_TO_CODE || r[i].address < segment->start ||
            r[i].address >= segment->file_end)
            continue;
        distance = distance_at(at);
        original = o->bias + r[i].address + 4 + r[i].rest + (uintptr_t)(intptr_t)distance;
        distance += (int32_t)(canonical_of(p, original) - original);
        memcpy(at, &distance, sizeof distance);
    }
}

static int is_kept(const struct process *p, uintptr_t original)
{
    for (size_t i = 0; i < p->n_kept; i++)
        if (p->kept[i] == original)
            return 1;
    return 0;
}

static int is_named(const struct object *o, uint32_t start)
{
    const struct function *functions = o->functions.at; /* ascending since emit_names */
    size_t n = o->functions.n;
    size_t i = n ? analysis_first_from(&functions->start, n, sizeof *functions, start) : 0;

    return i < n && functions[i].start == start;
}

/* Where most addresses stay, functions that others only know by name have no jump; which
 * these are, is not asked here (entries.py does). */
static int is_mostly_fixed(const struct seen_object *o)
{
    const struct analysis_fixed *fixed = o->analysis.fixed.at;
    uint64_t original = 0, code = 0;

    for (size_t i = 0; i < o->analysis.fixed.n; i++)
        original += fixed[i].size;
    for (size_t i = 0; i < o->n_fragments; i++)
        code += o->fragments[i].code;
    return !o->moved || original > code / 2;
}

/* Into `want`, the jumps of originals. */
static void want_entries(struct process *p, const struct seen_object *o, const struct segment *segment,
                         uint8_t *want, const uint8_t *is)
{
    const struct unit *units = units_of(&o->analysis);
    int mostly_fixed = is_mostly_fixed(o);

    for (size_t i = 0; i < o->analysis.units.n; i++) {
        uint8_t *at = want + (units[i].start - segment->start);
        uintptr_t original = o->bias + units[i].start;
        int32_t distance = (int32_t)(place_of(o, original) - original - JUMP);
        int stays = canonical_of(p, original) == original;

        if (units[i].reason || units[i].start < segment->start ||
            units[i].start >= segment->file_end)
            continue;
        if (memcmp(at, endbr64, sizeof endbr64) == 0) {
            at += sizeof endbr64;
            original += sizeof endbr64;
        }
        if (is_kept(p, original)) { /* a jump to a stub, which was looked at */
            process_read(p, original, at, JUMP);
        } else if (units[i].head && !o->snapshot && mostly_fixed &&
                   memcmp(at, is + (at - want), JUMP) == 0 &&
                   is_named(&o->analysis.object, units[i].start)) {
            continue;
        } else if (units[i].head && (o->snapshot || stays)) {
            CHECK(units[i].reached && at + JUMP <= want + (units[i].end - segment->start));
            at[0] = 0xe9;
            memcpy(at + 1, &distance, sizeof distance);
            p->n_entries++;
        }
    }
}

static void check_segment(struct process *p, const struct seen_object *o, const struct segment *segment)
{
    size_t size = segment->file_end - segment->start;
    uint8_t *want = malloc(size), *is = malloc(size);

    CHECK(want && is);
    memcpy(want, segment->bytes, size);
    process_read(p, o->bias + segment->start, is, size);
    want_calls(p, o, segment, want, is);
    want_operands(p, o, segment, want);
    want_entries(p, o, segment, want, is);
    for (size_t i = 0; i < size; i++)
        if (want[i] != is[i]) {
            wrong(p, o, segment->start + i, "the original is %02x instead of %02x", is[i], want[i]);
            i += 16;
        }
    free(want);
    free(is);
}

void check_original(struct process *p, struct seen_object *o)
{
    for (size_t i = 0; i < o->analysis.object.n_segments; i++)
        if (o->analysis.object.segments[i].flags & PF_X)
            check_segment(p, o, &o->analysis.object.segments[i]);
}
