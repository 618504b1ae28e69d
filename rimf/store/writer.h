/* SPDX-License-Identifier: MIT
 *
 * rimf/store/writer.h: a frozen image on its way into files; for image_freeze*.c.
 */
#ifndef RIMF_FREEZE_H
#define RIMF_FREEZE_H

#include "store/manifest.h"
#include "image_private.h"

struct writer {
    struct mvld_image *image;
    const struct rimf_table *table;
    uintptr_t base; /* bias of the first object that is not apart */
    uint64_t pipeline, drawn; /* for the header, */
    const char *told;         /* and this, or NULL */
    int folder;
    uint8_t *bytes; /* of the file `image` */
    struct manifest_header *header;
    struct manifest_object *objects;
    struct manifest_text *texts;
    struct manifest_word *words;
    struct manifest_relocations *relocations;
    struct manifest_shift *shifts;
    struct manifest_region *region;
    struct manifest_copy *copies;
    struct sidecar_home *homes;
    struct manifest_pointer *pointers;
    uint8_t *ways; /* enum writer_way, of each of the watch's pointers */
    struct manifest_kept *kept;
    char *names;
    /* The code of a segment; NULL: as it is in memory. */
    const void *(*code_of)(void *cookie, const Elf64_Phdr *);
    void *cookie;
};

/* Who leads a word to a copy when the program starts; in the order of manifest_pointer. */
enum writer_way { WRITER_ADDEND, WRITER_TABLE, WRITER_WORD };

/* "3-libc.so.6" */
void overlay_name(char *to, size_t size, uint32_t index, const struct rimf_object *);
/* Moves bytes to where those before end; where these end. */
uint8_t *writer_pack(uint8_t *to, const void *from, size_t size);
uint32_t writer_index(const struct writer *, const struct mvld_object *);
int write_bytes(const struct rimf_sys *, int fd, const void *from, size_t size, uint64_t at);
/* All of a new file, synced. */
int write_whole(const struct rimf_sys *, int folder, const char *name, const void *bytes,
                 size_t size);
/* Synced, and what tells the file from others.  0, or negative errno. */
int write_finish(const struct rimf_sys *, int fd, struct file_id *);

/* store/write_overlay.c: the file of an object with its code as it is now. */
int write_overlay(struct writer *, uint32_t index);
int write_is_file(const struct rimf_sys *, int fd, const struct file_id *);
/* 1: code may be mapped from files of the open folder. */
int write_may_run(const struct rimf_sys *, int folder);
/* store/write_pointers.c: notes the words that depend on more than which files are loaded, when words were led to copies.
 * 0, or negative errno with a sentence (last_error). */
int write_choices(struct mvld_image *, const struct rimf_table *);
/* 1: the word was led to a copy. */
int writer_is_led(const struct writer *, uintptr_t word);
void writer_set_way(struct writer *, uintptr_t word, enum writer_way);
/* The words that were. */
int write_pointers(struct writer *, const struct rimf_watch *);
/* store/write_moved.c: copies of code (copies.h), when there are any. */
int write_moved(struct writer *);
/* store/write_relocations.c: tables of relocations that need no symbols, behind the copies. */
int write_relocations(struct writer *);
struct symfile;
/* The start of such a file: their names (symfile.h).  0, or negative errno. */
int write_names(struct mvld_image *, const struct symfile *, int fd);

#endif
