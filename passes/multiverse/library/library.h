/* SPDX-License-Identifier: MIT
 *
 * library.h: shared by the files of libmultiverse.
 */
#ifndef MULTIVERSE_LIBRARY_H
#define MULTIVERSE_LIBRARY_H

#include "passes/multiverse/engine/engine.h"

struct dl_phdr_info;
struct link_map;

/* The engine, made when there is none.  NULL with errno and, but for memory, a sentence.  link.c */
struct mv_engine *mv_engine_get(void);

/* Visits all switches and functions, with the engine's lock held.  0; or -1 with errno.  api.c */
int mv_each(void (*visit)(void *cookie, const struct mv_item *), void *cookie);

/* Sets errno and the sentence of multiverse_error(); -1.  api.c */
int mv_failed(int err, const char *text);

/* Pieces of code; `error`: errno of what could not be added. */
struct mv_range {
    uintptr_t start;
    size_t size;
};
struct mv_ranges {
    struct mv_engine *engine;
    struct mv_range *at;
    size_t n;
    int error;
};
/* old.c */
void mv_ranges_add_old(void *ranges, const struct mv_old *);
/* What operations replaced, and that nobody is there any more.  0; or -1 with errno.  api.c */
int mv_each_old(struct mv_ranges *, uint64_t *operation);
int mv_old_is_left(uint64_t operation);

/* stacks.c: where threads stand. */
struct mv_stacks {
    struct mv_ranges old;
    uintptr_t restorers[4]; /* where signals' handlers return to */
    size_t n_restorers;
    char *maps;
    int memory; /* /proc/thread-self/mem: what is unmapped meanwhile is an error, and no crash */
};
/* 0; or -1: /proc cannot be read.  The second one lists the mappings again. */
int mv_stacks_open(struct mv_stacks *);
int mv_stacks_list(struct mv_stacks *);
void mv_stacks_close(struct mv_stacks *);
/* 1: the program counter, or something on the stack, is old code's; or the stack cannot be read. */
int mv_stacks_stands(const struct mv_stacks *, uintptr_t pc, uintptr_t sp);
char *mv_read_file(const char *path); /* to be freed; NULL: it cannot be read */

/* Lists the objects of the process with dl_iterate_phdr and brings image and
 * engine up to date.  0, or negative errno.  objects.c */
int mv_library_refresh(struct mv_engine *);
const void *mv_library_dynamic(const struct dl_phdr_info *);

/* Pins the objects that the engine may touch, for one call.  Called without the engine's lock.  0,
 * or negative errno.  pins.c */
int mv_pins_take(struct mv_engine *, struct mv_reply *);
void mv_pins_drop(struct mv_reply *);
void mv_pins_before_fork(void);
void mv_pins_after_fork(int in_child);

/* Returns the link map in a child of fork in which dl_iterate_phdr would wait for
 * ever, or dlopen would end the process; else NULL. */
const struct link_map *mv_list_lost(void);
void mv_list_prepare(void); /* once, before any child */
/* dl_iterate_phdr without those that the program or a preloaded library put in its place. */
int mv_list_each(int (*with)(struct dl_phdr_info *, size_t, void *), void *cookie);

/* This thread's reply, or NULL if it has none; mv_reply_make makes it, or sets errno; the third
 * returns a reply that says that there was no memory for one.  link.c */
struct mv_reply *mv_reply_mine(void);
struct mv_reply *mv_reply_make(void);
int mv_reply_missing(void);
/* Gives the thread another reply and keeps the present one.  1, or 0: it has another already, or
 * there is no memory. */
int mv_reply_begin(void);
void mv_reply_end(void);

#endif
