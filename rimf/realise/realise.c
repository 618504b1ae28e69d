/* SPDX-License-Identifier: MIT
 *
 * rimf/realise/realise.c: edits that passes declared (image/edits.h) become changes: in place when
 * the pass has run, or, where a pass behind it moves code, when that is done.
 */
#include "rimf/realise/realise.h"

#include "rimf/base/base.h"
#include "rimf/code/code.h"
#include "rimf/image/edits.h"
#include "rimf/moved/moved.h"
#include "rimf/moved/symfile.h"
#include "rimf/realise/changes.h"

#include <errno.h> /* numbers only */

static void report(struct mvld_image *image, const struct rimf_edit *edit)
{
    const struct edit_counts *c = &edit->all;
    uint32_t category = MVLD_LOG_STATISTICS | MVLD_LOG_PASSES;

    rimf_log(image->log, category,
             "%s: %zu objects, %zu of %zu sites made direct, %zu pages (%zu KB) made private",
             edit->ctx->pass, c->objects, c->made, c->sites, c->pages,
             c->pages * (RIMF_PAGE / 1024));
    for (size_t i = 0; i < edit->n_left; i++)
        rimf_log(image->log, category, "%s: %zu sites left: %s", edit->ctx->pass, edit->left[i].n,
                 edit->left[i].why);
}

static void add_up(struct rimf_edit *edit)
{
    edit->all.objects++;
    edit->all.sites += edit->now.sites;
    edit->all.made += edit->now.made;
    edit->all.pages += edit->now.pages;
}

static int realise_in_place(struct mvld_image *image, struct rimf_object *object)
{
    struct rimf_edit *edit = object->edit;
    const char *why = object->public.why, *name = object->public.name;
    int error;

    if (!why && object->public.flags & MVLD_OBJECT_UNPLACED)
        why = "it lies elsewhere each time, and is not for a snapshot";
    if (why) {
        rimf_log(image->log, MVLD_LOG_PASSES, "%s: %s: left: %s", edit->ctx->pass, name, why);
        return 0;
    }
    edit->now = (struct edit_counts){0};
    error = rimf_calls_change(image, object, &why);
    if (error == -ENODATA) {
        rimf_log(image->log, MVLD_LOG_PASSES, "%s: no analysis of %s: %s: run mvld analyze",
                 edit->ctx->pass, name, why);
        return 0;
    }
    add_up(edit);
    rimf_log(image->log, MVLD_LOG_PASSES, "%s: %s: %zu of %zu sites made direct, %zu pages made private",
             edit->ctx->pass, name, edit->now.made, edit->now.sites, edit->now.pages);
    return error;
}

static void add_moved(struct mvld_image *image, const struct rimf_object *object)
{
    struct rimf_edit *edit = object->edit;

    edit->now = (struct edit_counts){.sites = object->calls_moved, .made = object->calls_made};
    add_up(edit);
    rimf_log(image->log, MVLD_LOG_PASSES, "%s: %s: %zu of %zu sites made direct, in its moved code",
             edit->ctx->pass, object->public.name, edit->now.made, edit->now.sites);
}

/* After an error no other object would fare better. */
static int realise(struct mvld_image *image, struct rimf_edit *edit)
{
    const struct rimf_table *table = rimf_table_enter(image);
    int error = 0;

    for (size_t i = 0; i < table->n_objects; i++) {
        struct rimf_object *object = table->objects[i];

        int moved = image->has_moved && object->moved;

        if (object->edit != edit)
            continue;
        if (moved)
            add_moved(image, object);
        if (!error && (!moved || object->calls_unmoved))
            error = realise_in_place(image, object);
        object->edit = NULL;
    }
    rimf_table_leave(image);
    report(image, edit);
    return error;
}

static int realise_all(struct mvld_image *image)
{
    int error = 0;

    while (image->edits) {
        struct rimf_edit *edit = image->edits;
        int failed = realise(image, edit);

        error = error ? error : failed;
        image->edits = edit->next;
        rimf_heap_release(&image->heap, edit);
    }
    return error;
}

/* No more code moves: edits that waited for it are realised. */
static void realise_left(struct mvld_image *image)
{
    int error;

    image->has_moved = 1;
    error = realise_all(image);
    image->has_moved = 0;
    if (error)
        rimf_log(image->log, MVLD_LOG_WARNING, "mvld: calls are left as they are (error %d): %s", -error,
                 image->error);
}

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

/* 1: the pass moves code, and what it declared has moved, or *error. */
static int realise_moved(struct mvld_image *image, const struct mvld_context *ctx, int *error)
{
    struct rimf_moved_report report;

    if (!image->moved || image->moved->mover != ctx)
        return 0;
    *error = rimf_moved_commit(image, &report);
    if (report.objects)
        report_moved(image, ctx, &report);
    image->moved->mover = NULL;
    return 1;
}

int rimf_image_realise(struct mvld_image *image, const struct mvld_context *ctx, int moves_later)
{
    int error = rimf_splices_make(image, ctx), moved;

    error = error ? error : rimf_new_sections_seal(image, ctx);
    error = error ? error : rimf_added_realise(image, 0);
    error = error ? error : rimf_retargets_realise(image, ctx);
    error = error ? error : rimf_splices_commit(image, ctx);
    if (error) {
        rimf_image_forget(image, ctx); /* all of the pass, or none */
        return error;
    }
    moved = realise_moved(image, ctx, &error);
    if (moves_later && !image->watch)
        return error;
    if (!moved)
        return realise_all(image);
    realise_left(image);
    return error;
}

void rimf_image_forget(struct mvld_image *image, const struct mvld_context *ctx)
{
    rimf_image_forget_edits(image, ctx);
    rimf_splices_forget(image, ctx);
    rimf_added_realise(image, 1);
    if (image->moved && image->moved->mover == ctx) {
        moved_drop_plan(image);
        image->moved->mover = NULL;
    }
}

void rimf_realise_rest(struct mvld_image *image)
{
    realise_left(image);
    rimf_image_finish(image);
}
