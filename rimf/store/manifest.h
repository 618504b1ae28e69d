/* SPDX-License-Identifier: MIT
 *
 * rimf/store/manifest.h: what passes made of a program's code, for all later processes to map.
 *
 * A pass that changes thousands of call sites costs each process a private copy of the pages and the time to
 * write them.  But changed code holds distances and no addresses, so where distances are the same it is the same
 * bytes everywhere.  It is written once:
 *
 *     overlay     a copy of an object's file, a whole ELF file, in which the code is changed.  A text segment is
 *                 mapped from the same offset, so whoever meets the overlay's name in /proc/PID/maps or in a perf
 *                 recording finds symbols, build-id and unwind tables there, all true
 *     manifest    which objects there are, their overlays, their distances, the words that the changes
 *                 relied on, and what is left to be done.  This format:
 *
 *     +--------+---------+-------+-------+-------------+--------+--------+
 *     | header | objects | texts | words | relocations | shifts | region |  …
 *     +--------+---------+-------+-------+-------------+--------+--------+
 *         +--------+-------+----------+------+-------+
 *      …  | fragments | fixed | pointers | kept | names |
 *         +--------+-------+----------+------+-------+
 *
 * There are two of them, for one reader, one writer and one check:
 *
 *     OF A START   in a folder, beside its overlays: all objects of a program's start, in their order
 *
 *                      manifest             0-bash, 3-libc.so.6 …   overlays
 *                      concat.so            moved code in a region of its own, if any
 *                      relocations          pages of tables of relocations, if any, where no code moved; else
 *                                           they lie behind it in concat.so, and a start opens one file
 *
 *     LATER        beside it (`later`), with overlays of its own: what came by dlopen to such a program.  It
 *                  continues the other one (`base`, `n_base`): its objects have the numbers from n_base on
 *
 * WHEN AN OVERLAY IS MAPPED.  When all of this holds, and else not at all:
 *   - the object is mapped from the same file (file_id.h, and build-id);
 *   - it lies at the same distances from the others, except those that are UNPLACED: an executable at a fixed
 *     address, which has other distances to its libraries in each process, a library that is aligned to more
 *     than the arena is, and the vDSO.  These have no overlay, and none holds a distance to them.  A word may
 *     well lie in one or lead to one: it is compared with where they are now;
 *   - every word that a change relied on (the GOT slot of a call that became direct) points to the same place of
 *     the same object.  So whatever decided where calls go (preloaded libraries, symbol versions, CPU features,
 *     tunables) need not be known: what it decided is compared;
 *   - nobody traces the process: a debugger's breakpoints are in the text that would be covered;
 *   - the overlay is the file that was written, of root or of the user (cache.h).
 * With which analyses it was made (`analysis`) is no question: a snapshot that lacks one is right, and slower.  It
 * is for who makes snapshots anew.
 * A text is laid over the text of the same object, and no object moves.  So a text that is laid is right, whether
 * the next one can be or not: its direct calls lead to places that are the same in either.
 *
 * THE START takes all or nothing: as many objects, in the same order.  Their distances follow from the order of
 * the files and from a number that is drawn for each manifest (`layout_seed`).
 *
 * LATER takes each object by itself: in which order they come, and which do not, is no matter, as long as
 * words agree.  The loader gives a file the place that it had, when that is free, and all other files others.
 * A process that learns (`mvld build --run`, on-miss = learn) treats what comes itself; then it adds the batch,
 * before any of its code runs.  The file is written aside and renamed; the lock of the cache makes such
 * processes one at a time, and each reads anew what others have added, and removes what a killed one has
 * left.  Numbers stay what they are.  An object without an overlay stands there too, because words of others
 * lead to it: one whose code moved (each process does that itself), or whose changes cannot be told.  What is
 * unplaced has no number, but for an executable at a fixed address, so that nothing is learnt that leads there.
 *
 * MOVED CODE (moved/moved.h) comes first, while nothing leads to it, and the C library's caller hooks
 * are there; only then the texts, in which functions begin with jumps to moved code, and first those with the
 * functions that are hooked: jumps of the loader's are in them too.  These functions, which take longest to find,
 * are those that were found before (`kept`), as long as the files are the same.  When the moved code or the
 * hooks fail, the region is as it was, and no text is laid over.
 *
 * ADDRESSES.  The canonical address is that of moved code: operands that take it hold distances, and lead there
 * by themselves.  Relocated words hold addresses.  So the manifest lists each word that was led to moved code
 * (`pointers`), also in objects that are unplaced; and `fixed`, the code whose addresses stay.  Who leads it there:
 *
 *     relocation itself  by a table that holds the moved code's address, or in DT_RELR's way, by an addend that
 *                        is changed just before (lay.c)
 *     a resolver         of an IFUNC; a table has its moved code called, which returns such addresses
 *     apply_pointers.c   what is left, and all of them where tables are the files'
 *
 * Before anything else is changed each word that no table wrote is seen to lead to moved code, or to where it led
 * then; RELRO is opened for those, and they are written when all else is done, because that cannot fail.  What
 * resolvers chose, by the CPU, the list does not foresee: so each word that they decide is one that the manifest
 * relies on.  If it is refused then, all words that lead to moved code are led back (manifest_take_back), and no pass
 * runs: the tables are not the files'.
 *
 * RELOCATIONS.  Half of what the host loader does at a start is to look symbols up, and where the same files are
 * loaded in the same order it finds the same.  So of its tables there are pages in which an entry that asks for
 * a symbol is one that asks for nothing:
 *
 *     GLOB_DAT, JUMP_SLOT, 64: look S up, store S + A    becomes    RELATIVE: store B + C
 *     the same, and S is an IFUNC: call S, store         becomes    IRELATIVE: call B + C, store
 *
 * with the distance C from the object's own base B.  Between two objects of which one is unplaced C counts from
 * the base of the other one, and the difference of the two bases is added to it at each start (`shifts`), in
 * private pages.  When the host loader has mapped the last object and relocated none (the loader's
 * relocations.c), all of them are mapped at once, anywhere, and DT_RELA and DT_JMPREL in each dynamic section,
 * which the host loader has made addresses by then, are led there; they stay so.  Where code moved, RELATIVE and
 * IRELATIVE entries lead to moved code, and so these are mapped before the tables; nothing is, if that fails.
 * Else each entry gives the same word either way.  IFUNCs are changed only where code moved, because
 * there each choice is compared.  Left as they are: what a TLS symbol or one of the kind UNIQUE defines, what is
 * absolute, what nothing defines, slots that are bound lazily, and all of it where an object is a filter.
 *
 * BEFORE RELOCATION.  When the tables are, texts are laid over as well: what resolvers of IFUNCs touch of a text
 * would else be mapped twice.  No word can be compared then.  But files, order and distances have been, and so is
 * the CPU (`cpu`): what runs before the hook are resolvers, and calls in them lead to what resolvers choose on
 * such a CPU.  Words are compared at the hook as ever, and where one is another, each text is that of its file
 * again before anything else runs; if even that fails, the program ends.  The executable's waits for the
 * hook: its file may be one that nobody may read, so that it could not be mapped again.  Where code moved all texts
 * wait, because functions of the C library that answer come first.
 *
 * Checksums find damage, not malice: this is code, so it is taken only from root or the user, and under AT_SECURE
 * only from root.  The bytes of overlays are not read before they run; `mvld cache verify` compares them
 * with `hash`.
 */
#ifndef RIMF_STORE_MANIFEST_H
#define RIMF_STORE_MANIFEST_H

#include "rimf/analysis/analysis.h"
#include "rimf/image/image.h"

#include <elf.h>

#define MANIFEST_MAGIC "MVLDmnfs"
/* Eight bytes and no string: GCC 15 asks to be told. */
#if __has_attribute(nonstring)
#define MANIFEST_BYTES __attribute__((nonstring))
#else
#define MANIFEST_BYTES
#endif
#define MANIFEST_VERSION 4u
#define MANIFEST_SIZE_MAX (64ul << 20)
#define MANIFEST_OBJECTS_MAX 4096u
#define MANIFEST_SYSTEM_FOLDER "/var/cache/mvld/snapshots"
#define MANIFEST_NAME_MAX 255u
#define MANIFEST_KEPT_MAX 8u
#define MANIFEST_PASSES_MAX 4u
#define MANIFEST_READS_MAX 4u
#define MANIFEST_FILE "manifest"
#define MANIFEST_LATER "later"
#define MOVED_FILE "concat.so"
#define RELOCATIONS_FILE "relocations"

/* What is to be known of a pass before it is mapped, so that a start need not map it. */
struct manifest_pass {
    uint32_t name, library; /* in names; "": it brings none */
    uint32_t flags;         /* MVLD_PASS_*, MANIFEST_IDLE */
    uint32_t file;          /* of file_id_key; for people */
};

/* A file that a pass read: with another one there it is out of date. */
struct manifest_read {
    uint32_t name, zero; /* path, in names */
    struct file_id file; /* all 0: there was none */
};

#define MANIFEST_IDLE 0x80000000u /* the pass had nothing to do, as it is configured */

/* The tables, in their order.  Sizes are multiples of 8, but for the names. */
enum {
    MANIFEST_OBJECTS, MANIFEST_TEXTS, MANIFEST_WORDS, MANIFEST_RELOCATIONS, MANIFEST_SHIFTS,
    MANIFEST_REGIONS, MANIFEST_FRAGMENTS, MANIFEST_FIXED_CODE, MANIFEST_POINTERS, MANIFEST_KEPT, MANIFEST_NAMES,
    MANIFEST_TABLES
};
extern const uint32_t manifest_sizes[MANIFEST_TABLES]; /* of an entry */

struct manifest_header {
    char magic[8] MANIFEST_BYTES;
    uint32_t version, header_size;
    uint64_t size;     /* of all of it */
    uint64_t checksum; /* likewise, with 0 in this place */
    uint64_t made_by;  /* which mvld; at the start also which passes, and their options */
    uint64_t base;     /* the checksum of the one that this one continues; 0: none */
    uint64_t layout_seed;    /* the loader's number from which the distances follow */
    uint64_t cpu;      /* cpu_identity where it was made; 0: none */
    struct file_id tables; /* manifest_tables_name; all 0: there is none */
    union {
        uint32_t n[MANIFEST_TABLES];
        struct {
            uint32_t n_objects, n_texts, n_words, n_relocations, n_shifts;
            uint32_t n_regions, n_fragments, n_fixed, n_pointers, n_kept, names_size;
        };
    };
    uint32_t n_base;              /* objects of the one that this one continues */
    uint32_t n_addends, n_tabled; /* of the pointers, the first, and those that follow these */
    uint32_t launch_key; /* in names: what the host loader was told; "": nothing.  For people */
    uint32_t n_passes, n_reads;
    struct manifest_pass passes[MANIFEST_PASSES_MAX]; /* in their order */
    struct manifest_read reads[MANIFEST_READS_MAX];
};

#define MANIFEST_UNPLACED 1u /* without distance, without overlay */

struct manifest_object { /* at the start in the order of the link map; [0] is the executable then */
    struct file_id file;    /* all 0: none (the vDSO) */
    struct file_id overlay; /* all 0: its code was not changed.  `changed` counts nowhere */
    uint64_t build_id;      /* rimf_hash of it; 0: none */
    int64_t distance;       /* its bias minus that of the start's first one that has a place */
    uint32_t name;          /* path, in names; for people */
    uint32_t overlay_name;  /* in names: the file in the folder, "" when none */
    uint32_t flags;
    uint32_t first, length; /* its memory, as linked; whole pages */
    uint32_t n_words;       /* later: of the words those that it relies on, behind those of objects before */
    uint32_t analysis;      /* rimf_analysis_key; no start looks at it */
    uint32_t zero;
};

struct manifest_text { /* ascending */
    uint32_t object, zero;
    uint64_t linked, size, offset; /* of whole pages: as linked, and in the overlay */
    uint64_t hash;                 /* rimf_hash of the pages */
};

struct manifest_word { /* 8 bytes in `object` that hold an address */
    uint32_t object, linked;
    uint32_t to_object, to_linked; /* that address */
};

struct manifest_relocations { /* ascending by object and offset, one of each; whole pages */
    uint32_t object, n;            /* n entries ask for no symbol that did */
    uint64_t linked, size, offset; /* as linked, and in manifest_tables_name */
    uint64_t hash;                 /* rimf_hash of the pages */
};

struct manifest_shift { /* in the order of the pages; an addend that counts from another object */
    uint32_t at;        /* how far behind the first of these pages, in their file */
    uint32_t to_object; /* the other one */
};

/* Pages of the region, in the file MOVED_FILE. */
struct manifest_piece {
    uint64_t linked, size, offset;
};
enum { MANIFEST_CODE, MANIFEST_TABLE, MANIFEST_FRAMES, MANIFEST_PIECES };

struct manifest_region { /* one, when code moved; addresses as linked, of `object` */
    uint64_t code, code_size, frames, frames_size; /* struct rimf_region */
    struct manifest_piece pieces[MANIFEST_PIECES]; /* code; the sorted table; what it leads to */
    uint64_t hash;             /* rimf_hash of these pages, one after the other */
    uint64_t hot;              /* rimf_region_hot: how far from `code`; 0: nothing was said */
    uint32_t object, n_frames; /* n_frames: in the table */
    uint32_t pages;            /* enum mvld_pages */
    uint32_t zero;
};

#define MANIFEST_MOVED 1u

struct manifest_fragment { /* ascending by `at` */
    uint32_t object, flags; /* MANIFEST_MOVED: canonical addresses of it are those here, */
    uint32_t original;          /* as linked, of its object */
    uint32_t n_fixed;       /* but for these; behind those of the fragments before */
    uint64_t at;            /* as linked, of the region's */
    uint32_t code, size;    /* struct moved_fragment */
    uint32_t sorted;        /* of the i-th: which fragment is the i-th by object and original */
    uint32_t zero;
};

/* Eight bytes, anywhere, that hold an address of original code, and are to hold that of its moved code.
 * Ascending, three times: those that DT_RELR relocates, those that a table of ours writes, others. */
struct manifest_pointer {
    uint32_t object, linked;
    uint32_t fragment, offset; /* which one, and how far behind its start */
};

struct manifest_kept { /* ascending by `number`: rimf_image_keep_original */
    uint32_t object, number;
    uint32_t linked, size;
};

/* A checked view into the bytes. */
struct manifest {
    const struct manifest_header *header;
    union {
        const void *at[MANIFEST_TABLES];
        struct {
            const struct manifest_object *objects;
            const struct manifest_text *texts;
            const struct manifest_word *words;
            const struct manifest_relocations *relocations;
            const struct manifest_shift *shifts;
            const struct manifest_region *region; /* NULL: no code moved */
            const struct manifest_fragment *fragments;
            const struct analysis_fixed *fixed;
            const struct manifest_pointer *pointers;
            const struct manifest_kept *kept;
            const char *names;
        };
    };
};

/* ---- manifest.c, manifest_moved.c ---------------------------------------------- */

/* `bytes` is 8-aligned and outlives the view.  0, or -EINVAL with a sentence (static) in *why. */
int manifest_open(struct manifest *, const void *bytes, size_t size, const char **why);
uint64_t manifest_checksum(const void *bytes, size_t size);
/* The file of moved code and of tables of relocations. */
const char *manifest_tables_name(const struct manifest *);
/* What is wrong with the region, its fragments, fixed code and pointers, or NULL.  The objects were checked. */
const char *manifest_check_moved(const struct manifest *);
#define OVERLAY_SIZE_MAX (1ul << 40) /* of a file that is mapped over another one */
/* The fragment whose code this is, as linked of the region's object, or NULL. */
const struct manifest_fragment *manifest_fragment_at(const struct manifest *, uint64_t linked);
/* Of the pointers from i to `end`, all of one list: the first of another object than i's, or `end`. */
uint32_t manifest_next_object(const struct manifest *, uint32_t i, uint32_t end);
/* The number of the object in this file, or -1. */
long manifest_find(const struct manifest *, const struct file_id *);
/* The texts of the object with that number. */
const struct manifest_text *manifest_texts_of(const struct manifest *, uint32_t number, uint32_t *n);
/* Of the object with that number, which the base does not have. */
static inline const struct manifest_object *manifest_object(const struct manifest *m, uint32_t number)
{
    return &m->objects[number - m->header->n_base];
}

/* ---- files (manifest_file.c) --------------------------------------------------- */

/* What lies in the process before the manifest is applied. */
struct manifest_laid {
    const uintptr_t *biases; /* of each object; NULL: nothing lies there */
    uint32_t entries; /* so many of tables ask for no symbol any more */
    int led;          /* moved code is mapped, and relocated words lead to them */
    int whole;        /* all tables are ours, so all words that one writes do */
    uintptr_t tables; /* where the first is mapped; 0: none is */
    uint32_t first_text, end_text; /* these lie over those of the files */
};

struct manifest_file {
    struct manifest view;
    struct manifest_laid laid;
    int folder;    /* descriptor, for the overlays; -1: none */
    uint32_t user; /* besides root's, files of this user */
    int filtered;  /* only calls may be made that the host loader makes */
    void *map;     /* NULL: there is none */
    size_t size;
};

/* Maps the file of that name in the open folder, which becomes the manifest's; files of root and of `user` are
 * taken.  0; -ENOENT: there is none; other errors with a sentence (static) in *why and nothing left mapped. */
int manifest_map(struct manifest_file *, const struct rimf_sys *, int folder, const char *name, uint32_t user,
                 const char **why);
/* The same of MANIFEST_FILE in that folder, which is opened, and closed after an error. */
int manifest_map_start(struct manifest_file *, const struct rimf_sys *, const char *folder, uint32_t user,
                       const char **why);
void manifest_close(struct manifest_file *, const struct rimf_sys *); /* the folder; the tables stay */
void manifest_unmap(struct manifest_file *, const struct rimf_sys *);
/* A text of the open file, in the place of that of the object with this bias: its address, or negative errno. */
long overlay_map_text(const struct rimf_sys *, uintptr_t bias, const struct manifest_text *, int fd);
/* Code of a file that was written in large pieces was mapped there, and not touched. */
void overlay_want_large(const struct rimf_sys *, int filtered, uintptr_t at, size_t size);
/* A file of the open folder, when it is the one that was written.  Descriptor, or negative errno
 * with a sentence (static). */
long manifest_open_part(const struct manifest_file *, const struct rimf_sys *, const char *name,
                        const struct file_id *, const char **why);
/* Removes the folder of a manifest, whole or not, named from the folder `at` (or AT_FDCWD), if nothing else is in
 * it; else nothing is changed.  What is no folder (a file, a FIFO, a link, which is not followed) is unlinked.
 * Processes that run from it go on.  Who does so holds the lock of the cache.  0, or negative errno with a sentence (static) in *why. */
int manifest_remove(const struct rimf_sys *, int at, const char *folder, uint32_t user, const char **why);
/* 0: manifest_remove would remove it, as far as can be told. */
int manifest_may_remove(const struct rimf_sys *, int at, const char *folder, uint32_t user, const char **why);
/* Which file is at that path; all 0: there is none.  1 when this process may know that. */
int manifest_read_of(const struct rimf_sys *, const char *path, struct file_id *);
/* The path of a file of `reads` that is another one now, or NULL. */
const char *manifest_other_read(const struct manifest *, const struct rimf_sys *);

/* ---- before the host loader relocates (lay.c) ------------------------------------ */

/* All of the manifest's objects are mapped, as it says, and none is relocated; what is added to what is
 * linked of each (0 of the vDSO) is in `biases`, which stay.  0, or negative errno with a sentence
 * (static) and nothing is changed. */
int manifest_lay(struct manifest_file *, const struct rimf_sys *, const uintptr_t *biases, const char **why);
/* Where these pages are mapped, of a file that is laid.  And those of the object with that bias, or NULL. */
uintptr_t manifest_tables_at(const struct manifest_file *, const struct manifest_relocations *);
const struct manifest_relocations *manifest_tables_of(const struct manifest_file *, uintptr_t bias);
/* All are relocated, no code has run but that of resolvers, and the manifest is not applied: words lead
 * back again.  The moved code stays, in case a resolver has kept an address.  0, or negative errno: some
 * do not. */
int manifest_take_back(struct manifest_file *, const struct rimf_sys *);
/* lay_texts.c.  The same, and the CPU is that of the manifest: texts of libraries are laid over those of
 * the files, as many as can be. */
void manifest_lay_texts(struct manifest_file *, const struct rimf_sys *);
/* And the last of these is that of its file again, which `fd` should be; 0, or negative errno. */
int manifest_take_text_back(struct manifest_file *, const struct rimf_sys *, int fd);
/* 1 when `text` is the pages of an executable segment that is not writable. */
int overlay_is_text(const Elf64_Phdr *ph, size_t n, const struct manifest_text *);
/* Moved code, over the region of the object that has this bias; 0, or negative errno and
 * nothing is changed.  And as the host loader had mapped that. */
int manifest_region_map(const struct manifest_file *, const struct rimf_sys *, uintptr_t bias,
                        const char **why);
void manifest_region_unmap(const struct manifest_file *, const struct rimf_sys *, uintptr_t bias);

/* What `build_id` is of an object. */
static inline uint64_t manifest_build_id(const struct mvld_object *object)
{
    return object->build_id ? rimf_hash(object->build_id, object->build_id_size) : 0;
}

#endif
