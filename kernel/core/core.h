/* SPDX-License-Identifier: MIT
 *
 * core.h: the multiverse engine as a kernel has it.
 *
 * Picture
 *
 *     kernel/linux (GPL-2.0)      core.c ──► passes/multiverse/engine, unchanged
 *       vmlinux, modules ────────►  │              │ struct mvld_api
 *       debugfs, CPU hotplug        │              ▼
 *       mvk_change_text ◄──────── batch.c ◄──── image.c: objects, memory, sentences
 *
 * Nothing here includes a kernel's header, so that the same files run in user space, with other platform
 * functions (tests/kernel).
 *
 * All functions of core.c are called by one thread at a time, which may sleep: kernel/linux holds a mutex
 * around them.  They return 0 or a count, or negative errno with a sentence in mvk_error().
 */
#ifndef MULTIVERSE_KERNEL_CORE_H
#define MULTIVERSE_KERNEL_CORE_H

#include "passes/multiverse/engine/engine.h"

#define MVK_SEGMENTS 6u
/* Of a segment, beside PROT_WRITE: it is written only until the kernel, or the module, has started. */
#define MVK_READ_ONLY_LATER 0x100u

/* Where an object's descriptors are. */
struct mvk_tables {
    uintptr_t functions, functions_end, callsites, callsites_end, switches, switches_end;
};

/* vmlinux, or a module. */
struct mvk_object {
    struct mvld_object object; /* first: the engine hands it back */
    struct mvk_object *next;
    struct mvld_segment segments[MVK_SEGMENTS];
    struct mvk_tables tables;
};

/* Up to 8 bytes of code that become others. */
struct mvk_change {
    uintptr_t address; /* first: see rimf_sort */
    uint64_t expect, replace; /* the first byte is the lowest */
    uint32_t index;           /* by the order of addition */
    int16_t result;           /* 0, or why it is left out: negative errno */
    uint8_t length;
};

/* ---- what the platform supplies */

void *mvk_alloc(size_t size); /* zeroed, or NULL */
void mvk_release(void *);     /* NULL is nothing */
void mvk_log(const char *line);
/* Makes all changes that mvk_verify has not refused, by ascending address, at one moment: no processor runs
 * any code between the first and the last.  0; negative errno: none was made. */
int mvk_change_text(struct mvk_change *, size_t n);
/* Sets the results as mvk_change_text would, and changes nothing. */
void mvk_check_text(struct mvk_change *, size_t n);

/* Is there a place that others change, but for NOPs of a jump's length, or that they know by its address?  Then a copy
 * would not do the same. */
int mvk_tied_to_address(uintptr_t code, size_t size);

/* Where code jumps to instead of a return, if it does, or 0. */
uintptr_t mvk_return_thunk(void);

/* ---- core.c */

/* Makes the engine.  Once. */
int mvk_start(void);
/* Adds an object; whatever is returned, it and its strings must remain until mvk_remove.  Its descriptors
 * are bound as the last operations ask.  1: it has descriptors, and is in the list; 0: it has none, or
 * damaged ones.  Negative errno: functions that could not be bound are generic; mvk_has tells whether the
 * object is in the list. */
int mvk_add(struct mvk_object *object);
/* Removes an object, and what was refused of it: its code must not run any more; its memory is not touched. */
void mvk_remove(struct mvk_object *object);
/* As multiverse_commit and its like.  `what` is NULL for MV_ALL. */
int mvk_apply(enum mv_action action, enum mv_scope scope, void *what);
/* Writes the switch's value and commits its functions.  If the commit fails, nothing is changed, and the
 * switch has its old value.  -EINVAL: no switch; -ERANGE: it cannot hold the value; -EPERM: it is, or may become
 * meanwhile, read-only. */
int mvk_set(void *variable, int64_t value);
/* Returns 1 if the last operations have bound all sites of the functions that have variants for this
 * switch; 0: some site was refused, and keeps its former bytes. */
int mvk_is_settled(const void *variable);
/* Is the object in the list? */
int mvk_has(const struct mvk_object *object);
/* Finds the switch of this name: 0; -ENOENT: there is none; -ENOTUNIQ: several. */
int mvk_find(const char *name, void **variable);
/* Lines about all switches and functions, then the refusals of the last commit of everything. */
int mvk_dump(void (*line)(void *cookie, const char *text), void *cookie);
/* Lines about each function: its variants with what they ask, its entry and its calls with what is in them and, where a
 * change was refused, what is in its way.  `at` is the code that a line is about, or 0. */
int mvk_list(void (*line)(void *cookie, uintptr_t at, const char *text), void *cookie);
const char *mvk_error(void);
/* Refusals of the last operation, one a line. */
const char *mvk_report(void);

/* ---- list.c: as mvk_list */

int mvk_list_places(struct mv_engine *, void (*line)(void *cookie, uintptr_t at, const char *text), void *cookie);

/* ---- image.c */

struct mvld_image {
    struct mvk_object *objects;
    char error[512];
};
extern const struct mvld_api mvk_api;

/* ---- batch.c */

/* Sorts the changes, and marks those that cannot be made.  Only where text may change. */
void mvk_verify(struct mvk_change *, size_t n);
/* The aligned word of 8 bytes that holds the change, and what it becomes. */
static inline uintptr_t mvk_word_of(const struct mvk_change *change)
{
    return change->address & ~(uintptr_t)7;
}
static inline uint64_t mvk_merge(const struct mvk_change *change, uint64_t word)
{
    unsigned shift = 8 * (change->address & 7);
    uint64_t mask = UINT64_MAX >> (64 - 8 * change->length) << shift;

    return (word & ~mask) | change->replace << shift;
}

struct mvld_batch *mvk_patch_begin(struct mvld_image *);
int mvk_patch_add(struct mvld_batch *, uintptr_t address, const void *expect, const void *replace, size_t length);
int mvk_patch_add_words(struct mvld_batch *, uintptr_t base, const struct mvld_word *, const uint64_t *expect,
                        const uint64_t *replace, size_t n);
int mvk_patch_commit(struct mvld_batch *, struct mvld_patch_report *);
const struct mvld_patch *mvk_patch_at(const struct mvld_batch *, size_t index);
void mvk_patch_end(struct mvld_batch *);

#endif
