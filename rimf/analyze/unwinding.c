/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/unwinding.c: finds units that unwind as moved code, and the parts of .eh_frame that are then
 * corrected (rule 9).
 *
 * A copy of the FDE's bytes describes moved code.  So a unit needs exactly one FDE, of exactly its range:
 * two would be two entries at one address of the table that unwinders search.
 */
#include "rimf/analyze/analyser.h"

static int fits(const struct analyser *a, const struct frame *f, const struct unit *u)
{
    const struct record *record = frame_list_at(&a->list, f->fde);

    return record && !record->is_cie && !record->odd && f->start == u->start && f->end == u->end &&
           record->start == f->start;
}

/* Frames and units are sorted: *frame advances to the first one that ends behind the unit.  Returns the
 * unit's only frame, or NULL. */
static const struct frame *frame_of(const struct analyser *a, const struct unit *u, size_t *frame)
{
    const struct frame *frames = a->frames.at, *found = NULL;
    size_t n = 0;

    while (*frame < a->frames.n && frames[*frame].start < u->start)
        ++*frame;
    for (; *frame < a->frames.n && frames[*frame].start < u->end; ++*frame, n++)
        found = &frames[*frame];
    return n == 1 && fits(a, found, u) ? found : NULL;
}

void check_moved_frames(struct analyser *a)
{
    size_t frame = 0;

    for (size_t i = 0; i < a->units.n; i++) {
        struct unit *u = &units_of(a)[i];

        if (!frame_of(a, u, &frame))
            unit_stays(u, ANALYSIS_FRAME_ODD, u->start);
    }
}

static void fix_record(struct analyser *a, const struct record *record)
{
    const struct unit *u = unit_at(a, record->start);

    if (record->distances && !record->is_cie)
        VECTOR_ADD(&a->frame_fixes, struct analysis_frame_fix, .address = record->address + 8,
                   .kind = u && !u->reason ? ANALYSIS_FRAME_CODE : ANALYSIS_FRAME_OTHER);
    if (record->other_at)
        VECTOR_ADD(&a->frame_fixes, struct analysis_frame_fix, .address = record->other_at,
                   .kind = ANALYSIS_FRAME_OTHER);
}

void emit_moved_frames(struct analyser *a)
{
    const struct record *records = a->list.records.at;
    const struct frame *f;
    size_t frame = 0;

    if (a->object.flags) /* nothing of it moves */
        return;
    for (size_t i = 0; i < a->list.records.n; i++)
        fix_record(a, &records[i]);
    for (size_t i = 0; i < a->units.n; i++) {
        f = frame_of(a, &units_of(a)[i], &frame);
        if (f && !units_of(a)[i].reason)
            VECTOR_ADD(&a->moved_frames, struct analysis_frame, f->start, f->fde);
    }
}
