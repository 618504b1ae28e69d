/* SPDX-License-Identifier: MIT
 *
 * rimf/store/later.h: what a program with a frozen image (frozen.h) loads after its start: the
 * objects of dlopen, learnt from earlier runs.
 *
 * Beside `image`, in the same folder, lies
 *
 *     later             this format: which objects came by dlopen, where, what changed
 *     17-_json.so …     copies of these files, changed, as for those of the start
 *     17-_json.so.code …   copies of their code (moved/moved.h), if any, and how that unwinds
 *     later-table-9     the table that unwinders search, of all copies, if any
 *
 *     +--------+---------+-------+-------+-------+-------+
 *     | header | objects | texts | words | homes | names |
 *     +--------+---------+-------+-------+-------+-------+
 *
 * It belongs to one `image`, by that file's checksum, and counts on: the objects of the
 * image have the numbers 0 … n_start - 1, the i-th here has n_start + i.  What is unplaced has none
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
 * COPIES OF CODE lie in the region at fixed places, too, behind those of the start.  A process
 * JOINS them before it copies anything itself: it leaves these places free, with one entry for
 * each in its list of copies, and maps the table, which is that of the start with the entries of
 * all of them behind it.  So when one comes, nothing is left to be sorted in: its code and its
 * frames are mapped, its entry gets its size, its home is laid over, and words lead to it; when
 * it goes, the size is 0 again and its code a hole.  An entry of the table whose code is not
 * there describes what nobody runs.
 *
 * A copy calls those of the start, which are there whenever this list is used, and its own
 * object's.  Of other objects that came by dlopen it calls the home, where the jump to the copy
 * is, if that is there.  So here, too, each object comes by itself.
 *
 * IDENTITY.  Frozen code takes the addresses of its own functions as was decided when it was
 * learnt (`moved`, `homes`).  So that must hold again: words that cannot be written must not hold
 * other ones (moved/fixed.c).  The words themselves are not listed: with all copies of one dlopen in
 * place each relocated word of its objects is looked at, as in the process.  What came with
 * them and is copied in the process keeps its addresses at home, because by then words were led.
 *
 * Not learnt are copies in several pieces, and those of objects with functions that answer for
 * addresses (the loader's caller/hooks.c), which are changed before anything is laid over.  A
 * process that learns takes copies only of a batch that it knows all of.  Debuggers have no
 * names of them; perf has, from the file.
 */
#ifndef RIMF_LATER_H
#define RIMF_LATER_H

#include "rimf/moved/moved.h"
#include "rimf/store/frozen.h"

#define LATER_MAGIC "MVLDlatr"
#define LATER_VERSION 3u
#define LATER_FILE "later"
#define LATER_OBJECTS_MAX 1024u

#define LATER_TABLE LATER_FILE "-table-%u" /* objects */

/* The table of all copies, and what of the region they take: offsets from where its code and
 * its frames begin. */
struct later_table {
    struct file_id file; /* all 0: there are no copies */
    uint64_t hash;                /* of its pages */
    uint64_t code, frames;         /* where those of the start end, */
    uint64_t code_end, frames_end; /* and where these do */
    uint32_t n_start, n;           /* entries: of the start, and all */
    uint32_t name, zero;           /* in names */
};

struct later_header {
    char magic[8] FROZEN_BYTES;
    uint32_t version, header_size;
    uint64_t size;     /* of the file */
    uint64_t checksum; /* of the file, with 0 in this place */
    uint64_t image;    /* the checksum of the image that it belongs to */
    uint32_t n_start;  /* objects of that image */
    uint32_t n_objects, n_texts, n_words, n_homes, names_size;
    struct later_table table;
};

/* A copy of an object's code, and of its unwind tables (moved/moved.h). */
struct later_code {
    struct file_id file; /* all 0: there is none */
    uint64_t hash;                /* of the pages of both */
    uint64_t at, frames;          /* offsets in the region, as above */
    uint64_t offset;              /* of the code's pages in the file; those of the frames follow */
    uint32_t original;                /* as linked, */
    uint32_t code, size;          /* struct moved_fragment, */
    uint32_t frames_size;
    uint32_t flags, n_homes; /* and its homes, behind those of the objects before */
    uint32_t name, zero;     /* in names */
};

struct later_object {
    struct file_id file;
    struct file_id copy; /* all 0: its code was not changed */
    uint64_t build_id;            /* rimf_hash of it; 0: none */
    int64_t distance;             /* its bias minus that of the first object of the start */
    uint64_t linked, length;      /* its memory, in whole pages, as linked */
    uint32_t name;                /* path, in names; for people */
    uint32_t copy_name;           /* in names: the file in the folder, "" when none */
    uint32_t n_texts, n_words;    /* behind those of the objects before */
    struct later_code code;
};

/* A checked view into the bytes. */
struct later {
    const struct later_header *header;
    const struct later_object *objects;
    const struct frozen_text *texts; /* .object is a number in `objects` */
    const struct frozen_word *words; /* .object, .to_object count from the start's first */
    const struct analysis_home *homes;
    const char *names;
};

/* As frozen_open. */
int later_open(struct later *, const void *bytes, size_t size, const char **why);

struct later_file {
    struct later view;
    void *map; /* NULL: there is none */
    size_t size;
};

/* Opens `later` in the folder, as frozen_map does. */
int later_map(struct later_file *, const struct rimf_sys *, int folder, uint32_t user,
              const char **why);
void later_unmap(struct later_file *, const struct rimf_sys *);

/* ---- over an image (store/thaw_later.c, store/learn.c) -------------------------------- */

/* The image's start was thawed, or frozen, with this checksum: 1, else 0. */
int rimf_later_fits(const struct mvld_image *, const struct later *);
/* Where the i-th object should be mapped. */
uintptr_t rimf_later_place(const struct mvld_image *, const struct later *, uint32_t i);
/* Its number, or -1. */
long rimf_later_find(const struct later *, const struct file_id *);

/* Takes the places of all copies of code.  Once, before the first of them is wanted.  0, or
 * negative errno with a sentence (static) in *why: objects with copies are not thawed. */
int rimf_later_join(struct mvld_image *, const struct later *, int folder, uint32_t user,
                    const char **why);

/* What comes by one dlopen. */
struct later_batch {
    struct mvld_image *image;
    const struct later *later;
    int folder;
    uint32_t user;
    /* Of these files: */
    struct moved_writing *writing; /* words can be led to copies; NULL: */
    const char *no_copies;        /* why not */
    struct fixed_addresses pins;
    size_t n_copies; /* that came */
};

/* Notes which of these objects are listed and lie where they should: words may lead to
 * them.  0, or negative errno with a sentence (static) in *why: none of them may be thawed,
 * and there is nothing to end. */
int rimf_later_begin(struct later_batch *, const struct mvld_object *const *objects, size_t n,
                     const char **why);
/* Maps the copy of one object's code, if it has one, and lays the frozen text over its own.  The
 * number of texts; 0: it has none here; or negative errno with a sentence (static) in *why. */
long rimf_later_thaw(struct later_batch *, const struct mvld_object *, const char **why);
/* Words lead to the copies. */
void rimf_later_end(struct later_batch *);
/* The object is gone: its copy, if it came from here, makes room for the next time. */
void rimf_later_forget(struct mvld_image *, const struct mvld_object *);

/* The object does not lie where it would lie again: passes must leave it as it is. */
void rimf_image_set_unplaced(const struct mvld_object *);
/* Adds what passes did to these, while the image watched (rimf_image_watch), to `later` in the
 * open folder, and forgets what was noted.  Who asks holds the lock of the cache, or says in `refusal` why
 * nothing can be added.  How many objects were added, or negative errno with a sentence (last_error). */
long rimf_image_learn(struct mvld_image *, int folder, uint32_t user,
                      const struct mvld_object *const *, size_t n, const char *refusal);

#endif
