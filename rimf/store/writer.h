/* SPDX-License-Identifier: MIT
 *
 * rimf/store/writer.h: a manifest and its overlays while they are written; for write*.c.
 */
#ifndef RIMF_STORE_WRITER_H
#define RIMF_STORE_WRITER_H

#include "rimf/base/cache.h"
#include "rimf/image/private.h"
#include "rimf/store/store.h"

struct writer {
    struct mvld_image *image;
    const struct rimf_table *table; /* objects by number; NULL: they have their numbers */
    uintptr_t base; /* bias of the first placed object */
    int folder;
    size_t room[MANIFEST_TABLES]; /* capacities; the counts of the header grow */
    struct manifest_header *header; /* NULL: no memory yet */
    union {
        void *at[MANIFEST_TABLES];
        struct {
            struct manifest_object *objects;
            struct manifest_text *texts;
            struct manifest_word *words;
            struct manifest_relocations *relocations;
            struct manifest_shift *shifts;
            struct manifest_region *region;
            struct manifest_fragment *fragments;
            struct analysis_fixed *fixed;
            struct manifest_pointer *pointers;
            struct manifest_kept *kept;
            char *names;
        };
    };
    uint8_t *ways; /* enum writer_way, for each of the watch's pointers */
};

/* What writes a word with the address of moved code when the program starts; in the order of
 * manifest_pointer. */
enum writer_way { WRITER_ADDEND, WRITER_TABLE, WRITER_WORD };

/* ---- writer.c ------------------------------------------------------------------------ */

/* Allocates the capacities, and one name, "".  0, or -ENOMEM with a sentence. */
int writer_open(struct writer *);
/* Packs the tables, and sets size and checksum.  Returns the size. */
size_t writer_close(struct writer *);
void writer_release(struct writer *);
uint32_t writer_name(struct writer *, const char *);
/* Adds the object's entry, without overlay and distance; for the vDSO little more than its name. */
struct manifest_object *writer_object(struct writer *, const struct rimf_object *);
/* Sets its overlay's name, such as "3-libc.so.6". */
void writer_name_overlay(struct writer *, struct manifest_object *, uint32_t number, const struct rimf_object *);
/* The object's number, or ~0u. */
uint32_t writer_number(const struct writer *, const struct mvld_object *);
/* Records that the word at `address` points to `value`.  0; -ENOTSUP: not possible. */
int writer_word(struct writer *, uintptr_t address, uintptr_t value);

/* Why the file of the object, which is identified, may change and keep its identity (file_id_unsettled), or
 * NULL: the result of the first query. */
const char *writer_unsettled(const struct mvld_image *, struct rimf_object *);
/* Syncs the file of that name and gets its identity.  0, or negative errno. */
int write_finish(const struct writer *, const char *name, struct file_id *);

/* For a sentence: that there is no room for it, which a user can mend; or "". */
const char *write_full(int error);
/* Returns 1 if code may be mapped from files of the open folder. */
int write_may_run(const struct rimf_sys *, int folder);

/* ---- write_overlay.c -------------------------------------------------------------------- */

/* Writes a file with the object's present code, under that name; and its texts' entries. */
int write_overlay(struct writer *, const struct rimf_object *, uint32_t number, const char *name);
/* Called when all are written: syncs those of the objects from `first` on. */
int write_finish_overlays(struct writer *, uint32_t first);

/* ---- what a start has, too ------------------------------------------------------------- */

/* write_moved.c: records the words that depend on more than the loaded files, if words point to moved
 * code.  0, or negative errno with a sentence (last_error). */
int write_choices(struct mvld_image *, const struct rimf_table *);
/* Returns 1 if the word points to moved code. */
int writer_is_moved(const struct writer *, uintptr_t word);
void writer_set_way(struct writer *, uintptr_t word, enum writer_way);
/* Writes these words. */
int write_pointers(struct writer *);
/* write_moved.c: writes moved code (moved/moved.h) to a new file, which then ends at *end. */
int write_moved(struct writer *, int fd, uint64_t *end);
/* write_relocations.c: writes tables of relocations without symbols, from `offset` on. */
int write_relocations(struct writer *, int fd, uint64_t offset);

#endif
