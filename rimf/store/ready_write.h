/* SPDX-License-Identifier: MIT
 *
 * rimf/store/ready_write.h: ready code of an object on its way into a file; for store/ready_code.c and
 * store/ready_write.c.
 */
#ifndef RIMF_IMAGE_READY_WRITE_H
#define RIMF_IMAGE_READY_WRITE_H

#include "rimf/base/cache.h"
#include "rimf/realise/changes.h"

#include <sys/mman.h> /* numbers only */

#define READY_PATH_SIZE 1024u

struct writing {
    struct mvld_image *image;
    struct changing *c;
    const struct rimf_object *object;
    enum ready_reach reach;
    uint64_t key;
    const struct rimf_object *program; /* whose all calls are; or NULL */
    uint32_t start, end; /* of the code, as linked; whole pages */
    uint8_t *code;
    uintptr_t bias;      /* of an object whose code lies there */
    uint8_t *tables;
    struct ready_header *header;
    struct frozen_text *texts;
    struct analysis_call *rest;
    uint32_t *counts;    /* by way, of calls that are direct, or that nobody will go on with */
    const struct analysis_place *place;
    char path[READY_PATH_SIZE], name[sizeof CACHE_UNFINISHED]; /* of the file, and until it is complete */
    const char *why;
};

static inline int ready_refuse(struct writing *w, int error, const char *why)
{
    w->why = why;
    return error;
}

/* A call that leads there may be direct in the file. */
static inline int ready_may_hold(const struct writing *w, uintptr_t target)
{
    return w->reach == READY_ALL ||
           elf_holds(&w->object->view, target, 1, PROT_READ | PROT_EXEC);
}

/* ---- store/ready_code.c ---------------------------------------------------------------- */

/* Reads the code from the object's file.  0, or negative errno with a sentence in w->why. */
int ready_code_read(struct writing *);
/* Makes the calls direct there; counts them, or adds them to `rest`. */
int ready_code_make(struct writing *);
void ready_code_forget(struct writing *);

#endif
