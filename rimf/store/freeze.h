/* SPDX-License-Identifier: MIT
 *
 * rimf/store/freeze.h: a frozen image on its way into files; for image_freeze*.c.
 */
#ifndef RIMF_FREEZE_H
#define RIMF_FREEZE_H

#include "rimf/store/frozen.h"
#include "rimf/image/private.h"

struct freeze {
    struct mvld_image *image;
    const struct rimf_table *table;
    uintptr_t base; /* bias of the first object that is not apart */
    uint64_t pipeline, layout_seed; /* for the header, */
    const char *told;         /* and this, or NULL */
    int folder;
    uint8_t *bytes; /* of the file `image` */
    struct frozen_header *header;
    struct frozen_object *objects;
    struct frozen_text *texts;
    struct frozen_word *words;
    struct frozen_relocations *relocations;
    struct frozen_shift *shifts;
    struct frozen_region *region;
    struct frozen_copy *copies;
    struct analysis_home *homes;
    struct frozen_pointer *pointers;
    uint8_t *ways; /* enum freeze_way, of each of the watch's pointers */
    struct frozen_kept *kept;
    char *names;
    /* The code of a segment; NULL: as it is in memory. */
    const void *(*code_of)(void *cookie, const Elf64_Phdr *);
    void *cookie;
};

/* Who leads a word to a copy when the program starts; in the order of frozen_pointer. */
enum freeze_way { FREEZE_ADDEND, FREEZE_TABLE, FREEZE_WORD };

/* "3-libc.so.6" */
void freeze_name(char *to, size_t size, uint32_t index, const struct rimf_object *);
/* Moves bytes to where those before end; where these end. */
uint8_t *freeze_pack(uint8_t *to, const void *from, size_t size);
uint32_t freeze_index(const struct freeze *, const struct mvld_object *);
int freeze_write(const struct rimf_sys *, int fd, const void *from, size_t size, uint64_t at);
/* All of a new file, synced. */
int freeze_whole(const struct rimf_sys *, int folder, const char *name, const void *bytes,
                 size_t size);
/* Synced, and what tells the file from others.  0, or negative errno. */
int freeze_finish(const struct rimf_sys *, int fd, struct file_id *);

/* store/freeze_files.c: the file of an object with its code as it is now. */
int freeze_file(struct freeze *, uint32_t index);
int freeze_is_file(const struct rimf_sys *, int fd, const struct file_id *);
/* 1: code may be mapped from files of the open folder. */
int freeze_may_run(const struct rimf_sys *, int folder);
/* store/freeze_pointers.c: notes the words that depend on more than which files are loaded, when words were led to copies.
 * 0, or negative errno with a sentence (last_error). */
int freeze_choices(struct mvld_image *, const struct rimf_table *);
/* 1: the word was led to a copy. */
int freeze_is_led(const struct freeze *, uintptr_t word);
void freeze_set_way(struct freeze *, uintptr_t word, enum freeze_way);
/* The words that were. */
int freeze_pointers(struct freeze *, const struct rimf_watch *);
/* store/freeze_copies.c: copies of code (moved/moved.h), when there are any. */
int freeze_copies(struct freeze *);
/* store/freeze_relocations.c: tables of relocations that need no symbols, behind the copies. */
int freeze_relocations(struct freeze *);
struct symfile;
/* The start of such a file: their names (symfile.h).  0, or negative errno. */
int freeze_names(struct mvld_image *, const struct symfile *, int fd);

#endif
