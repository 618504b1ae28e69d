/* SPDX-License-Identifier: MIT
 *
 * Damaged objects: headers, relocations, symbols, .eh_frame, exception tables, code, PLT,
 * jump tables.  The analyser refuses them with a sentence, or leaves an analysis that its
 * own reader takes, whose calls are what the bytes say.
 */
#include "rimf/analyze/analyser.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int so)
{
    if (!so)
        abort();
}

static void check_calls(const struct analyser *a)
{
    const struct analysis_call *calls = a->calls.at;

    for (size_t i = 0; i < a->calls.n; i++) {
        const uint8_t *at = object_at(&a->object, calls[i].address,
                                      analysis_call_length(&calls[i]));
        static const uint8_t first[ANALYSIS_CALL_KINDS] = {0, 0xe8, 0xe9, 0x0f, 0xff, 0xff};

        must(at && *at == first[analysis_call_kind(&calls[i])]);
        must(object_is_slot(&a->object, analysis_slot(&calls[i])));
    }
}

/* Of an object that may move, each movable unit unwinds as moved code; the bytes that do so
 * are there. */
static void check_movable(const struct analyser *a, const struct analysis *s)
{
    size_t movable = 0;

    for (size_t i = 0; i < s->n_units; i++)
        movable += s->units[i].reason == ANALYSIS_PROVEN;
    must(s->n_frames == (s->header->flags ? 0 : movable));
    must(!s->header->frames_size ||
         object_at(&a->object, s->header->frames_start, s->header->frames_size));
    for (size_t i = 0; i < s->n_frames; i++)
        must(object_at(&a->object, s->frames[i].fde, 16) != NULL);
}

static void check_analysis(struct analyser *a)
{
    struct analysis s;
    const char *why = NULL;
    size_t size;
    void *bytes;

    if (!a->object.build_id_size) {
        a->object.build_id_size = 1;
        a->object.build_id[0] = 1;
    }
    bytes = analysis_make(a, &size);
    must(bytes && analysis_open(&s, bytes, size, ANALYSIS_WANT_ALL, &why) == 0);
    must(s.n_units == a->units.n && s.n_calls == a->calls.n &&
         s.n_references == a->references.n && s.n_jump_tables == a->jump_tables.n);
    must(s.n_frames == a->moved_frames.n && s.n_frame_fixes == a->frame_fixes.n);
    must(s.branches && s.n_branches == a->branches.n);
    check_movable(a, &s);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *bytes = aligned_alloc(16, (size + 16) & ~15ul);
    struct analyser a;

    memcpy(bytes, data, size);
    if (analyser_run_bytes(&a, bytes, size) == 0) {
        check_calls(&a);
        check_analysis(&a);
    } else {
        must(a.object.error[0] != 0);
    }
    analyser_free(&a);
    free(bytes);
    return 0;
}
