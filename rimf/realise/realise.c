/* SPDX-License-Identifier: MIT
 *
 * rimf/realise/realise.c: after the last pass, writes what passes want into memory.
 *
 *     references         that are wanted elsewhere, each by itself (realise/retarget.c)
 *     calls in place     while a snapshot is made, which holds what becomes of originals
 *     code moves         with the calls in it (moved/batch.c)
 *     calls in place     else: of what did not move
 *     words              that are wanted elsewhere
 *     functions go       that are removed (code/remove.c), wherever they are by then
 *     splices            of the instructions that all this made (realise/splices.c)
 *     sections           are protected (image/sections.c)
 */
#include "rimf/realise/realise.h"

#include "rimf/base/base.h"
#include "rimf/code/code.h"
#include "rimf/emit/calls.h"
#include "rimf/image/edits.h"
#include "rimf/image/image.h"
#include "rimf/moved/moved.h"
#include "rimf/moved/symfile.h"

#include <errno.h> /* numbers only */

/* ---- what became of it ------------------------------------------------------------------------ */

static void report(const struct mvld_image *image, const struct rimf_edit_report *r)
{
    const struct edit_counts *c = &r->all;
    uint32_t category = MVLD_LOG_STATISTICS | MVLD_LOG_PASSES;

    rimf_log(image->log, category,
             "%s: %zu objects, %zu of %zu sites made direct, %zu pages (%zu KB) made private",
             r->ctx->pass, c->objects, c->made, c->sites, c->pages, c->pages * (RIMF_PAGE / 1024));
    for (size_t i = 0; i < r->n_left; i++)
        rimf_log(image->log, category, "%s: %zu sites left: %s", r->ctx->pass, r->left[i].n, r->left[i].why);
}

/* Adds up the object's counts for each pass. */
static void add_up(const struct mvld_image *image, const struct rimf_object *object, int in_moved)
{
    for (struct rimf_edit *edit = rimf_edits_of(image, object); edit; edit = rimf_edit_behind(image, edit)) {
        const struct edit_counts *now = &edit->now;
        struct edit_counts *all = edit->report ? &edit->report->all : NULL;

        if (!all)
            continue;
        all->objects++;
        all->sites += now->sites;
        all->made += now->made;
        all->pages += now->pages;
        if (in_moved)
            rimf_log(image->log, MVLD_LOG_PASSES, "%s: %s: %zu of %zu sites made direct, in its moved code",
                     edit->ctx->pass, object->public.name, now->made, now->sites);
        else
            rimf_log(image->log, MVLD_LOG_PASSES, "%s: %s: %zu of %zu sites made direct, %zu pages made private",
                     edit->ctx->pass, object->public.name, now->made, now->sites, now->pages);
        edit->now = (struct edit_counts){0};
    }
}

/* `format` has a pass, the object, and the reason. */
static void say_left(const struct mvld_image *image, const struct rimf_object *object, const char *format,
                     const char *why)
{
    for (struct rimf_edit *edit = rimf_edits_of(image, object); edit; edit = rimf_edit_behind(image, edit))
        if (edit->report)
            rimf_log(image->log, MVLD_LOG_PASSES, format, edit->ctx->pass, object->public.name, why);
}

/* ---- calls ------------------------------------------------------------------------------------- */

/* Fragments from number `made` of the list on were made with their calls bound as wanted when they moved.
 * Returns a list of the other calls, and makes it the one of `c`.  NULL: no analysis, with a sentence in *why; or
 * out of memory. */
static struct analysis_call *leave_out_moved(struct emit_calls *c, size_t made, const char **why)
{
    const struct analysis *s = rimf_analysis_whole(c->image, c->object, why);
    const struct moved_code *moved = c->image->moved;
    struct analysis_call *left = s ? rimf_heap_alloc(&c->image->heap, c->n_calls * sizeof *left) : NULL;
    size_t n = 0, unit = 0;

    for (size_t i = 0; left && i < c->n_calls; i++) {
        uint32_t address = c->calls[i].address;
        const struct moved_fragment *fragment = moved_fragment_at(moved, c->object, c->object->view.bias + address);

        while (address - s->units[unit].start >= s->units[unit].size)
            unit++; /* the reader saw to it that there is one */
        if (!fragment || (size_t)(fragment - moved->list) < made || s->units[unit].reason != ANALYSIS_PROVEN)
            left[n++] = c->calls[i];
    }
    c->calls = left;
    c->n_calls = n;
    return left;
}

/* The object's calls, and where they are wanted.  0; -ENODATA with a sentence in *why, or NULL: none of its calls is
 * left; or another negative errno with one. */
static int open_calls(struct emit_calls *c, size_t made, struct analysis_call **left, const char **why)
{
    const struct analysis *s = rimf_analysis_calls(c->image, c->object, why);
    int error = 0;

    if (!s)
        return -ENODATA;
    c->calls = s->calls;
    c->n_calls = s->n_calls;
    if (rimf_has_moved(c->image, c->object)) {
        *left = leave_out_moved(c, made, why);
        error = *why ? -ENODATA : !*left ? -ENOMEM : !c->n_calls ? -ENODATA : 0;
    }
    if (!error)
        error = emit_calls_open(c, 0, why);
    return error != -ENOMEM ? error
           : rimf_fail(c->image, ENOMEM, "out of memory for the calls of %s", c->object->public.name);
}

static int emit_in_place(struct mvld_image *image, struct rimf_object *object, size_t made)
{
    /* While a snapshot is made that has its originals changed, nothing has moved yet, and what is learnt relies on no
     * moved code but that of the start. */
    struct emit_calls c = {.image = image, .object = object,
                           .runs_at = image->watch || !image->moved ? NULL : rimf_moved_or};
    struct analysis_call *left = NULL;
    const char *why = object->public.why;
    int error;

    if (!why && object->public.flags & MVLD_OBJECT_UNPLACED)
        why = "it lies elsewhere each time, and is not for a snapshot";
    if (why) {
        say_left(image, object, "%s: %s: left: %s", why);
        return 0;
    }
    error = open_calls(&c, made, &left, &why);
    if (!error)
        error = rimf_calls_change(&c, left != NULL);
    else if (error == -ENODATA && why)
        say_left(image, object, c.calls ? "%s: %s: left: %s" : "%s: no analysis of %s: %s: run mvld analyze", why);
    if (error != -ENODATA)
        add_up(image, object, 0);
    emit_calls_close(&c);
    rimf_heap_release(&image->heap, left);
    return error == -ENODATA ? 0 : error;
}

/* After an error the same would happen for every other object. */
static int emit_all_in_place(struct mvld_image *image, size_t made)
{
    const struct rimf_table *table = rimf_table_enter(image);
    int error = 0;

    for (size_t i = 0; image->reports && i < table->n_objects && !error; i++)
        if (rimf_edit_waits(image, table->objects[i]))
            error = emit_in_place(image, table->objects[i], made);
    rimf_table_leave(image);
    return error;
}

/* Emitted edits are final. */
static void end_edits(struct mvld_image *image)
{
    const struct rimf_table *table = rimf_table_enter(image);
    struct rimf_edit_report **at = &image->reports, *own = NULL;

    for (size_t i = 0; (image->reports || image->n_domains) && i < table->n_objects; i++) {
        if (table->objects[i]->domain.by != image->unfinished)
            table->objects[i]->domain.by = NULL;
        for (struct rimf_edit *edit = rimf_edits_of(image, table->objects[i]); edit;
             edit = rimf_edit_behind(image, edit))
            edit->report = NULL;
    }
    rimf_table_leave(image);
    while (*at) {
        struct rimf_edit_report *next = (*at)->next;

        if ((*at)->ctx == image->unfinished) {
            own = *at;
        } else {
            report(image, *at);
            rimf_heap_release(&image->heap, *at);
        }
        *at = next;
    }
    image->reports = own;
    if (own)
        own->next = NULL;
}

/* ---- code that moves ----------------------------------------------------------------------------- */

static void report_moved(struct mvld_image *image, const struct mvld_context *ctx,
                         const struct rimf_moved_report *r)
{
    uint32_t names = image->moved->names_for;

    rimf_log(image->log, MVLD_LOG_STATISTICS | MVLD_LOG_PASSES,
             "%s: %zu objects, %zu functions, %zu KB of code, %zu KB of unwind tables; "
             "%zu originals begin with a jump to it, %zu that may be entered run where they were mapped",
             ctx->pass, r->objects, r->units, r->code / 1024, r->frames / 1024, r->entries, r->in_place);
    if (names & MVLD_NAMES_DEBUGGERS && moved_names_debug(image, NULL, 0))
        rimf_log(image->log, MVLD_LOG_WARNING, "%s: debuggers find no names: %s", ctx->pass,
                 image->error);
    if (names & MVLD_NAMES_PERF && moved_names_perf(image, NULL, 0))
        rimf_log(image->log, MVLD_LOG_WARNING, "%s: %s", ctx->pass, image->error);
}

static void add_up_moved(struct mvld_image *image, size_t made)
{
    for (size_t i = made; i < image->moved->n; i++)
        if (moved_is_first(image->moved, i))
            add_up(image, image->moved->list[i].object, 1);
}

/* All declared code moves, or none. */
static int emit_moved(struct mvld_image *image)
{
    const struct mvld_context *mover = image->moved->mover;
    size_t made = image->moved->n;
    struct rimf_moved_report moved;
    int error = rimf_moved_commit(image, &moved);

    if (moved.objects)
        report_moved(image, mover, &moved);
    if (!image->watch)
        add_up_moved(image, made);
    image->moved->mover = NULL;
    return error;
}

/* ---- all of it ------------------------------------------------------------------------------------ */

static void fail(struct mvld_image *image, const struct mvld_context *ctx, int error)
{
    if (image->feeder.failed)
        image->feeder.failed(image->feeder.pipeline, ctx, error);
}

/* `emit` makes all of each pass, or none: NULL; or *error and the pass that failed, which loses its own edits only. */
static void emit_each(struct mvld_image *image, const struct mvld_context *(*emit)(struct mvld_image *, int *error),
                      int *failed)
{
    const struct mvld_context *ctx;
    int error;

    while ((ctx = emit(image, &error))) {
        *failed = error;
        fail(image, ctx, error);
        rimf_pass_failed(image, ctx);
    }
}

/* No calls of any pass could be made. */
static void fail_calls(struct mvld_image *image, int error)
{
    for (const struct rimf_edit_report *r = image->reports; r; r = r->next)
        if (r->ctx != image->unfinished)
            fail(image, r->ctx, error);
}

static void emit_moves(struct mvld_image *image, int *failed)
{
    const struct mvld_context *mover = image->moved ? image->moved->mover : NULL;
    int error = mover && mover != image->unfinished ? emit_moved(image) : 0;

    if (!error)
        return;
    *failed = error;
    fail(image, mover, error);
}

int rimf_image_emit(struct mvld_image *image)
{
    size_t made = image->moved ? image->moved->n : 0;
    int failed = 0, error = 0;

    if (image->retargets.n)
        emit_each(image, rimf_retargets_emit, &failed);
    if (image->watch)
        error = emit_all_in_place(image, made);
    emit_moves(image, &failed);
    if (!image->watch)
        error = emit_all_in_place(image, made);
    if (error)
        fail_calls(image, failed = error);
    if (image->retargets.n)
        rimf_retargets_end(image);
    end_edits(image);
    if (image->removals.n)
        emit_each(image, rimf_removals_emit, &failed);
    if (image->splices)
        emit_each(image, rimf_splices_emit, &failed);
    if (image->sections_wanted)
        emit_each(image, rimf_protections_emit, &failed);
    return failed;
}

/* Whether this thread runs the pass; another one may call patch_begin. */
static int is_runner(const struct mvld_image *image)
{
    return image->heap.alone || image->runner == (uint32_t)SYS3(image->sys, SYS_gettid, 0, 0, 0);
}

void rimf_image_emit_before(struct mvld_image *image)
{
    if (image->stage != RIMF_STAGE_RUN || !is_runner(image))
        return;
    image->stage = RIMF_STAGE_NONE;
    rimf_image_emit(image);
    image->stage = RIMF_STAGE_RUN;
}

int rimf_pass_ran(struct mvld_image *image, const struct mvld_context *ctx)
{
    int error = image->removals.n ? rimf_removals_check(image, ctx) : 0;

    error = error ? error : rimf_new_sections_seal(image, ctx);
    error = error || !image->splices ? error : rimf_splices_check(image, ctx);
    error = error || !image->moved ? error : rimf_added_realise(image, ctx, 0);
    if (error)
        rimf_pass_failed(image, ctx); /* all of the pass, or none */
    return error;
}

void rimf_pass_failed(struct mvld_image *image, const struct mvld_context *ctx)
{
    rimf_new_sections_seal(image, ctx); /* patches that it committed stay, and may lead there */
    rimf_image_forget_edits(image, ctx);
    rimf_splices_forget(image, ctx);
    rimf_removals_forget(image, ctx);
    rimf_protections_forget(image, ctx);
    if (image->moved)
        rimf_added_realise(image, ctx, 1);
    if (image->moved && image->moved->mover == ctx) {
        moved_drop_plan(image);
        image->moved->mover = NULL;
    }
}
