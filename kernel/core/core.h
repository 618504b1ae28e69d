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
 * Nothing here includes a kernel's header, so that the same files run in user space, over a stand-in for
 * what platform functions do (tests/kernel).
 *
 * All functions of core.c are called by one thread at a time, which may sleep: kernel/linux holds a mutex
 * around them.  They return 0 or a count, or negative errno with a sentence in mvk_error().
 */
#ifndef MULTIVERSE_KERNEL_CORE_H
#define MULTIVERSE_KERNEL_CORE_H

#include "passes/multiverse/engine/engine.h"

#define MVK_SEGMENTS 6u

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
    int result;               /* 0, or why it is left out: negative errno */
    uint8_t length;
};

/* ---- what the platform supplies */

void *mvk_alloc(size_t size); /* zeroed, or NULL */
void mvk_release(void *);     /* NULL is nothing */
void mvk_log(const char *line);
/* Makes all changes that mvk_verify leaves, by ascending address, at one moment: no processor runs any code
 * between the first and the last.  0; negative errno: none was made. */
int mvk_change_text(struct mvk_change *, size_t n);

/* ---- core.c */

/* Makes the engine.  Once. */
int mvk_start(void);
/* An object came; `object` and its strings stay until mvk_remove.  What the descriptors say is bound as the last
 * operations say.  1: it has descriptors, and is in the list; 0: it has none, or damaged ones.  Negative errno: what
 * could not be bound is generic; mvk_has says whether it is in the list. */
int mvk_add(struct mvk_object *object);
/* It goes: its code must not run any more, its memory is not touched. */
void mvk_remove(struct mvk_object *object);
/* As multiverse_commit and its like.  `what` is NULL for MV_ALL. */
int mvk_apply(enum mv_action action, enum mv_scope scope, void *what);
/* Writes the switch's value and commits what depends on it.  When the commit fails nothing was changed, and the
 * switch has the value before.  -ENOENT: no such switch; -ERANGE: it cannot hold the value. */
int mvk_set(const char *name, int64_t value);
/* Does all code hold what the last operations want of the functions that have variants for this switch?  0: some
 * place was refused, and holds what it held before. */
int mvk_is_settled(const void *variable);
/* Is the object in the list? */
int mvk_has(const struct mvk_object *object);
/* The address of a switch, or NULL. */
void *mvk_find(const char *name);
/* Lines about all switches and functions, then what the last commit of everything left out. */
int mvk_dump(void (*line)(void *cookie, const char *text), void *cookie);
const char *mvk_error(void);
/* What the last operation left out, one a line. */
const char *mvk_report(void);

/* ---- image.c */

struct mvld_image {
    struct mvk_object *objects;
    char error[512];
};
extern const struct mvld_api mvk_api;

/* ---- batch.c */

/* Sorts the changes, and marks those that cannot be made: how many remain?  Where text may change. */
size_t mvk_verify(struct mvk_change *, size_t n);
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
