/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/analyser.c: the steps in their order.
 */
#include "rimf/analyze/analyser.h"

#include <string.h>

static uint32_t last_fde(const struct analyser *a)
{
    const struct frame *frames = a->frames.at;
    uint32_t last = 0;

    for (size_t i = 0; i < a->frames.n; i++)
        last = frames[i].fde > last ? frames[i].fde : last;
    return last;
}

int analyser_finish(struct analyser *a)
{
    uint64_t list;

    if (object_read_references(&a->object) || frames_read(&a->object, &a->frames, &list) ||
        frame_list_read(&a->object, list, last_fde(a), &a->list) || units_make(a))
        return -1;
    mark_units(a);
    /* Every start is known now: places can be compared with them. */
    check_units(a);
    check_places(a);
    check_moved_frames(a);
    decide_units(a);
    /* Every reason is final now. */
    follow_dispatches(a);
    reach_units(a);
    emit_units(a);
    find_jump_tables(a);
    emit_moved_frames(a);
    emit_fixed(a);
    emit_names(a);
    if (a->edges.failed || a->calls.failed || a->references.failed || a->candidates.failed ||
        a->spoiled.failed || a->jump_tables.failed || a->taken.failed || a->read.failed ||
        a->moved_frames.failed || a->frame_fixes.failed || a->branches.failed || a->fixed.failed ||
        a->symbols.failed || a->names.failed)
        return object_fail(&a->object, "there is no memory for its analysis");
    return 0;
}

int analyser_run(struct analyser *a, const char *path)
{
    memset(a, 0, sizeof *a);
    return object_open(&a->object, path) || analyser_finish(a) ? -1 : 0;
}

int analyser_run_bytes(struct analyser *a, const uint8_t *bytes, size_t size)
{
    memset(a, 0, sizeof *a);
    return object_parse(&a->object, bytes, size) || analyser_finish(a) ? -1 : 0;
}

void analyser_free(struct analyser *a)
{
    for (size_t i = 0; i < a->n_code; i++) {
        free(a->code[i].starts);
        free(a->code[i].entered);
        free(a->code[i].first_unit);
    }
    free(a->code);
    vector_free(&a->frames);
    vector_free(&a->list.records);
    vector_free(&a->units);
    vector_free(&a->edges);
    vector_free(&a->calls);
    vector_free(&a->references);
    vector_free(&a->candidates);
    vector_free(&a->spoiled);
    vector_free(&a->jump_tables);
    vector_free(&a->taken);
    vector_free(&a->read);
    vector_free(&a->moved_frames);
    vector_free(&a->frame_fixes);
    vector_free(&a->branches);
    vector_free(&a->fixed);
    vector_free(&a->symbols);
    vector_free(&a->names);
    object_close(&a->object);
    memset(a, 0, sizeof *a);
}
