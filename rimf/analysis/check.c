/* SPDX-License-Identifier: MIT
 *
 * rimf/analysis/check.c: checks the entries of an analysis's tables (analysis/analysis.h).
 *
 * Each entry is checked once.  Units are compared with segments, and calls, references and frames with
 * units, by walking both in step, so the cost is linear.
 */
#include "rimf/analysis/analysis.h"

#include "rimf/base/base.h"

#define FDE_SIZE_MIN 16u /* length, CIE, start, size of the range */

static const char *check_segments(const struct analysis *s)
{
    uint64_t last = 0;

    if (!s->n_segments)
        return "it lists no executable segment";
    for (size_t i = 0; i < s->n_segments; i++) {
        const struct analysis_segment *segment = &s->segments[i];

        if (segment->start < last || !segment->size ||
            (uint64_t)segment->start + segment->size > UINT32_MAX)
            return "its segments overlap, or are out of order";
        last = (uint64_t)segment->start + segment->size;
    }
    return NULL;
}

/* Steps of a walk: `*segment`, `*unit` advance to the first one that ends behind `start`. */
static int in_segment(const struct analysis *s, size_t *segment, uint64_t start, uint64_t end)
{
    while (*segment < s->n_segments &&
           start >= (uint64_t)s->segments[*segment].start + s->segments[*segment].size)
        ++*segment;
    return *segment < s->n_segments && start >= s->segments[*segment].start &&
           end <= (uint64_t)s->segments[*segment].start + s->segments[*segment].size;
}

static inline const struct analysis_unit *in_unit(const struct analysis *s, size_t *unit,
                                                 uint64_t start, uint64_t end)
{
    const struct analysis_unit *at = s->units + *unit, *stop = s->units + s->n_units;

    while (at < stop && start >= (uint64_t)at->start + at->size)
        at++;
    *unit = (size_t)(at - s->units);
    return at < stop && start >= at->start && end <= (uint64_t)at->start + at->size ? at : NULL;
}

/* HEAD needs REACHED, and both need that the unit may move. */
static int has_possible_flags(const struct analysis_unit *unit)
{
    int undecoded = unit->reason && unit->reason <= ANALYSIS_LAST_UNDECODED;
    unsigned more = unit->flags & ~(unsigned)(ANALYSIS_DECODED | ANALYSIS_JOINED | ANALYSIS_HELD);

    if ((unit->flags & ANALYSIS_DECODED ? 0 : 1) != undecoded)
        return 0;
    if (unit->reason)
        return !more && !(unit->flags & ANALYSIS_HELD);
    if (!more)
        return 1;
    return more == ANALYSIS_REACHED ||
           (more == (ANALYSIS_REACHED | ANALYSIS_HEAD) && unit->size >= ANALYSIS_HEAD_SIZE);
}

static const char *check_units(const struct analysis *s)
{
    uint64_t last = 0;
    size_t segment = 0;

    for (size_t i = 0; i < s->n_units; i++) {
        const struct analysis_unit *unit = &s->units[i];
        uint64_t end = (uint64_t)unit->start + unit->size;

        if (unit->start < last || !unit->size)
            return "its units overlap, or are out of order";
        if (!in_segment(s, &segment, unit->start, end))
            return "a unit lies outside the executable segments";
        if (unit->reason >= ANALYSIS_REASONS || unit->zero || !has_possible_flags(unit))
            return "a unit is of a kind that does not exist";
        last = end;
    }
    return NULL;
}

static int in_decoded(const struct analysis *s, size_t *at, uint64_t start, uint64_t end)
{
    const struct analysis_unit *unit = in_unit(s, at, start, end);

    return unit && unit->flags & ANALYSIS_DECODED;
}

/* A process that changes calls in place does not need the units, and reads half as much. */
static const char *check_calls(const struct analysis *s)
{
    int units = (s->opened & ANALYSIS_WANT(ANALYSIS_UNITS)) != 0;
    uint64_t last = 0;
    size_t at = 0;

    for (size_t i = 0; i < s->n_calls; i++) {
        const struct analysis_call *call = &s->calls[i];
        uint64_t end = (uint64_t)call->address + analysis_call_length(call);

        if (!analysis_call_kind(call) || analysis_call_kind(call) >= ANALYSIS_CALL_KINDS || !analysis_slot(call))
            return "a call is of a kind that does not exist";
        if (call->address < last)
            return "its calls overlap, or are out of order";
        if (units && !in_decoded(s, &at, call->address, end))
            return "a call lies outside the decoded units";
        if (!units && !in_segment(s, &at, call->address, end))
            return "a call lies outside the executable segments";
        last = end;
    }
    return NULL;
}

static const char *check_references(const struct analysis *s)
{
    uint64_t last = 0;
    size_t at = 0;

    for (size_t i = 0; i < s->n_references; i++) {
        const struct analysis_reference *reference = &s->references[i];
        uint64_t end = (uint64_t)reference->address + 4 + reference->rest;
        const struct analysis_unit *unit;

        if (!reference->kind || reference->kind >= ANALYSIS_REFERENCE_KINDS || reference->zero)
            return "a reference is of a kind that does not exist";
        if (reference->address < last)
            return "its references overlap, or are out of order";
        unit = in_unit(s, &at, reference->address, end);
        if (!unit || unit->reason != ANALYSIS_PROVEN)
            return "a reference lies outside the proven units";
        last = end;
    }
    return NULL;
}

static const char *check_jump_tables(const struct analysis *s)
{
    uint64_t last = 0;

    for (size_t i = 0; i < s->n_jump_tables; i++) {
        const struct analysis_jump_table *table = &s->jump_tables[i];

        if (table->address < last || !table->count ||
            table->address + 4 * (uint64_t)table->count > UINT32_MAX)
            return "its jump tables overlap, or are out of order";
        last = table->address + 4 * (uint64_t)table->count;
    }
    return NULL;
}

static int in_frames(const struct analysis *s, uint64_t start, uint64_t size)
{
    return start >= s->header->frames_start &&
           start + size <= (uint64_t)s->header->frames_start + s->header->frames_size;
}

static const char *check_frame_fixes(const struct analysis *s)
{
    uint64_t last = 0;

    for (size_t i = 0; i < s->n_frame_fixes; i++) {
        const struct analysis_frame_fix *fix = &s->frame_fixes[i];

        if (!fix->kind || fix->kind >= ANALYSIS_FRAME_FIX_KINDS || fix->zero[0] || fix->zero[1] ||
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

/* A range's start must have a fix.  Records are mostly in the order of the code: `*near` is the index of
 * the last one found. */
static int starts_with_code(const struct analysis *s, uint32_t address, size_t *near)
{
    size_t i = *near, end = i + 8;

    while (i < s->n_frame_fixes && i < end && s->frame_fixes[i].address < address)
        i++;
    if (i == s->n_frame_fixes || s->frame_fixes[i].address != address)
        i = ANALYSIS_FROM(s, frame_fixes, address);
    *near = i;
    return i < s->n_frame_fixes && s->frame_fixes[i].address == address &&
           s->frame_fixes[i].kind == ANALYSIS_FRAME_CODE;
}

static const char *check_frames(const struct analysis *s)
{
    uint64_t last = 0;
    size_t at = 0, near = 0;

    for (size_t i = 0; i < s->n_frames; i++) {
        const struct analysis_frame *frame = &s->frames[i];
        const struct analysis_unit *unit;

        if (frame->start < last)
            return "its frames are out of order";
        unit = in_unit(s, &at, frame->start, (uint64_t)frame->start + 1);
        if (!unit || unit->reason != ANALYSIS_PROVEN)
            return "a frame is not of a proven unit";
        if (!in_frames(s, frame->fde, FDE_SIZE_MIN))
            return "a frame lies outside the unwinding table";
        if (!starts_with_code(s, frame->fde + 8, &near))
            return "a frame's start is not corrected";
        last = (uint64_t)frame->start + 1;
    }
    return NULL;
}

static const char *check_branches(const struct analysis *s)
{
    uint64_t last = 0;
    size_t at = 0;

    for (size_t i = 0; i < s->n_branches; i++) {
        uint32_t address = s->branches[i].address;
        const struct analysis_unit *unit;

        if (address < last)
            return "its branches overlap, or are out of order";
        last = (uint64_t)address + 4;
        unit = in_unit(s, &at, address, last);
        if (!unit || unit->reason != ANALYSIS_PROVEN)
            return "a branch lies outside the proven units";
    }
    return NULL;
}

static const char *check_fixed(const struct analysis *s)
{
    uint64_t last = 0;
    size_t segment = 0;

    for (size_t i = 0; i < s->n_fixed; i++) {
        const struct analysis_fixed *fixed = &s->fixed[i];
        uint64_t end = (uint64_t)fixed->start + fixed->size;

        if (fixed->start < last || !fixed->size)
            return "its fixed code overlaps, or is out of order";
        if (!in_segment(s, &segment, fixed->start, end))
            return "fixed code lies outside the executable segments";
        last = end;
    }
    return NULL;
}

const char *analysis_check(const struct analysis *s, uint32_t kind)
{
    switch (kind) {
    case ANALYSIS_SEGMENTS: return check_segments(s);
    case ANALYSIS_UNITS: return check_units(s);
    case ANALYSIS_CALLS: return check_calls(s);
    case ANALYSIS_REFERENCES: return check_references(s);
    case ANALYSIS_JUMP_TABLES: return check_jump_tables(s);
    case ANALYSIS_FRAME_FIXES: return check_frame_fixes(s);
    case ANALYSIS_FRAMES: return check_frames(s);
    case ANALYSIS_BRANCHES: return check_branches(s);
    case ANALYSIS_FIXED_CODE: return check_fixed(s);
    default: return "a table of a kind that nobody knows";
    }
}
