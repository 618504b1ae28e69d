/* SPDX-License-Identifier: MIT
 *
 * rimf/realise/retarget.c: writes references that passes want changed (image/retarget.c) into memory.  All of
 * one pass, or none: if one is impossible, that pass has failed, and the others are started again.
 *
 *     RELRO is opened if it contains a word; each is compared with what it held
 *     the displacements of code are changed as one list (emit/changes.h), and RELRO is closed
 *     words are written when calls were, which are verified by what their slots held
 *
 * A function whose code was moved has its canonical address (rimf_canonical_address).
 */
#include "rimf/realise/realise.h"

#include "rimf/base/base.h"
#include "rimf/emit/changes.h"
#include "rimf/image/edits.h"
#include "rimf/moved/moved.h"

#include <errno.h> /* numbers only */

/* Whether it is valid, and not of the running pass. */
static int is_due(const struct mvld_image *image, const struct rimf_retarget *r)
{
    return r->ctx != image->unfinished && rimf_retarget_counts(image, r);
}

static const struct rimf_retarget *next_due(const struct mvld_image *image, const struct rimf_retarget *r)
{
    const struct rimf_retarget *end = image->retargets.list + image->retargets.n;

    while (r < end && !is_due(image, r))
        r++;
    return r < end ? r : NULL;
}

#define EACH_DUE(r, image) \
    const struct rimf_retarget *r = next_due(image, (image)->retargets.list); r; r = next_due(image, r + 1)

static int refuse(struct mvld_image *image, int error, const struct rimf_retarget *r, const char *why)
{
    image->retargets.refused = r->ctx;
    return rimf_fail(image, error, "%s: the reference at %lx: %s: no reference of the pass is changed",
                     r->object->public.name, (unsigned long)(r->at - r->object->view.bias), why);
}

/* ---- words ----------------------------------------------------------------------------------- */

static int open_words(struct mvld_image *image)
{
    for (EACH_DUE(r, image)) {
        if (r->next)
            continue;
        if (!r->object->relro.open && image->entered && !moved_relro_is_relocated(image, r->object))
            return refuse(image, EBUSY, r, "its object is not relocated yet");
        if (moved_relro_open_one(image, r->object))
            return refuse(image, EACCES, r, "RELRO cannot be written");
        if (*(const uint64_t *)r->at != r->old)
            return refuse(image, ESTALE, r, "it was changed meanwhile");
    }
    return 0;
}

/* They were verified, and none of their code has run since. */
static void write_words(struct mvld_image *image)
{
    for (EACH_DUE(r, image)) {
        if (r->next)
            continue;
        if (moved_relro_open_one(image, r->object))
            rimf_log(image->log, MVLD_LOG_WARNING, "mvld: %s: the reference at %lx: RELRO cannot be written",
                     r->object->public.name, (unsigned long)(r->at - r->object->view.bias));
        else
            __atomic_store_n((uint64_t *)r->at, rimf_canonical_address(image, r->target), __ATOMIC_RELEASE);
    }
}

/* ---- code ------------------------------------------------------------------------------------ */

static void note_refused(void *image_, uintptr_t at)
{
    struct mvld_image *image = image_;
    const struct rimf_retarget *r = rimf_retarget_at(image, at);

    if (r && is_due(image, r) && !image->retargets.refused)
        refuse(image, EBUSY, r, "its bytes cannot be changed now");
}

static int change_code(struct mvld_image *image)
{
    struct changes list = {.image = image};
    int error = 0;

    for (EACH_DUE(r, image)) {
        intptr_t away = (intptr_t)(rimf_canonical_address(image, r->target) - r->next);
        int32_t distance = (int32_t)away;

        if (!r->next || error)
            continue;
        if (distance == away)
            changes_add(&list, r->at, &r->old, &distance, sizeof distance);
        else
            error = refuse(image, ERANGE, r, edit_far);
    }
    if (!error) {
        error = changes_all(&list);
        changes_refused(&list, note_refused, image);
    }
    changes_end(&list);
    return error;
}

/* Writes all of them, or none. */
static int emit(struct mvld_image *image)
{
    int error = open_words(image);

    error = error ? error : change_code(image);
    moved_relro_close(image, rimf_table_enter(image));
    rimf_table_leave(image);
    return error;
}

/* The running pass's wishes for a written place are based on the new content. */
static void renew(struct mvld_image *image)
{
    struct rimf_retargets *all = &image->retargets;

    for (size_t i = 0; i < all->n; i++) {
        struct rimf_retarget *r = &all->list[i];

        r->old = r->next ? *(const uint32_t *)r->at : *(const uint64_t *)r->at;
    }
}

/* Reports how many of a pass were made. */
static void report(const struct mvld_image *image)
{
    const struct rimf_retargets *all = &image->retargets;

    for (size_t i = 0, k; i < all->n && all->list[i].ctx != image->unfinished; i = k) {
        for (k = i; k < all->n && all->list[k].ctx == all->list[i].ctx;)
            k++;
        rimf_log(image->log, MVLD_LOG_PASSES | MVLD_LOG_STATISTICS, "%s: %zu references lead elsewhere",
                 all->list[i].ctx->pass, k - i);
    }
}

const struct mvld_context *rimf_retargets_emit(struct mvld_image *image, int *error)
{
    struct rimf_retargets *all = &image->retargets;

    *error = 0;
    if (!all->n || all->list[0].ctx == image->unfinished)
        return NULL;
    all->refused = NULL;
    *error = emit(image);
    return !*error ? NULL : all->refused ? all->refused : all->list[0].ctx;
}

void rimf_retargets_end(struct mvld_image *image)
{
    struct rimf_retargets *all = &image->retargets;

    if (all->list[0].ctx == image->unfinished)
        return;
    for (size_t i = 0; i < all->n; i++)
        if (all->list[i].target != all->list[i].found)
            rimf_object_note_bound(rimf_object_find(image, all->list[i].target));
    write_words(image);
    moved_relro_close(image, rimf_table_enter(image));
    rimf_table_leave(image);
    report(image);
    rimf_retargets_forget(image, image->unfinished, 1);
    renew(image);
}
