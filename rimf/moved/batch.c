/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/batch.c: moves the declared code, all of it or none, in the order of moved/moved.h.
 */
#include "rimf/moved/moved.h"

#include "rimf/base/base.h"
#include "rimf/emit/changes.h"
#include "rimf/image/edits.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

/* A batch while it is made. */
struct making {
    struct mvld_image *image;
    struct moved_code *moved;
    struct rimf_moved_report *report;
    size_t first;                 /* in the list */
    size_t frames_size, n_new;    /* of all: bytes of frames, number of new entries */
    uintptr_t code, code_end;     /* new pages */
    uintptr_t frames, frames_end; /* new pages; the `table` bytes before them change, too */
    uintptr_t next_frames;        /* in these */
    size_t n_frames;              /* in the table before */
    size_t table_before, table;   /* its pages, in bytes */
    struct changes changes;       /* of originals */
};

/* The object of the list's i-th fragment, with that selected. */
static struct moving moving_of(const struct making *m, size_t i)
{
    const struct moved_fragment *fragment = &m->moved->list[i];
    struct rimf_object *object = (struct rimf_object *)fragment->object;
    struct moving c = {.image = m->image, .object = object, .fragment = fragment, .bias = object->view.bias,
                       .distance = (intptr_t)(fragment->at - fragment->original)};

    c.analysis = rimf_analysis_whole(m->image, object, &c.why);
    return c;
}

/* Visits all objects, with their first fragments selected, until one fails. */
static int each_object(struct making *m, int (*visit)(struct making *, struct moving *))
{
    int error = 0;

    for (size_t i = m->first; i < m->moved->n_planned && !error; i++) {
        if (moved_is_first(m->moved, i)) {
            struct moving c = moving_of(m, i);

            error = visit(m, &c);
        }
    }
    return error;
}

static int failed(const struct moving *c, int error)
{
    return rimf_fail(c->image, -error, "%s: its code cannot be moved: %s", c->object->public.name, c->why);
}

/* Sorts by originals.  0; -EINVAL: two overlap. */
static int sort_fragments(const struct moved_code *moved, struct rimf_object *object)
{
    const struct moved_fragment *last = NULL;

    rimf_sort(object->fragments, object->n_fragments, sizeof *object->fragments);
    for (size_t i = 0; i < object->n_fragments; i++) {
        const struct moved_fragment *fragment = &moved->list[object->fragments[i].index];

        if (last && fragment->original - last->original < last->code)
            return -EINVAL;
        last = fragment;
    }
    return 0;
}

/* Measures everything.  The analysis stays open until all is done. */
static int measure(struct making *m, struct moving *c)
{
    int error = c->analysis ? sort_fragments(m->moved, c->object) : -ENODATA;

    c->why = c->analysis ? "two fragments of it overlap" : c->why;
    if (c->object->code.patched) {
        c->why = "the pass changed it after it had said that it moves";
        error = -ENOTSUP;
    }
    if (error)
        return failed(c, error);
    m->frames_size += moved_frames_size(c);
    m->n_new += c->analysis->n_frames;
    return 0;
}

/* Finds the addresses for code up to `code_end`, and for the frames. */
static int find_room(struct making *m, uintptr_t code_end)
{
    struct moved_code *moved = m->moved;

    if (!moved->n_frames) {
        m->frames_size += moved_frames_described_size(m->image->feeder.described, m->image->feeder.n_described);
        m->n_new += m->image->feeder.n_described;
    }
    m->n_frames = moved->n_frames;
    m->table_before = m->n_frames ? moved_frames_searched(m->n_frames) : 0;
    m->table = moved_frames_searched(m->n_frames + m->n_new);
    /* With a pass's gap before the first of them: code is one fragment, without holes. */
    m->code = moved->code_end;
    m->code_end = code_end;
    m->frames = moved->frames_end == moved->region.frames
                    ? moved->region.frames + moved_frames_table(&moved->region)
                    : moved->frames_end;
    m->frames_end = rimf_page_up(m->frames + m->frames_size);
    if (m->table > moved->names - moved->region.frames ||
        m->frames_end > moved->region.frames + moved->region.frames_size)
        return rimf_fail(m->image, ENOSPC, "the region has no room for the unwind tables");
    return 0;
}

/* Maps the new pages of the table, and makes old ones writable while others may read them. */
static long open_table(const struct making *m)
{
    uintptr_t start = m->moved->region.frames;
    long error = sys_mprotect(m->image->sys, start, m->table_before, PROT_READ | PROT_WRITE);

    return sys_failed(error) ? error
                             : moved_pages_fill(m->image, start + m->table_before, start + m->table);
}

static int open_pages(const struct making *m)
{
    long error = moved_pages_open(m->image, m->code, m->code_end);

    if (!sys_failed(error))
        error = moved_pages_fill(m->image, m->frames, m->frames_end);
    if (!sys_failed(error))
        error = open_table(m);
    return sys_failed(error)
               ? rimf_fail(m->image, (int)-error, "there is no memory for moved code")
               : 0;
}

static int close_pages(const struct making *m)
{
    const struct rimf_sys *sys = m->image->sys;
    long error = sys_mprotect(sys, m->code, m->code_end - m->code, PROT_READ | PROT_EXEC);

    if (!sys_failed(error))
        error = sys_mprotect(sys, m->frames, m->frames_end - m->frames, PROT_READ);
    return sys_failed(error) ? rimf_fail(m->image, (int)-error,
                                         "moved code cannot be made executable (error %ld)",
                                         -error)
                             : 0;
}

/* Sets the table's new length.  Unwinders of other threads may read the new pages from now on: so this is the
 * last step, after which nothing fails. */
static void publish_frames(const struct making *m)
{
    moved_frames_publish(m->moved);
    if (sys_failed(sys_mprotect(m->image->sys, m->moved->region.frames, m->table, PROT_READ)))
        rimf_log(m->image->log, MVLD_LOG_WARNING,
                 "the unwind tables of moved code stay writable");
}

/* No thread has used the new pages.  They are replaced by code that is not accessible, and frames that read
 * as zeros. */
static void take_away(const struct making *m)
{
    struct moved_code *moved = m->moved;
    uintptr_t table = moved->region.frames;

    moved->n_frames = m->n_frames;
    moved_pages_small(m->image, m->code, m->code_end, PROT_NONE);
    moved_pages_small(m->image, m->frames, m->frames_end, PROT_READ);
    moved_pages_small(m->image, table + m->table_before, table + m->table, PROT_READ);
    sys_mprotect(m->image->sys, table, m->table_before, PROT_READ);
}

/* The start of frames: behind the data before the region, if they are the first. */
static uintptr_t begin_frames(const struct making *m)
{
    const struct rimf_feeder *feeder = &m->image->feeder;

    return m->n_frames ? m->frames
                       : moved_frames_described(m->moved, feeder->described, feeder->n_described, m->frames);
}

/* Makes code and frames of an object. */
static int fill_object(struct making *m, struct moving *c)
{
    int error;

    error = move_code(c);
    if (!error)
        error = moved_frames(c, m->next_frames);
    if (error)
        return failed(c, error);
    c->object->frames = m->next_frames;
    c->object->frames_size = moved_frames_size(c);
    m->next_frames += c->object->frames_size;
    m->report->objects++;
    return 0;
}

/* Makes the table that unwinders search, of all fragments in order. */
static int fill_table(struct making *m)
{
    for (size_t i = m->first; i < m->moved->n_planned; i++) {
        struct moving c = moving_of(m, i);
        int error = moved_frames_sorted(&c);

        if (error)
            return failed(&c, error);
        m->report->code += c.fragment->size;
    }
    return 0;
}

static int fill(struct making *m)
{
    int error;

    m->next_frames = begin_frames(m);
    error = each_object(m, fill_object);
    if (!error)
        error = fill_table(m);
    m->report->frames = m->next_frames - m->frames + m->table - m->table_before;
    return error;
}

static int install_hooks(struct making *m)
{
    const char *why = "the C library does not know of moved code";

    if (m->image->feeder.caller_hooks && !m->image->feeder.caller_hooks(m->image->feeder.cookie, &why))
        return 0;
    return rimf_fail(m->image, ENOTSUP, "code cannot be moved: %s", why);
}

static int list_operands(struct making *m, struct moving *c)
{
    return move_operands(c, &m->changes);
}

/* Changes operands of originals to moved code: all, or none. */
static int lead_operands(struct making *m)
{
    int error = each_object(m, list_operands);

    error = error ? error : changes_all(&m->changes);
    changes_end(&m->changes);
    return error ? rimf_fail(m->image, -error, "operands that take addresses stay: %s",
                             error == -ERANGE ? edit_far : m->image->error) : 0;
}

/* When all that moved here is closed, its memory is given back.  Without memory for this note it stays. */
static void note_batch(const struct making *m)
{
    int first = !m->n_frames; /* with frames of others, which stay */
    struct moved_batch *batch = m->image->entered && !first ? rimf_heap_alloc(&m->image->heap, sizeof *batch) : NULL;

    if (!batch)
        return;
    *batch = (struct moved_batch){.code = m->code, .code_end = m->code_end,
                                  .frames = m->frames, .frames_end = m->frames_end};
    for (size_t i = m->first; i < m->moved->n; i++) {
        m->moved->list[i].batch = batch;
        batch->n_objects += (size_t)moved_is_first(m->moved, i);
    }
}

static int make(struct making *m)
{
    struct moved_code *moved = m->moved;
    const struct moved_fragment *last = &moved->list[moved->n_planned - 1];
    int error = each_object(m, measure);

    if (!error)
        error = find_room(m, moved_pages_end(moved, moved->code_end, last->at + last->size));
    if (error)
        return error;
    error = open_pages(m);
    if (!error)
        error = fill(m);
    if (!error)
        error = close_pages(m);
    if (!error) { /* from here on addresses in them have originals */
        __atomic_store_n(&moved->n, moved->n_planned, __ATOMIC_RELEASE);
        error = install_hooks(m);
    }
    if (!error)
        error = lead_operands(m);
    if (error) {
        __atomic_store_n(&moved->n, m->first, __ATOMIC_RELEASE);
        take_away(m);
        return error;
    }
    publish_frames(m);
    moved_pages_join(m->image, m->code, m->code_end);
    moved->code_end = m->code_end;
    moved->frames_end = m->frames_end;
    note_batch(m);
    return 0;
}

int moved_describe(struct mvld_image *image, const struct rimf_described *list, size_t n)
{
    struct making m = {.image = image, .moved = image->moved, .n_new = n,
                       .frames_size = moved_frames_described_size(list, n)};
    int error = find_room(&m, m.moved->code_end);

    if (error)
        return error;
    error = open_pages(&m);
    if (!error) {
        moved_frames_described(m.moved, list, n, begin_frames(&m));
        error = close_pages(&m);
    }
    if (error) {
        take_away(&m);
        return error;
    }
    publish_frames(&m);
    m.moved->frames_end = m.frames_end;
    return 0;
}

void moved_drop_plan(struct mvld_image *image)
{
    struct moved_code *moved = image->moved;

    while (moved && moved->n_planned > moved->n)
        moved_drop(image, (struct rimf_object *)moved->list[--moved->n_planned].object);
}

void moved_report(const struct mvld_image *image, const struct rimf_object *object)
{
    int one = object->n_fragments == 1;

    if (!one)
        rimf_log(image->log, MVLD_LOG_PASSES, "%s: %zu fragments of it moved",
                 object->public.name, object->n_fragments);
    for (size_t i = 0; i < object->n_fragments; i++) {
        const struct moved_fragment *fragment = &image->moved->list[object->fragments[i].index];

        rimf_log(image->log, one ? MVLD_LOG_PASSES : MVLD_LOG_IMAGE,
                 "%s: %zu bytes at %p moved to %p%s", object->public.name, fragment->code,
                 (void *)fragment->original, (void *)fragment->at,
                 fragment->is_canonical ? ", where their addresses lead" : "");
    }
}

static int finish(struct making *m, struct moving *c)
{
    moved_report(m->image, c->object);
    return move_entries(c, &m->changes, m->report);
}

/* Writes the jumps at the start of originals.  A refused one has none: then other threads may run there. */
static int finish_all(struct making *m)
{
    int error = each_object(m, finish);

    error = error ? error : changes_each(&m->changes);
    m->report->entries = m->changes.made;
    m->report->in_place += m->changes.refused;
    changes_end(&m->changes);
    return error == -EDEADLK ? 0 : error;
}

int rimf_moved_commit(struct mvld_image *image, struct rimf_moved_report *report)
{
    struct making m = {.image = image, .moved = image->moved, .report = report, .first = image->moved->n,
                       .changes = {.image = image, .unentered = image->feeder.unentered}};
    struct moved_writing *writing = NULL;
    int error;

    memset(report, 0, sizeof *report);
    if (m.moved->n_planned == m.first)
        return 0;
    if (rimf_image_is_traced(image)) {
        error = rimf_fail(image, EBUSY, "a debugger may have breakpoints in the code");
    } else {
        writing = canonical_plan(image);
        if (writing)
            move_entries_begin(image);
        error = make(&m);
    }
    canonical_end(image, writing, error);
    if (error) {
        moved_drop_plan(image);
        memset(report, 0, sizeof *report);
    } else {
        error = finish_all(&m);
    }
    return error;
}
