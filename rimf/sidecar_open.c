/* SPDX-License-Identifier: MIT
 *
 * rimf/sidecar_open.c: checks a sidecar's bytes; the format is told in sidecar.h.
 *
 * Order of the checks: the header's own bounds, its checksum, the directory, then
 * table by table its checksum and its entries.  Each entry is looked at once; units
 * are compared with segments, and calls, references and frames with units, by walking
 * both in step, so that reading costs what the tables weigh.
 */
#include "sidecar.h"

#include "base.h"

#include <errno.h> /* numbers only */

_Static_assert(sizeof(struct sidecar_header) == 168, "a file format");
_Static_assert(sizeof(struct sidecar_table) == 32, "a file format");
_Static_assert(sizeof(struct sidecar_segment) == 16, "a file format");
_Static_assert(sizeof(struct sidecar_unit) == 12, "a file format");
_Static_assert(sizeof(struct sidecar_call) == 8, "a file format");
_Static_assert(sizeof(struct sidecar_reference) == 8, "a file format");
_Static_assert(sizeof(struct sidecar_jump_table) == 8, "a file format");
_Static_assert(sizeof(struct sidecar_frame) == 8, "a file format");
_Static_assert(sizeof(struct sidecar_frame_fix) == 8, "a file format");
_Static_assert(sizeof(struct sidecar_branch) == 4, "a file format");
_Static_assert(sizeof(struct sidecar_home) == 8, "a file format");

#define FDE_SIZE_MIN 16u /* length, CIE, start, size of the range */

/* ---- header and directory -------------------------------------------------- */

static size_t padded(uint64_t size)
{
    return (size + 7) & ~(size_t)7;
}

static const char *check_header(const struct sidecar_header *header, size_t size)
{
    if (size < sizeof *header || memcmp(header->magic, SIDECAR_MAGIC, sizeof header->magic) != 0)
        return "it is no sidecar";
    if (header->version != SIDECAR_VERSION)
        return "it is of another version of the format";
    if (header->size != size || size > SIDECAR_SIZE_MAX)
        return "it is cut short, or longer than it says";
    if (header->n_tables > SIDECAR_TABLES_MAX || header->build_id_size > SIDECAR_BUILD_ID_MAX ||
        header->header_size != sizeof *header + header->n_tables * sizeof(struct sidecar_table) ||
        header->header_size > size)
        return "its header is damaged";
    if (header->checksum != sidecar_header_checksum(header))
        return "its header has a wrong checksum";
    for (size_t i = header->build_id_size; i < SIDECAR_BUILD_ID_MAX; i++)
        if (header->build_id[i])
            return "its build-id has no end";
    if (header->flags & ~(uint32_t)SIDECAR_FLAGS)
        return "it says of its object what cannot be";
    if ((uint64_t)header->frames_start + header->frames_size > UINT32_MAX ||
        (!header->frames_size && (header->frames_start || header->frames_hash)))
        return "its unwinding table lies nowhere";
    return NULL;
}

static uint32_t entry_size(uint32_t kind)
{
    static const uint8_t sizes[SIDECAR_KINDS] = {
        0,
        sizeof(struct sidecar_segment),
        sizeof(struct sidecar_unit),
        sizeof(struct sidecar_call),
        sizeof(struct sidecar_reference),
        sizeof(struct sidecar_jump_table),
        sizeof(struct sidecar_frame),
        sizeof(struct sidecar_frame_fix),
        sizeof(struct sidecar_branch),
        sizeof(struct sidecar_home),
    };

    return kind < SIDECAR_KINDS ? sizes[kind] : 0;
}

/* The tables follow one another, and fill the file. */
static const char *check_directory(const struct sidecar_header *header,
                                   const struct sidecar_table **found)
{
    uint64_t at = header->header_size;

    for (uint32_t i = 0; i < header->n_tables; i++) {
        const struct sidecar_table *table = (const struct sidecar_table *)(header + 1) + i;

        if (table->offset != at || !table->entry_size || table->entry_size > 4096 ||
            table->count > (header->size - at) / table->entry_size ||
            padded(table->count * table->entry_size) > header->size - at)
            return "a table lies outside it";
        at += padded(table->count * table->entry_size);
        if (!table->kind || table->kind >= SIDECAR_KINDS)
            continue;
        if (found[table->kind] || table->entry_size != entry_size(table->kind))
            return "a table has entries of another size, or is there twice";
        found[table->kind] = table;
    }
    if (at != header->size)
        return "bytes of it belong to no table";
    return NULL;
}

/* ---- tables ------------------------------------------------------------------ */

static const char *check_segments(const struct sidecar *s)
{
    uint64_t last = 0;

    if (!s->n_segments)
        return "it lists no executable segment";
    for (size_t i = 0; i < s->n_segments; i++) {
        const struct sidecar_segment *segment = &s->segments[i];

        if (segment->start < last || !segment->size ||
            (uint64_t)segment->start + segment->size > UINT32_MAX)
            return "its segments overlap, or are out of order";
        last = (uint64_t)segment->start + segment->size;
    }
    return NULL;
}

/* Steps of a walk: `*segment`, `*unit` go to the first one that ends behind `start`. */
static int in_segment(const struct sidecar *s, size_t *segment, uint64_t start, uint64_t end)
{
    while (*segment < s->n_segments &&
           start >= (uint64_t)s->segments[*segment].start + s->segments[*segment].size)
        ++*segment;
    return *segment < s->n_segments && start >= s->segments[*segment].start &&
           end <= (uint64_t)s->segments[*segment].start + s->segments[*segment].size;
}

static const struct sidecar_unit *in_unit(const struct sidecar *s, size_t *unit, uint64_t start,
                                          uint64_t end)
{
    const struct sidecar_unit *at;

    while (*unit < s->n_units &&
           start >= (uint64_t)s->units[*unit].start + s->units[*unit].size)
        ++*unit;
    at = &s->units[*unit];
    return *unit < s->n_units && start >= at->start && end <= (uint64_t)at->start + at->size
               ? at
               : NULL;
}

/* HEAD needs REACHED, and both that the unit may move. */
static int has_possible_flags(const struct sidecar_unit *unit)
{
    int undecoded = unit->reason && unit->reason <= SIDECAR_LAST_UNDECODED;
    unsigned more = unit->flags & ~(unsigned)(SIDECAR_DECODED | SIDECAR_JOINED);

    if ((unit->flags & SIDECAR_DECODED ? 0 : 1) != undecoded)
        return 0;
    if (!more || unit->reason)
        return !more;
    return more == SIDECAR_REACHED ||
           (more == (SIDECAR_REACHED | SIDECAR_HEAD) && unit->size >= SIDECAR_HEAD_SIZE);
}

static const char *check_units(const struct sidecar *s)
{
    uint64_t last = 0;
    size_t segment = 0;

    for (size_t i = 0; i < s->n_units; i++) {
        const struct sidecar_unit *unit = &s->units[i];
        uint64_t end = (uint64_t)unit->start + unit->size;

        if (unit->start < last || !unit->size)
            return "its units overlap, or are out of order";
        if (!in_segment(s, &segment, unit->start, end))
            return "a unit lies outside the executable segments";
        if (unit->reason >= SIDECAR_REASONS || unit->zero || !has_possible_flags(unit))
            return "a unit is of a kind that does not exist";
        last = end;
    }
    return NULL;
}

static const char *check_calls(const struct sidecar *s)
{
    uint64_t last = 0;
    size_t at = 0;

    for (size_t i = 0; i < s->n_calls; i++) {
        const struct sidecar_call *call = &s->calls[i];
        uint64_t end = (uint64_t)call->address + sidecar_call_length(call);
        const struct sidecar_unit *unit;

        if (!sidecar_call_kind(call) || sidecar_call_kind(call) >= SIDECAR_CALL_KINDS ||
            (sidecar_call_kind(call) == SIDECAR_CALL_SINGLE && sidecar_slot(call)))
            return "a call is of a kind that does not exist";
        if (call->address < last)
            return "its calls overlap, or are out of order";
        unit = in_unit(s, &at, call->address, end);
        if (!unit || !(unit->flags & SIDECAR_DECODED))
            return "a call lies outside the decoded units";
        last = end;
    }
    return NULL;
}

static const char *check_references(const struct sidecar *s)
{
    uint64_t last = 0;
    size_t at = 0;

    for (size_t i = 0; i < s->n_references; i++) {
        const struct sidecar_reference *reference = &s->references[i];
        uint64_t end = (uint64_t)reference->address + 4 + reference->rest;
        const struct sidecar_unit *unit;

        if (!reference->kind || reference->kind >= SIDECAR_REFERENCE_KINDS || reference->zero)
            return "a reference is of a kind that does not exist";
        if (reference->address < last)
            return "its references overlap, or are out of order";
        unit = in_unit(s, &at, reference->address, end);
        if (!unit || unit->reason != SIDECAR_PROVEN)
            return "a reference lies outside the proven units";
        last = end;
    }
    return NULL;
}

static const char *check_jump_tables(const struct sidecar *s)
{
    uint64_t last = 0;

    for (size_t i = 0; i < s->n_jump_tables; i++) {
        const struct sidecar_jump_table *table = &s->jump_tables[i];

        if (table->address < last || !table->count ||
            table->address + 4 * (uint64_t)table->count > UINT32_MAX)
            return "its jump tables overlap, or are out of order";
        last = table->address + 4 * (uint64_t)table->count;
    }
    return NULL;
}

static int in_frames(const struct sidecar *s, uint64_t start, uint64_t size)
{
    return start >= s->header->frames_start &&
           start + size <= (uint64_t)s->header->frames_start + s->header->frames_size;
}

static const char *check_frame_fixes(const struct sidecar *s)
{
    uint64_t last = 0;

    for (size_t i = 0; i < s->n_frame_fixes; i++) {
        const struct sidecar_frame_fix *fix = &s->frame_fixes[i];

        if (!fix->kind || fix->kind >= SIDECAR_FRAME_FIX_KINDS || fix->zero[0] || fix->zero[1] ||
            fix->zero[2])
            return "a frame fix is of a kind that does not exist";
        if (fix->address < last)
            return "its frame fixes overlap, or are out of order";
        if (!in_frames(s, fix->address, 4))
            return "a frame fix lies outside the unwinding table";
        last = (uint64_t)fix->address + 4;
    }
    return NULL;
}

/* Where the range's start is said, a fix must stand.  Records mostly come in the order
 * of the code: `*near` is where the last one was found. */
static int starts_with_code(const struct sidecar *s, uint32_t address, size_t *near)
{
    size_t i = *near, end = i + 8;

    while (i < s->n_frame_fixes && i < end && s->frame_fixes[i].address < address)
        i++;
    if (i == s->n_frame_fixes || s->frame_fixes[i].address != address)
        i = sidecar_frame_fix_from(s, address);
    *near = i;
    return i < s->n_frame_fixes && s->frame_fixes[i].address == address &&
           s->frame_fixes[i].kind == SIDECAR_FRAME_CODE;
}

static const char *check_frames(const struct sidecar *s)
{
    uint64_t last = 0;
    size_t at = 0, near = 0;

    for (size_t i = 0; i < s->n_frames; i++) {
        const struct sidecar_frame *frame = &s->frames[i];
        const struct sidecar_unit *unit;

        if (frame->start < last)
            return "its frames are out of order";
        unit = in_unit(s, &at, frame->start, (uint64_t)frame->start + 1);
        if (!unit || unit->reason != SIDECAR_PROVEN)
            return "a frame is not of a proven unit";
        if (!in_frames(s, frame->fde, FDE_SIZE_MIN))
            return "a frame lies outside the unwinding table";
        if (!starts_with_code(s, frame->fde + 8, &near))
            return "a frame's start is not corrected";
        last = (uint64_t)frame->start + 1;
    }
    return NULL;
}

static const char *check_branches(const struct sidecar *s)
{
    uint64_t last = 0;
    size_t at = 0;

    for (size_t i = 0; i < s->n_branches; i++) {
        uint32_t address = s->branches[i].address;
        const struct sidecar_unit *unit;

        if (address < last)
            return "its branches overlap, or are out of order";
        last = (uint64_t)address + 4;
        unit = in_unit(s, &at, address, last);
        if (!unit || unit->reason != SIDECAR_PROVEN)
            return "a branch lies outside the proven units";
    }
    return NULL;
}

static const char *check_homes(const struct sidecar *s)
{
    uint64_t last = 0;
    size_t segment = 0;

    for (size_t i = 0; i < s->n_homes; i++) {
        const struct sidecar_home *home = &s->homes[i];
        uint64_t end = (uint64_t)home->start + home->size;

        if (home->start < last || !home->size)
            return "its homes overlap, or are out of order";
        if (!in_segment(s, &segment, home->start, end))
            return "a home lies outside the executable segments";
        last = end;
    }
    return NULL;
}

/* ---- opening ------------------------------------------------------------------- */

/* Points the view's pointer and count at a table, once its checksum is right. */
static const char *take(const struct sidecar_header *header, const struct sidecar_table *table,
                        const void **entries, size_t *count)
{
    const uint8_t *at = (const uint8_t *)header;

    if (!table)
        return NULL;
    at += table->offset;
    if (table->checksum != sidecar_hash(at, padded(table->count * table->entry_size)))
        return "a table has a wrong checksum";
    *entries = at;
    *count = table->count;
    return NULL;
}

static const char *open_tables(struct sidecar *s, const struct sidecar_table **found,
                               uint32_t wanted)
{
    const struct {
        uint32_t kind;
        const void **entries;
        size_t *count;
        const char *(*check)(const struct sidecar *);
    } tables[] = {
        {SIDECAR_SEGMENTS, (const void **)&s->segments, &s->n_segments, check_segments},
        {SIDECAR_UNITS, (const void **)&s->units, &s->n_units, check_units},
        {SIDECAR_CALLS, (const void **)&s->calls, &s->n_calls, check_calls},
        {SIDECAR_REFERENCES, (const void **)&s->references, &s->n_references, check_references},
        {SIDECAR_JUMP_TABLES, (const void **)&s->jump_tables, &s->n_jump_tables,
         check_jump_tables},
        {SIDECAR_FRAME_FIXES, (const void **)&s->frame_fixes, &s->n_frame_fixes,
         check_frame_fixes},
        {SIDECAR_FRAMES, (const void **)&s->frames, &s->n_frames, check_frames},
        {SIDECAR_BRANCHES, (const void **)&s->branches, &s->n_branches, check_branches},
        {SIDECAR_HOMES, (const void **)&s->homes, &s->n_homes, check_homes},
    };

    for (size_t i = 0; i < RIMF_COUNT(tables); i++) {
        const char *wrong;

        if (!(wanted & SIDECAR_WANT(tables[i].kind)))
            continue;
        wrong = take(s->header, found[tables[i].kind], tables[i].entries, tables[i].count);
        if (!wrong)
            wrong = tables[i].check(s);
        if (wrong)
            return wrong;
    }
    return NULL;
}

static const char *open_more(struct sidecar *s, const struct sidecar_table **found,
                             uint32_t wanted)
{
    const char *wrong;

    wanted |= SIDECAR_WANT(SIDECAR_SEGMENTS);
    if (wanted & SIDECAR_WANT(SIDECAR_FRAMES))
        wanted |= SIDECAR_WANT(SIDECAR_UNITS) | SIDECAR_WANT(SIDECAR_FRAME_FIXES);
    if (wanted & (SIDECAR_WANT(SIDECAR_CALLS) | SIDECAR_WANT(SIDECAR_REFERENCES) |
                  SIDECAR_WANT(SIDECAR_BRANCHES)))
        wanted |= SIDECAR_WANT(SIDECAR_UNITS);
    wrong = open_tables(s, found, wanted & ~s->opened);
    s->opened |= wanted;
    return wrong;
}

static int result(struct sidecar *s, const char *wrong, const char **why)
{
    if (!wrong)
        return 0;
    memset(s, 0, sizeof *s);
    *why = wrong;
    return -EINVAL;
}

int sidecar_open(struct sidecar *s, const void *bytes, size_t size, uint32_t wanted,
                 const char **why)
{
    const struct sidecar_table *found[SIDECAR_KINDS] = {NULL};
    const char *wrong = NULL;

    memset(s, 0, sizeof *s);
    if ((uintptr_t)bytes % 8 != 0)
        wrong = "it is not aligned in memory";
    s->header = bytes;
    if (!wrong)
        wrong = check_header(s->header, size);
    if (!wrong)
        wrong = check_directory(s->header, found);
    if (!wrong)
        wrong = open_more(s, found, wanted);
    return result(s, wrong, why);
}

int sidecar_open_more(struct sidecar *s, uint32_t wanted, const char **why)
{
    const struct sidecar_table *found[SIDECAR_KINDS] = {NULL};
    const char *wrong = check_directory(s->header, found);

    return result(s, wrong ? wrong : open_more(s, found, wanted), why);
}
