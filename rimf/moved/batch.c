/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/batch.c: the copies that were asked for come to be, all of them or none, in
 * the order that moved/moved.h tells.
 */
#include "rimf/moved/moved.h"

#include "rimf/base/base.h"
#include "rimf/image/private.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

/* A batch on its way. */
struct making {
    struct mvld_image *image;
    struct rimf_copies *copies;
    struct mvld_copies_report *report;
    uintptr_t code, code_end;     /* new pages */
    uintptr_t frames, frames_end; /* new pages; `table` bytes before them change too */
    size_t n_frames;              /* in the table before */
    size_t table_before, table;   /* its pages, in bytes */
    size_t n_calls;
    uintptr_t *frames_of;         /* by the place of the first fragment: where its object's are */
};

/* The object of the list's i-th copy, with that at hand. */
static struct copying copying_of(const struct making *m, size_t i)
{
    const struct rimf_copy *copy = &m->copies->list[i];
    struct rimf_object *object = (struct rimf_object *)copy->object;
    const char *why;

    return (struct copying){
        .image = m->image,
        .object = object,
        .copy = copy,
        .bias = object->view.bias,
        .distance = (intptr_t)(copy->at - copy->home),
        .analysis = rimf_analysis_whole(m->image, object, &why),
    };
}

static int failed(struct making *m, const struct copying *c, int error)
{
    return rimf_fail(m->image, -error, "%s: its code cannot be copied: %s",
                     c->object->public.name, c->why ? c->why : "its analysis is gone");
}

/* By home no fragment overlaps the next one. */
static int settle(struct making *m, struct copying *c)
{
    const struct rimf_copy *list = m->copies->list, *last = NULL;

    copies_sort(m->copies, c->object);
    for (size_t i = 0; i < c->object->n_fragments; i++) {
        const struct rimf_copy *copy = &list[c->object->fragments[i]];

        if (last && copy->home - last->home < last->code) {
            c->why = "two fragments of it overlap";
            return -EINVAL;
        }
        last = copy;
    }
    return 0;
}

/* Where the frames of each copy will lie, and how much there is of everything. */
static int measure(struct making *m)
{
    struct rimf_copies *copies = m->copies;
    const struct rimf_copy *last = &copies->list[copies->n_planned - 1];
    size_t size = copies->n_frames ? 0 : copy_frames_described_size(m->image);
    size_t n = copies->n_frames ? copies->n_frames : m->image->n_described;

    for (size_t i = copies->n; i < copies->n_planned; i++) {
        struct copying c = copying_of(m, i);
        int error;

        if (!copies_is_first(copies, i))
            continue;
        error = c.analysis ? settle(m, &c) : -ENODATA;
        if (error)
            return failed(m, &c, error);
        size += copy_frames_size(&c);
        n += c.analysis->n_frames;
        m->n_calls += c.analysis->n_calls;
    }
    m->n_frames = copies->n_frames;
    m->table_before = m->n_frames ? copy_frames_searched(m->n_frames) : 0;
    m->table = copy_frames_searched(n);
    /* With what a pass left before the first of them: code is one fragment, without holes. */
    m->code = copies->code_end;
    m->code_end = copy_pages_end(copies, m->code, last->at + last->size);
    m->frames = copies->frames_end == copies->region.frames
                    ? copies->region.frames + copy_frames_table(&copies->region)
                    : copies->frames_end;
    m->frames_end = rimf_page_up(m->frames + size);
    if (m->table > copies->names - copies->region.frames ||
        m->frames_end > copies->region.frames + copies->region.frames_size)
        return rimf_fail(m->image, ENOSPC, "the region has no room for the unwind tables");
    return 0;
}

/* Of the table, what was not there is mapped; what was there becomes writable while
 * others may read it. */
static long open_table(const struct making *m)
{
    uintptr_t start = m->copies->region.frames;
    long error = sys_mprotect(m->image->sys, start, m->table_before, PROT_READ | PROT_WRITE);

    return sys_failed(error) ? error
                             : copy_pages_fill(m->image, start + m->table_before, start + m->table);
}

static int open_pages(const struct making *m)
{
    long error = copy_pages_open(m->image, m->code, m->code_end);

    if (!sys_failed(error))
        error = copy_pages_fill(m->image, m->frames, m->frames_end);
    if (!sys_failed(error))
        error = open_table(m);
    return sys_failed(error)
               ? rimf_fail(m->image, (int)-error, "there is no memory for copies of code")
               : 0;
}

static int close_pages(const struct making *m)
{
    const struct rimf_sys *sys = m->image->sys;
    long error = sys_mprotect(sys, m->code, m->code_end - m->code, PROT_READ | PROT_EXEC);

    if (!sys_failed(error))
        error = sys_mprotect(sys, m->frames, m->frames_end - m->frames, PROT_READ);
    return sys_failed(error) ? rimf_fail(m->image, (int)-error,
                                         "copies of code cannot be made executable (error %ld)",
                                         -error)
                             : 0;
}

/* The table gets its new length.  Unwinders of other threads that read it have pages under
 * them from here on for good: so this is the last step, behind which nothing fails. */
static void publish_frames(const struct making *m)
{
    copy_frames_publish(m->copies);
    if (sys_failed(sys_mprotect(m->image->sys, m->copies->region.frames, m->table, PROT_READ)))
        rimf_log(m->image->log, MVLD_LOG_WARNING,
                 "the unwind tables of copies of code stay writable");
}

static void reserve(const struct making *m, uintptr_t start, uintptr_t end)
{
    if (start != end)
        sys_mmap(m->image->sys, start, end - start, PROT_READ,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

/* Nothing entered the new pages, and nobody looked for them.  What is mapped instead is
 * code that cannot be touched, and frames that read as zeros. */
static void take_away(const struct making *m)
{
    struct rimf_copies *copies = m->copies;
    uintptr_t table = copies->region.frames;

    copies->n_frames = m->n_frames;
    copy_pages_give_back(m->image, m->code, m->code_end);
    reserve(m, m->frames, m->frames_end);
    reserve(m, table + m->table_before, table + m->table);
    sys_mprotect(m->image->sys, table, m->table_before, PROT_READ);
}

/* Of all objects, their code and frames. */
static int fill_objects(struct making *m, struct copy_answers *answers, uintptr_t *frames)
{
    struct rimf_copies *copies = m->copies;
    int error = 0;

    for (size_t i = copies->n; i < copies->n_planned && !error; i++) {
        struct copying c = copying_of(m, i);

        if (!copies_is_first(copies, i))
            continue;
        c.answers = answers;
        error = c.analysis ? copy_code(&c) : -ENODATA;
        if (!error)
            error = copy_frames(&c, *frames);
        if (error)
            return failed(m, &c, error);
        m->frames_of[i - copies->n] = c.object->frames = *frames;
        c.object->frames_size = copy_frames_size(&c);
        *frames += copy_frames_size(&c);
        m->report->objects++;
    }
    return 0;
}

/* Of all fragments, in their order, what unwinders search. */
static int fill_table(struct making *m)
{
    struct rimf_copies *copies = m->copies;

    for (size_t i = copies->n; i < copies->n_planned; i++) {
        struct copying c = copying_of(m, i);
        int error = c.analysis
                        ? copy_frames_sorted(&c, m->frames_of[c.object->copy - 1 - copies->n])
                        : -ENODATA;

        if (error)
            return failed(m, &c, error);
        m->report->code += c.copy->size;
    }
    return 0;
}

static int fill(struct making *m)
{
    size_t n = m->copies->n_planned - m->copies->n;
    struct copy_answers *answers = copy_answers_create(m->image, m->n_calls);
    uintptr_t frames = m->frames;
    int error = -ENOMEM;

    m->frames_of = rimf_heap_alloc(&m->image->heap, n * sizeof *m->frames_of);
    if (!m->n_frames)
        frames += copy_frames_described(m->image, frames);
    if (answers && m->frames_of)
        error = fill_objects(m, answers, &frames);
    else
        rimf_fail(m->image, ENOMEM, "there is no memory to copy code");
    if (!error)
        error = fill_table(m);
    rimf_heap_release(&m->image->heap, m->frames_of);
    rimf_heap_release(&m->image->heap, answers);
    m->report->frames = frames - m->frames + m->table - m->table_before;
    return error;
}

static int answer(struct making *m)
{
    const char *why = "nobody tells the C library of copies";

    if (m->image->answers && !m->image->answers(m->image->answers_cookie, &why))
        return 0;
    return rimf_fail(m->image, ENOTSUP, "code cannot be copied: %s", why);
}

/* At home, operands lead to copies: all of them, or none, from number `first` on. */
static int lead_operands(struct making *m, size_t first)
{
    size_t i = first;
    int error = 0;

    while (i < m->copies->n && !error) {
        struct copying c = copying_of(m, i);

        if (copies_is_first(m->copies, i++))
            error = c.analysis ? copy_operands(&c, 0) : -ENODATA;
    }
    if (!error)
        return 0;
    while (i-- > first) {
        struct copying c = copying_of(m, i);

        if (c.analysis && copies_is_first(m->copies, i))
            copy_operands(&c, 1);
    }
    return rimf_fail(m->image, -error, "operands that take addresses cannot be changed");
}

static int make(struct making *m)
{
    struct rimf_copies *copies = m->copies;
    size_t n = copies->n;
    int error = measure(m);

    if (error)
        return error;
    error = open_pages(m);
    if (!error)
        error = fill(m);
    if (!error)
        error = close_pages(m);
    if (!error) { /* from here on addresses in them have a home */
        __atomic_store_n(&copies->n, copies->n_planned, __ATOMIC_RELEASE);
        error = answer(m);
    }
    if (!error)
        error = lead_operands(m, n);
    if (error) {
        __atomic_store_n(&copies->n, n, __ATOMIC_RELEASE);
        take_away(m);
        return error;
    }
    publish_frames(m);
    copy_pages_join(m->image, m->code, m->code_end);
    copies->code_end = m->code_end;
    copies->frames_end = m->frames_end;
    return 0;
}

static void drop_plan(struct mvld_image *image)
{
    struct rimf_copies *copies = image->copies;

    while (copies->n_planned > copies->n)
        copies_drop(image, (struct rimf_object *)copies->list[--copies->n_planned].object);
}

void copies_report(const struct mvld_image *image, const struct rimf_object *object)
{
    int one = object->n_fragments == 1;

    if (!one)
        rimf_log(image->log, MVLD_LOG_PASSES, "%s: %zu fragments of it are copied",
                 object->public.name, object->n_fragments);
    for (size_t i = 0; i < object->n_fragments; i++) {
        const struct rimf_copy *copy = &image->copies->list[object->fragments[i]];

        rimf_log(image->log, one ? MVLD_LOG_PASSES : MVLD_LOG_IMAGE,
                 "%s: %zu bytes at %p are copied to %p%s", object->public.name, copy->code,
                 (void *)copy->home, (void *)copy->at,
                 copy->moved ? ", where their addresses lead" : "");
    }
}

static int commit(struct mvld_image *image, struct mvld_copies_report *report)
{
    struct making m = {.image = image, .copies = image->copies, .report = report};
    struct copy_writing *writing = NULL;
    int error = 0;
    size_t first;

    memset(report, 0, sizeof *report);
    if (!m.copies || m.copies->n_planned == m.copies->n)
        return 0;
    if (rimf_image_is_traced(image))
        error = rimf_fail(image, EBUSY, "a debugger may have breakpoints in the code");
    first = m.copies->n;
    if (!error) {
        writing = copy_identity_plan(image);
        if (writing)
            copy_entries_begin(image);
        error = make(&m);
    }
    if (error) {
        copy_identity_leave(image, writing);
        drop_plan(image);
        memset(report, 0, sizeof *report);
        return error;
    }
    copy_identity_write(image, writing);
    for (size_t i = first; i < m.copies->n && !error; i++) {
        struct copying c = copying_of(&m, i);

        if (!copies_is_first(m.copies, i))
            continue;
        copies_report(image, c.object);
        error = c.analysis ? copy_entries(&c, report) : -ENODATA;
    }
    return error;
}

int rimf_copies_commit(struct mvld_image *image, struct mvld_copies_report *report)
{
    int error = commit(image, report);

    if (image->copies)
        copy_words_release(image);
    return error;
}
