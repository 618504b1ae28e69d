/* SPDX-License-Identifier: MIT
 *
 * rimf/realise/realise.c: edits that passes declared (image/edits.h) become changes: in place when
 * the pass has run, or, where a pass behind it moves code, when that is done.
 */
#include "rimf/realise/realise.h"

#include "rimf/base/base.h"
#include "rimf/image/edits.h"
#include "rimf/moved/moved.h"
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
        why = "it lies elsewhere each time, and is not for a frozen image";
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

    edit->now = (struct edit_counts){.sites = object->calls_copied, .made = object->calls_made};
    add_up(edit);
    rimf_log(image->log, MVLD_LOG_PASSES, "%s: %s: %zu of %zu sites made direct, in its copy",
             edit->ctx->pass, object->public.name, edit->now.made, edit->now.sites);
}

/* After an error no other object would fare better. */
static int realise(struct mvld_image *image, struct rimf_edit *edit)
{
    const struct rimf_table *table = rimf_table_enter(image);
    int error = 0;

    for (size_t i = 0; i < table->n_objects; i++) {
        struct rimf_object *object = table->objects[i];

        int moved = image->calls_home && object->copy;

        if (object->edit != edit)
            continue;
        if (moved)
            add_moved(image, object);
        if (!error && (!moved || object->calls_at_home))
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

int rimf_image_realise(struct mvld_image *image, const struct mvld_context *ctx, int moves_later)
{
    int error = rimf_new_sections_seal(image);

    error = error ? error : rimf_retargets_realise(image, ctx);
    if (error)
        rimf_image_forget_edits(image, ctx); /* all of the pass, or none */
    return error || (moves_later && !image->watch) ? error : realise_all(image);
}

/* No more code moves: edits that waited for it are realised. */
static void finish_edits(struct mvld_image *image)
{
    int error;

    image->calls_home = 1;
    error = realise_all(image);
    image->calls_home = 0;
    if (error)
        rimf_log(image->log, MVLD_LOG_WARNING, "mvld: calls are left as they are (error %d): %s", -error,
                 image->error);
}

int rimf_realise_moved(struct mvld_image *image, struct mvld_copies_report *report)
{
    int error = rimf_copies_commit(image, report);

    finish_edits(image);
    return error;
}

void rimf_realise_rest(struct mvld_image *image)
{
    finish_edits(image);
    rimf_image_finish(image);
}
