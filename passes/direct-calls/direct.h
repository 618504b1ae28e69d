/* SPDX-License-Identifier: MIT
 *
 * direct.h: what the files of direct-calls share.
 */
#ifndef DIRECT_DIRECT_H
#define DIRECT_DIRECT_H

#include "mvld/pass.h"

#define DIRECT_REASONS 24u

/* Sites that were left, by reason; of more reasons the rest is counted together. */
struct direct_left {
    const char *why; /* static */
    size_t n;
};

struct direct_counts {
    size_t objects; /* with an analysis */
    size_t sites, made, pages;
    struct direct_left left[DIRECT_REASONS];
    size_t n_left;
};

/* Where calls through one slot lead. */
struct direct_lead {
    uintptr_t slot;  /* 0: nothing is known here */
    uintptr_t entry; /* of the PLT, that is known to jump through it, or 0 */
    uintptr_t target;
    const char *why; /* such calls are left, or NULL */
    int seldom;      /* they are not worth a page at home */
};

/* What an object defines. */
struct direct_holder {
    const struct mvld_object *object; /* NULL: nothing is known here */
    int has_seldom;
};
#define DIRECT_HOLDERS 64u

#define DIRECT_BATCH 2048u

/* What is too much for the stack. */
struct direct_work {
    struct mvld_word words[DIRECT_BATCH]; /* patches that wait, by address */
    uint64_t old[DIRECT_BATCH], made[DIRECT_BATCH];
    size_t n;
};

struct direct {
    const struct mvld_context *ctx;
    struct mvld_calls calls; /* later.c; objects NULL: everything is changed now */
    int leave_rewritable, inlines;
    size_t least; /* calls-per-page */
    struct direct_work *work;
    struct direct_lead *known; /* leads.c */
    struct direct_lead only;   /* when there is no memory for these */
    size_t n_known;            /* places: a power of two, or 0 */
    struct direct_counts counts;
    struct direct_holder holders[DIRECT_HOLDERS]; /* seldom.c; by where they lie */
    /* of the object under way */
    const struct mvld_object *object;
    size_t sites, made, pages;
    uintptr_t last_page;
    int may_inline; /* functions of a single instruction of this object */
    int error; /* of a commit: the pass ends */
};

/* leads.c: of the object's calls through `slot`, as far as the slot tells. */
void direct_judge(struct direct *, uintptr_t slot, struct direct_lead *);
/* Why such calls stay as they are at home, or NULL. */
const char *direct_left_for(const struct direct_lead *);
/* The same, for who asks again and again. */
const char *direct_stays(struct direct *, uintptr_t slot);
/* Where a call of the object through `slot` is certain to end, which names `leads`: the
 * slot, or an entry of the PLT.  NULL, or why such calls are left. */
const char *direct_lead(struct direct *, uintptr_t leads, uintptr_t slot, uintptr_t *target);
/* Another object is under way. */
void direct_leads_forget(struct direct *);

/* seldom.c: 1 when a function of this name is called once, or by what does not return. */
int direct_is_seldom(const char *name);
/* 0: the object defines no such function. */
int direct_has_seldom(struct direct *, const struct mvld_object *);

/* objects.c: makes the calls of one object direct.  0, or negative errno with a sentence. */
int direct_object(struct direct *, const struct mvld_object *);
/* Another object is under way. */
void direct_begin(struct direct *, const struct mvld_object *);
/* So many more calls were left. */
void direct_leave(struct direct *, const char *why, size_t n);

/* later.c: leaves the calls of these objects, which it takes over from api->alloc, to their
 * copies, when a pass behind this one makes some.  1: it owns `d` now; 0. */
int direct_later(struct direct *d, const struct mvld_object **objects, size_t n);

/* pass.c: says what was done, and releases `d`. */
void direct_end(struct direct *d);

#endif
