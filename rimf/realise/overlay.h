/* SPDX-License-Identifier: MIT
 *
 * rimf/realise/overlay.h: an overlay alone on its way into a file; for overlay.c and overlay_code.c.
 */
#ifndef RIMF_REALISE_OVERLAY_H
#define RIMF_REALISE_OVERLAY_H

#include "rimf/realise/changes.h"
#include "rimf/store/writer.h"

struct alone {
    struct writer w;
    struct emit_calls *c;
    const struct rimf_object *object;
    enum alone_reach reach;
    size_t size;         /* of the code, in whole pages */
    uintptr_t bias;      /* of an object whose code lies there */
    uint32_t *counts;    /* by way, of calls that are direct, or left */
    const char *why;
};

static inline int alone_refuse(struct alone *a, int error, const char *why)
{
    a->why = why;
    return error;
}

/* It is code of the object. */
int alone_is_inner(const struct alone *, uintptr_t target);
/* A call that leads there may be direct in the file. */
int alone_may_hold(const struct alone *, uintptr_t target);

/* ---- overlay_code.c ---------------------------------------------------------------- */

/* Reads the code from the object's file.  0, or negative errno with a sentence in `why`. */
int alone_code_read(struct alone *);
/* Makes the calls direct there; counts them, or adds them to those that are left. */
int alone_code_make(struct alone *);
void alone_code_forget(struct alone *);

#endif
