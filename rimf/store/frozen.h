/* SPDX-License-Identifier: MIT
 *
 * rimf/store/frozen.h: a frozen image: the code of one program as its passes left it, for
 * all later processes to map.
 *
 * A pass that changes thousands of call sites costs each process a private copy of
 * the pages and the time to write them.  But the loader decides where libraries go:
 * their distances follow from the order of the files, and from a number that is drawn for
 * each image, so they are the same in every process that loads the same files in the
 * same order and has the number.  Changed code holds distances and no addresses; so it is
 * the same bytes everywhere.  It is written once, to a folder:
 *
 *     image             this format: what was loaded, what changed, what it relied on
 *     0-bash, 3-libc.so.6 …   copies of the files whose code was changed, changed
 *
 * The copies are whole ELF files, and a text segment is mapped from the same offset
 * of the copy: so whoever meets the copy's name in /proc/PID/maps or in a perf
 * recording finds symbols, build-id and unwinding tables there, all true.
 *
 *     concat.so         copies of code in a region of their own (moved/moved.h), if any
 *     relocations       pages of tables of relocations, if any (see below); where there are copies
 *                       these pages lie behind them, in concat.so, and a start opens one file
 *
 *     +--------+---------+-------+-------+-------------+--------+--------+
 *     | header | objects | texts | words | relocations | shifts | region |  …
 *     +--------+---------+-------+-------+-------------+--------+--------+
 *         +--------+-------+----------+------+-------+
 *      …  | copies | homes | pointers | kept | names |
 *         +--------+-------+----------+------+-------+
 *
 * WHEN IT IS THAWED.  When all of this holds, and else not at all:
 *   - as many objects, in the same order, each mapped from the same file (file_id.h, and
 *     build-id);
 *   - at the same distances from each other, except those that are APART: an executable at
 *     a fixed address, which has other distances to its libraries in each process, a
 *     library that is aligned to more than the arena is, and the vDSO.  They have no copy,
 *     and no copy holds a distance to them.  A word may well lie in one or lead to one: it
 *     is compared with where they are now;
 *   - every word that a change relied on (the GOT slot of a call that became direct)
 *     points to the same place of the same object.  So whatever decided where calls go
 *     (preloaded libraries, symbol versions, CPU features, tunables) need not be
 *     known: what it decided is compared;
 *   - the copies are the files that were written.
 * No object moves: a text is laid over the text of the same object, and if one of them
 * cannot be mapped, those that were are still right, because the direct calls in them
 * lead to places that are the same in either.
 *
 * Copies of code come first, while nothing leads to them, and the C library's questions
 * about them are answered; only then the texts, in which functions begin with jumps to
 * their copies, and first those with the functions that answer: jumps of the loader's are in
 * them too.  The functions that answer, which take longest to find, are those that were
 * found before (`kept`), as long as the files are the same.  When the copies or the answers fail,
 * the region is as it was, and no text is laid over.
 *
 * IDENTITY.  A function's address is that of its copy, here as in the process that made the
 * image (moved/moved.h): the operands of frozen code that take it hold distances, and lead there by
 * themselves.  Relocated words hold addresses.  So the image lists each word that was led to a copy
 * then (`pointers`), in objects that are unplaced, too, because what it leads to does not; and
 * `homes`, the code whose addresses stay.  Who leads it there now:
 *
 *     relocation itself  by a table that holds the copy's address, or in DT_RELR's way, by an addend
 *                        that is changed just before (frozen_lay.c)
 *     a resolver         of an IFUNC; a table has its copy called, which returns copies
 *     rimf_image_thaw    what is left, and all of them where tables are the file's
 *
 * Before anything else is changed each word that no table wrote is seen to lead to the copy, or to
 * where it led then; RELRO is opened for those, and they are written when all else is done, because
 * that cannot fail.  What resolvers chose, by the CPU, the list does not foresee: so each word that
 * they decide is one that the image relies on.  If the image is refused then, all words that lead
 * to copies are led home (frozen_take_back), and no pass runs: the tables are not the files'.
 *
 * A text behind the first that cannot be laid over (which no kernel is known to do) leaves an
 * object whose functions run in their copies, and what runs of it at home takes addresses at home.
 *
 * RELOCATIONS.  Half of what the host loader does at a start is to look symbols up, and
 * where the same files are loaded in the same order it finds the same.  So of its tables
 * there are pages in which an entry that asks for a symbol is one that asks for nothing:
 *
 *     GLOB_DAT, JUMP_SLOT, 64: look S up, store S + A    becomes    RELATIVE: store B + C
 *     the same, and S is an IFUNC: call S, store         becomes    IRELATIVE: call B + C, store
 *
 * with the distance C from the object's own base B, which is the same each time.  Between two objects of which
 * one is unplaced it is not: then C counts from the base of the other one, and the difference of the two
 * bases is added to it at each start (`shifts`), in private pages.  When the host
 * loader has mapped the last object and relocated none (the loader's relocations.c), all of them are
 * mapped at once, anywhere, and DT_RELA and DT_JMPREL in each dynamic section, which the host loader
 * has made addresses by then, are led there; they stay so.  Where there are copies, RELATIVE and IRELATIVE
 * entries lead to them, and so the copies are mapped before the tables; nothing is, if that fails.
 * Else each entry gives the same word either way.  IFUNCs are changed only where there are copies,
 * because there each choice is compared.  Left as they are: what a TLS symbol or one of the kind
 * UNIQUE defines, what is absolute, what nothing defines, slots that are bound lazily, and all of it
 * where an object is a filter.  The pages hold all of an object's tables, and what lies beside them.
 *
 * BEFORE RELOCATION.  When the tables are, texts are laid over as well: what resolvers of IFUNCs touch
 * of a text would else be mapped twice.  No word can be compared then.  But files, order and distances
 * have been, and so is the CPU (`cpu`, cpu_identity): what runs before the hook are resolvers, and calls
 * in them lead to what resolvers choose on such a CPU.  Words are compared at the hook as ever, and where
 * one is another, each text is that of its file again before anything else runs; if even that fails,
 * the program ends.  The executable's waits for the hook: its file may be one that nobody may read, so that
 * it could not be mapped again; and hardly any has resolvers.  Where there are copies all texts wait, because
 * functions of the C library that answer come first.
 *
 * Checksums find damage, not malice: a frozen image is code, so it is taken only from
 * root or the user, as analyses are.  The bytes of the copies are not read before they
 * run; `mvld cache verify` compares them with `hash`.
 */
#ifndef RIMF_FROZEN_H
#define RIMF_FROZEN_H

#include "mvld/pass.h"
#include "rimf/analysis/analysis.h"

#include <elf.h>

#define FROZEN_MAGIC "MVLDfrzn"
/* Eight bytes and no string: GCC 15 asks to be told. */
#if __has_attribute(nonstring)
#define FROZEN_BYTES __attribute__((nonstring))
#else
#define FROZEN_BYTES
#endif
#define FROZEN_VERSION 14u
#define FROZEN_SIZE_MAX (64ul << 20)
#define FROZEN_OBJECTS_MAX 4096u
#define FROZEN_SYSTEM_FOLDER "/var/cache/mvld/images"
#define FROZEN_NAME_MAX 255u
#define FROZEN_KEPT_MAX 8u
#define FROZEN_PASSES_MAX 4u
#define FROZEN_READS_MAX 4u
#define FROZEN_COPIES "concat.so"
#define FROZEN_RELOCATIONS "relocations"

/* What is to be known of a pass before it is mapped, so that a start need not map it. */
struct frozen_pass {
    uint32_t name, library; /* in names; "": it brings none */
    uint32_t flags;         /* MVLD_PASS_*, FROZEN_IDLE */
    uint32_t file;          /* of file_id_key; for people */
};

/* A file that a pass read: with another one there the image is out of date. */
struct frozen_read {
    uint32_t name, zero; /* path, in names */
    struct file_id file; /* all 0: there was none */
};

#define FROZEN_IDLE 0x80000000u /* the pass had nothing to do, as it is configured */

struct frozen_header {
    char magic[8] FROZEN_BYTES;
    uint32_t version, header_size;
    uint64_t size;     /* of the file */
    uint64_t checksum; /* of the file, with 0 in this place */
    uint64_t pipeline; /* which mvld, which passes, and their options */
    uint64_t layout_seed;    /* the loader's number from which the distances follow */
    uint32_t n_objects, n_texts, n_words, n_regions, n_copies, names_size;
    uint32_t n_relocations, n_kept, n_homes, n_pointers;
    uint32_t n_passes;
    uint32_t n_addends, n_tabled; /* of the pointers, the first, and those that follow these */
    uint32_t told;     /* in names: what the host loader was told; "": nothing.  For people */
    uint32_t n_reads, n_shifts;
    struct frozen_pass passes[FROZEN_PASSES_MAX]; /* in their order */
    struct frozen_read reads[FROZEN_READS_MAX];
    struct file_id relocations; /* the file of these; all 0: there is none */
    uint64_t cpu; /* cpu_identity where it was made; 0: none */
};

#define FROZEN_UNPLACED 1u

struct frozen_object { /* in the order of the link map; [0] is the executable */
    struct file_id file; /* all 0: none (the vDSO) */
    struct file_id copy; /* all 0: its code was not changed */
    uint64_t build_id;            /* rimf_hash of it; 0: none */
    int64_t distance;             /* its bias minus that of the first that is not apart */
    uint32_t name;                /* path, in names; for people */
    uint32_t copy_name;           /* in names: the file in the folder, "" when none */
    uint32_t flags;               /* FROZEN_UNPLACED: without distance, without copy */
    uint32_t first;               /* its lowest page, as linked */
};

struct frozen_text { /* ascending */
    uint32_t object, zero;
    uint64_t linked, size, offset; /* of whole pages: as linked, and in the copy */
    uint64_t hash;                 /* rimf_hash of the pages */
};

struct frozen_word { /* ascending; 8 bytes in `object` that hold an address */
    uint32_t object, linked;
    uint32_t to_object, to_linked; /* that address */
};

struct frozen_relocations { /* ascending by object and offset, one of each; whole pages */
    uint32_t object, n;            /* n entries ask for no symbol that did */
    uint64_t linked, size, offset; /* as linked, and in frozen_tables_name */
    uint64_t hash;                 /* rimf_hash of the pages */
};

struct frozen_shift { /* in the order of the pages; an addend that counts from another object */
    uint32_t at;        /* how far behind the first of these pages, in their file */
    uint32_t to_object; /* the other one */
};

/* Pages of the region, from the file FROZEN_COPIES. */
struct frozen_piece {
    uint64_t linked, size, offset;
};
enum { FROZEN_CODE, FROZEN_TABLE, FROZEN_FRAMES, FROZEN_PIECES };

struct frozen_region { /* one, when there are copies; addresses as linked, of `object` */
    struct file_id file;
    uint64_t code, code_size, frames, frames_size; /* struct rimf_region */
    struct frozen_piece pieces[FROZEN_PIECES]; /* code; the sorted table; what it leads to */
    uint64_t hash;             /* rimf_hash of these pages, one after the other */
    uint64_t hot;              /* rimf_region_hot: how far from `code`; 0: nothing was said */
    uint32_t object, n_frames; /* n_frames: in the table */
    uint32_t pages;            /* enum mvld_pages */
    uint32_t described;        /* the first code of rimf_image_describe, as linked; 0: none */
};

#define FROZEN_MOVED 1u

struct frozen_copy { /* ascending by `at` */
    uint32_t object, flags; /* FROZEN_MOVED: addresses of it are those of the copy, */
    uint32_t original;          /* as linked, of its object */
    uint32_t n_homes;       /* but for these; behind those of the copies before */
    uint64_t at;            /* as linked, of the region's */
    uint32_t code, size;    /* struct moved_fragment */
    uint32_t sorted;        /* of the i-th: which copy is the i-th by object and home */
    uint32_t zero;
};

/* Eight bytes, anywhere, that hold an address of code at home, and are to hold that of its copy.
 * Ascending, three times: those that DT_RELR relocates, those that a table of ours writes, others. */
struct frozen_pointer {
    uint32_t object, linked;
    uint32_t copy, offset; /* which one, and how far behind its start */
};

struct frozen_kept { /* ascending by `number`: rimf_image_keep_original */
    uint32_t object, number;
    uint32_t linked, size;
};

/* A checked view into the bytes. */
struct frozen {
    const struct frozen_header *header;
    const struct frozen_object *objects;
    const struct frozen_text *texts;
    const struct frozen_word *words;
    const struct frozen_relocations *relocations;
    const struct frozen_shift *shifts;
    const struct frozen_region *region; /* NULL: there are no copies */
    const struct frozen_copy *copies;
    const struct analysis_home *homes;
    const struct frozen_pointer *pointers;
    const struct frozen_kept *kept;
    const char *names;
};

/* `bytes` is 8-aligned and outlives the view.  0, or -EINVAL with a sentence (static)
 * in *why. */
int frozen_open(struct frozen *, const void *bytes, size_t size, const char **why);
/* 1: a file name, not empty, not hidden, of no folder. */
int frozen_is_name(const char *);
uint64_t frozen_checksum(const void *bytes, size_t size);
/* The file of the relocations: that of the copies, where there are any, so that a start opens one. */
const char *frozen_tables_name(const struct frozen *);
/* Which file is at that path; all 0: there is none.  1 when this process may know that. */
int frozen_read_of(const struct rimf_sys *, const char *path, struct file_id *);
/* The path of a file of `reads` that is another one now, or NULL. */
const char *frozen_other_read(const struct frozen *, const struct rimf_sys *);
/* The copy whose code this is, as linked of the region's object, or NULL. */
const struct frozen_copy *frozen_copy_at(const struct frozen *, uint64_t linked);
/* Of the pointers from i to `end`, all of one list: the first of another object than i's, or `end`. */
uint32_t frozen_next_object(const struct frozen *, uint32_t i, uint32_t end);
/* What is wrong with a text, seen alone, or NULL. */
const char *frozen_check_text(const struct frozen_text *, const struct file_id *copy);

/* ---- files (frozen_file.c) --------------------------------------------------- */

/* What lies in the process before the image is thawed. */
struct frozen_laid {
    const uintptr_t *biases; /* of each object; NULL: nothing lies there */
    uint32_t entries; /* so many of tables ask for no symbol any more */
    int led;          /* copies are mapped, and relocated words lead to them */
    int whole;        /* all tables are ours, so all words that one writes do */
    uintptr_t tables; /* where the first is mapped; 0: none is */
    uint32_t first_text, end_text; /* these lie over those of the files */
};

struct frozen_file {
    struct frozen view;
    struct frozen_laid laid;
    int folder; /* descriptor, for the copies; -1: none */
    uint32_t user; /* besides root's, files of this user */
    int unfiltered; /* calls may be made that the host loader does not make */
    void *map;
    size_t size;
};

/* Opens folder/image; files of root and of `user` are taken.  0; -ENOENT: there is
 * none; other errors with a sentence (static) in *why and nothing left open. */
int frozen_map(struct frozen_file *, const struct rimf_sys *, const char *folder, uint32_t user,
               const char **why);
void frozen_unmap(struct frozen_file *, const struct rimf_sys *);
/* A text of the open file, in the place of that of the object with this bias: its address, or negative errno. */
long frozen_map_text(const struct rimf_sys *, uintptr_t bias, const struct frozen_text *, int fd);
/* Code of a file that was written in large pieces was mapped there, and not touched; then code of an image. */
void frozen_want_large(const struct rimf_sys *, int filtered, uintptr_t at, size_t size);
void frozen_in_large_pieces(const struct frozen_file *, const struct rimf_sys *, uintptr_t at,
                            size_t size);
/* A file of the open folder, when it is the one that was written.  Descriptor, or negative errno
 * with a sentence (static). */
long frozen_open_part(const struct frozen_file *, const struct rimf_sys *, const char *name,
                      const struct file_id *, const char **why);
/* Removes what is in the folder of a frozen image, whole or not, and the folder if nothing else is
 * in it.  Processes that run from it go on.  Who does so holds the lock of the cache. */
int frozen_remove(const struct rimf_sys *, const char *folder, uint32_t user, const char **why);

/* ---- before the host loader relocates (frozen_lay.c) --------------------------- */

/* Of a mapped file, as far as they are in its first page. */
const Elf64_Phdr *frozen_headers(uintptr_t start, size_t *n);
/* All of the image's objects are mapped, as it says, and none is relocated; what is added to what is
 * linked of each (0 of the vDSO) is in `biases`, which stay.  0, or negative errno with a sentence
 * (static) and nothing is changed. */
int frozen_lay(struct frozen_file *, const struct rimf_sys *, const uintptr_t *biases, const char **why);
/* Where these pages are mapped, of a file that is laid.  And those of the object with that bias, or NULL. */
uintptr_t frozen_tables_at(const struct frozen_file *, const struct frozen_relocations *);
const struct frozen_relocations *frozen_tables_of(const struct frozen_file *, uintptr_t bias);
/* All are relocated, no code has run but that of resolvers, and the image is not thawed: words lead
 * home again.  The copies stay, in case a resolver has kept an address.  0, or negative errno: some
 * do not. */
int frozen_take_back(struct frozen_file *, const struct rimf_sys *);
/* frozen_texts.c.  The same, and the CPU is that of the image: texts of libraries are laid over those of
 * the files, as many as can be. */
void frozen_lay_texts(struct frozen_file *, const struct rimf_sys *);
/* And the last of these is that of its file again, which `fd` should be; 0, or negative errno. */
int frozen_take_text_back(struct frozen_file *, const struct rimf_sys *, int fd);
/* 1 when `text` is the pages of an executable segment that is not writable. */
int frozen_is_text(const Elf64_Phdr *ph, size_t n, const struct frozen_text *);
/* Copies of code, over the region of the object that has this bias; 0, or negative errno and
 * nothing is changed.  And as the host loader had mapped that. */
int frozen_region_map(const struct frozen_file *, const struct rimf_sys *, uintptr_t bias,
                      const char **why);
void frozen_region_unmap(const struct frozen_file *, const struct rimf_sys *, uintptr_t bias);

/* What `build_id` is of an object. */
static inline uint64_t frozen_build_id(const struct mvld_object *object)
{
    return object->build_id ? rimf_hash(object->build_id, object->build_id_size) : 0;
}

/* ---- over an image (store/thaw.c, image/watch.c, store/freeze.c) --------------- */

/* Lays the texts over those of the image's objects.  The number of texts, or negative
 * errno with a sentence in *why (static) and `object` (the one that is different, or
 * NULL); -ESTALE: it is of other files or places. */
long rimf_image_thaw(struct mvld_image *, const struct frozen_file *, uint64_t pipeline,
                     const char **why, const struct mvld_object **object);

/* The passes that make it, in their order, for the images that are written of it; the strings
 * stay.  More than FROZEN_PASSES_MAX are not written down. */
struct rimf_maker {
    const char *name, *path, *library; /* NULL: it brings none */
    uint32_t flags;                    /* as in struct frozen_pass */
    struct file_id file;
};
void rimf_image_set_makers(struct mvld_image *, const struct rimf_maker *, size_t n);
/* And a file that one of them will read, as it is now; the path stays.  Of more than FROZEN_READS_MAX no
 * image is written. */
struct rimf_read {
    const char *path;
    struct file_id file; /* frozen_read_of */
};
void rimf_image_add_read(struct mvld_image *, const char *path, const struct file_id *);
/* From here on the image notes what passes say of their changes (api->depends). */
void rimf_image_watch(struct mvld_image *);
/* Writes a frozen image of what was noted to `folder`, which must not be there yet;
 * it is complete when `image` is in it.  That ends the watch.  0, or negative errno with
 * a sentence that can be asked for (last_error), and what is in the folder is to be removed. */
int rimf_image_freeze(struct mvld_image *, const char *folder, uint64_t pipeline, uint64_t drawn,
                      const char *told);

#endif
