/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/analyser.c: the steps in their order.
 */
#include "rimf/analyze/analyser.h"

#include <string.h>

_Static_assert(offsetof(struct analyser, all) + sizeof(((struct analyser *)0)->all) == offsetof(struct analyser, code),
               "all vectors");

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
    if (vectors_failed(a->all, RIMF_COUNT(a->all)))
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
    vector_free(&a->list.records);
    vectors_free(a->all, RIMF_COUNT(a->all));
    object_close(&a->object);
    memset(a, 0, sizeof *a);
}
