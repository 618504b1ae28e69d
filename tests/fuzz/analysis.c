/* SPDX-License-Identifier: MIT
 *
 * Analyses of any bytes, with checksums that fit: refused with a sentence, or with
 * everything inside the bounds that analysis/analysis.h promises.
 */
#include "../rimf/analysis/made_analysis.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int so)
{
    if (!so)
        abort();
}

static int in_segments(const struct analysis *s, uint64_t start, uint64_t size)
{
    for (size_t i = 0; i < s->n_segments; i++)
        if (start >= s->segments[i].start &&
            start + size <= (uint64_t)s->segments[i].start + s->segments[i].size)
            return 1;
    return 0;
}

static void look_at_frames(const struct analysis *s)
{
    uint64_t end = (uint64_t)s->header->frames_start + s->header->frames_size, last = 0;

    for (size_t i = 0; i < s->n_frame_fixes; i++) {
        must(s->frame_fixes[i].address >= last &&
             s->frame_fixes[i].address >= s->header->frames_start);
        last = s->frame_fixes[i].address + 4ul;
        must(last <= end && ANALYSIS_FROM(s, frame_fixes, s->frame_fixes[i].address) == i);
    }
    for (size_t i = 0; i < s->n_frames; i++) {
        const struct analysis_frame *frame = &s->frames[i];
        const struct analysis_unit *unit = analysis_unit_at(s, frame->start);
        size_t fix = ANALYSIS_FROM(s, frame_fixes, frame->fde + 8);

        must(unit && unit->reason == ANALYSIS_PROVEN && ANALYSIS_FROM(s, frames, frame->start) == i);
        must(frame->fde >= s->header->frames_start && frame->fde + 16ul <= end);
        must(fix < s->n_frame_fixes && s->frame_fixes[fix].address == frame->fde + 8 &&
             s->frame_fixes[fix].kind == ANALYSIS_FRAME_CODE);
    }
}

static void look(const struct analysis *s)
{
    uint64_t last = 0;

    for (size_t i = 0; i < s->n_units; i++) {
        must(s->units[i].start >= last && in_segments(s, s->units[i].start, s->units[i].size));
        must(analysis_unit_at(s, s->units[i].start) == &s->units[i]);
        if (s->units[i].flags & ANALYSIS_HEAD)
            must(s->units[i].flags & ANALYSIS_REACHED && s->units[i].size >= ANALYSIS_HEAD_SIZE);
        if (s->units[i].flags & (ANALYSIS_REACHED | ANALYSIS_HELD))
            must(s->units[i].reason == ANALYSIS_PROVEN);
        last = (uint64_t)s->units[i].start + s->units[i].size;
    }
    last = 0;
    for (size_t i = 0; i < s->n_calls; i++) {
        const struct analysis_call *call = &s->calls[i];
        const struct analysis_unit *unit = analysis_unit_at(s, call->address);

        must(call->address >= last && unit && unit->flags & ANALYSIS_DECODED);
        last = (uint64_t)call->address + analysis_call_length(call);
        must(last <= (uint64_t)unit->start + unit->size);
    }
    for (size_t i = 0; i < s->n_references; i++) {
        const struct analysis_unit *unit = analysis_unit_at(s, s->references[i].address);

        must(unit && unit->reason == ANALYSIS_PROVEN);
        must(ANALYSIS_FROM(s, references, s->references[i].address) == i);
    }
    for (size_t i = 0; i < s->n_jump_tables; i++)
        must(s->jump_tables[i].count != 0);
    for (size_t i = 0; i < s->n_branches; i++) {
        const struct analysis_unit *unit = analysis_unit_at(s, s->branches[i].address);

        must(unit && unit->reason == ANALYSIS_PROVEN);
        must(s->branches[i].address + 4ul <= (uint64_t)unit->start + unit->size);
        must(!i || s->branches[i].address >= s->branches[i - 1].address + 4ul);
    }
    look_at_frames(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *bytes = aligned_alloc(8, (size + 8) & ~7ul);
    const char *why = NULL;
    struct analysis s;

    memcpy(bytes, data, size);
    if (size >= sizeof(struct analysis_header)) {
        ((struct analysis_header *)bytes)->size = size;
        memcpy(bytes, ANALYSIS_MAGIC, 8);
    }
    made_seal(bytes, size);
    if (analysis_open(&s, bytes, size, ANALYSIS_WANT_ALL, &why) == 0)
        look(&s);
    else
        must(why && !s.header && !s.n_units);
    free(bytes);
    return 0;
}
