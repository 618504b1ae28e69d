/* SPDX-License-Identifier: MIT
 *
 * rimf/store/later.h: what a program with a frozen image (store/manifest.h) loads after its start: the
 * objects of dlopen, learnt from earlier runs.
 *
 * Beside `image`, in the same folder, lies
 *
 *     later             this format: which objects came by dlopen, where, what changed
 *     17-_json.so …     copies of these files, changed, as for those of the start
 *
 *     +--------+---------+-------+-------+-------+
 *     | header | objects | texts | words | names |
 *     +--------+---------+-------+-------+-------+
 *
 * It belongs to one `image`, by that file's checksum, and counts on: the objects of the
 * image have the numbers 0 … n_start - 1, the i-th here has n_start + i.  What lies apart has none
 * (but for an executable at a fixed address), so that nothing is learnt that leads there.
 *
 * HOW IT IS LEARNT.  A process that learns (`mvld build --run`, on-miss = learn) treats
 * what comes by dlopen itself; then it adds the whole batch to the file, before any of its
 * code runs.  The file is written aside and renamed; the lock of the cache (cache.h) makes learners
 * one at a time, and each reads anew what others have added, and removes what a killed one has left.
 * Numbers stay what they are.  An object without changed code stands here too, because
 * words of others may lead to it.
 *
 * HOW IT IS USED.  The loader asks for the place of a file while the host loader maps it,
 * and gives it that place when it is free; all other objects go elsewhere.  When the
 * object is relocated, and before its constructors, its text is laid over when
 *   - it is the same file, at the same distance from the objects of the start;
 *   - each word that its changes relied on leads to the same place of the same object,
 *     those of objects that are here included.
 * Each object by itself: in which order they come, and which do not, is no matter, as
 * long as the words agree.  That is all that a direct call says: where a slot leads that
 * the host loader has filled.  What does not fit is treated in the process, as if nothing
 * had been learnt.
 *
 * Code that moved (copies.h) is learnt as an object without changes: the process makes such copies itself.
 */
#ifndef RIMF_LATER_H
#define RIMF_LATER_H

#include "store/manifest.h"

#define LATER_MAGIC "MVLDlatr"
#define LATER_VERSION 4u
#define LATER_FILE "later"
#define LATER_OBJECTS_MAX 1024u

struct later_header {
    char magic[8] MANIFEST_BYTES;
    uint32_t version, header_size;
    uint64_t size;     /* of the file */
    uint64_t checksum; /* of the file, with 0 in this place */
    uint64_t image;    /* the checksum of the image that it belongs to */
    uint32_t n_start;  /* objects of that image */
    uint32_t n_objects, n_texts, n_words, names_size, zero;
};

struct later_object {
    struct file_id file;
    struct file_id copy; /* all 0: its code was not changed */
    uint64_t build_id;            /* sidecar_hash of it; 0: none */
    int64_t distance;             /* its bias minus that of the first object of the start */
    uint64_t linked, length;      /* its memory, in whole pages, as linked */
    uint32_t name;                /* path, in names; for people */
    uint32_t copy_name;           /* in names: the file in the folder, "" when none */
    uint32_t n_texts, n_words;    /* behind those of the objects before */
};

/* A checked view into the bytes. */
struct later {
    const struct later_header *header;
    const struct later_object *objects;
    const struct manifest_text *texts; /* .object is a number in `objects` */
    const struct manifest_word *words; /* .object, .to_object count from the start's first */
    const char *names;
};

/* As manifest_open. */
int later_open(struct later *, const void *bytes, size_t size, const char **why);

struct later_file {
    struct later view;
    void *map; /* NULL: there is none */
    size_t size;
};

/* Opens `later` in the folder, as manifest_map does. */
int later_map(struct later_file *, const struct rimf_sys *, int folder, uint32_t user,
              const char **why);
void later_unmap(struct later_file *, const struct rimf_sys *);

/* ---- over an image (store/apply_later.c, store/write_later.c) -------------------------------- */

/* The image's start was thawed, or frozen, with this checksum: 1, else 0. */
int rimf_later_fits(const struct mvld_image *, const struct later *);
/* Where the i-th object should be mapped. */
uintptr_t rimf_later_place(const struct mvld_image *, const struct later *, uint32_t i);
/* Its number, or -1. */
long rimf_later_find(const struct later *, const struct file_id *);

/* What comes by one dlopen. */
struct later_batch {
    struct mvld_image *image;
    const struct later *later;
    int folder;
    uint32_t user;
};

/* Notes which of these objects are listed and lie where they should: words may lead to
 * them.  0, or negative errno with a sentence (static) in *why: none of them may be thawed. */
int rimf_later_begin(struct later_batch *, const struct mvld_object *const *objects, size_t n,
                     const char **why);
/* Lays the frozen text over the object's own.  The number of texts; 0: it has none here; or negative
 * errno with a sentence (static) in *why. */
long rimf_later_apply(struct later_batch *, const struct mvld_object *, const char **why);

/* The object does not lie where it would lie again: passes must leave it as it is. */
void rimf_image_set_apart(const struct mvld_object *);
/* Adds what passes did to these, while the image watched (rimf_image_watch), to `later` in the
 * open folder, and forgets what was noted.  Who asks holds the lock of the cache, or says in `refusal` why
 * nothing can be added.  How many objects were added, or negative errno with a sentence (last_error). */
long rimf_later_write(struct mvld_image *, int folder, uint32_t user,
                      const struct mvld_object *const *, size_t n, const char *refusal);

#endif
