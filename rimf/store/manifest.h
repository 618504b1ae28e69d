/* SPDX-License-Identifier: MIT
 *
 * rimf/store/manifest.h: snapshots: the code that passes changed, for all later processes to map.
 *
 * A pass that changes thousands of call sites costs each process a private copy of the pages and the time to write
 * them.  But changed code contains distances and no addresses, so with equal distances the bytes are equal in every
 * process.  They are written once:
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
 * There are two kinds of manifest, with one reader, one writer and one check:
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
 * The analyses with which it was made (`analysis`) do not matter here: a snapshot that lacks one is right, and
 * slower.  They are for tools that make snapshots anew.  A text is mapped over the text of the same object, and no
 * object moves.  So each mapped text is right, whether the next one can be mapped or not: its direct calls have
 * targets whose addresses are the same in both.
 *
 * THE START takes all or nothing: as many objects, in the same order.  Their distances follow from the order of the
 * files and from a number that is drawn for each manifest (`layout_seed`).
 *
 * LATER takes each object by itself, in any order and number, as long as words agree.  The loader maps a file at its
 * recorded distance if that is free, and all other files elsewhere.  A process that learns (`mvld build --run`,
 * on-miss = learn) runs the passes for new objects, and then adds the batch, before any of its code runs.  The file
 * is written under another name and renamed.  The lock of the cache serialises such processes; each reads anew what
 * others have added, and removes the rest of a killed one.  Numbers do not change.  Objects without an overlay are
 * listed, too, because words of others point to them: one whose code moved (each process does that itself), or whose
 * changes are unknown.  An unplaced object has no number, except an executable at a fixed address, so that nothing is
 * learnt that points to it.
 *
 * MOVED CODE (moved/moved.h) is mapped first, while nothing refers to it, and the C library's caller hooks are
 * installed; only then the texts, in which functions begin with jumps to moved code; first those with the hooked
 * functions, because these also have jumps to the loader.  Finding these functions takes long, so they are recorded
 * (`kept`), and used while the files are the same.  If moved code or the hooks fail, the region is restored, and no
 * text is mapped.
 *
 * ADDRESSES.  The canonical address is that of moved code.  Operands that take it contain distances, and are right by
 * themselves.  Relocated words contain addresses.  So the manifest lists each word that was relocated to moved code
 * (`pointers`), also in objects that are unplaced; and `fixed`, the code whose addresses stay.  Three mechanisms
 * write these words:
 *
 *     relocation itself  by a table that holds the moved code's address, or in DT_RELR's way, by an addend that
 *                        is changed just before (early.c)
 *     a resolver         of an IFUNC; a table has its moved code called, which returns such addresses
 *     apply_moved.c      what is left, and all of them where tables are the files'
 *
 * Before anything else is changed, each word that no table wrote is compared: it must have the address of moved code,
 * or its recorded value.  RELRO is made writable for those, and they are written last, because that cannot fail.  The
 * list does not predict what resolvers choose by the CPU: so each word that they decide is one that the manifest
 * relies on.  If the manifest is then refused, all words with addresses of moved code get the original ones
 * (manifest_take_back), and no pass runs, because the tables are not the files'.
 *
 * RELOCATIONS.  Half of the host loader's work at a start is to look symbols up, and with the same files in the same
 * order the results are the same.  So there are pages of its tables in which entries with a symbol become entries
 * without one:
 *
 *     GLOB_DAT, JUMP_SLOT, 64: look S up, store S + A    becomes    RELATIVE: store B + C
 *     the same, and S is an IFUNC: call S, store         becomes    IRELATIVE: call B + C, store
 *
 * with the distance C from the object's own base B.  Between two objects of which one is unplaced, C counts from the
 * base of the other one, and the difference of the two bases is added at each start (`shifts`), in private pages.
 * When the host loader has mapped the last object and relocated none (the loader's relocations.c), all of the pages
 * are mapped at once, at any address, and DT_RELA and DT_JMPREL in each dynamic section, which the host loader has
 * turned into addresses by then, are changed to them permanently.  If code moved, RELATIVE and IRELATIVE entries have
 * addresses of moved code, so that is mapped before the tables; if it fails, no table is mapped.  Otherwise each
 * entry gives the same word with both tables.  IFUNCs are changed only if code moved, because then each choice is
 * compared.  Not changed: entries for TLS symbols, UNIQUE ones, absolute ones and undefined ones, slots that are
 * bound lazily, and everything if an object is a filter.
 *
 * BEFORE RELOCATION.  Together with the tables, texts are mapped: otherwise the parts that resolvers of IFUNCs touch
 * would be mapped twice.  Words cannot be compared at this time.  But files, order and distances have been, and the
 * CPU (`cpu`): only resolvers run before the hook, and calls in them have the targets that resolvers choose on such a
 * CPU.  Words are compared at the hook as usual; if one differs, each text is replaced by its file's before anything
 * else runs; if even that fails, the program ends.  The executable's text waits for the hook: its file may be
 * unreadable, so that it could not be mapped again.  If code moved, all texts wait, because the hooked functions of
 * the C library come first.
 *
 * Checksums detect damage, not malice: this is code, so it is used only from root or the user, and under AT_SECURE
 * only from root.  The bytes of overlays are not read before they run; `mvld cache verify` compares them with `hash`.
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
#define MANIFEST_VERSION 5u
#define MANIFEST_SIZE_MAX (64ul << 20)
#define MANIFEST_OBJECTS_MAX 4096u
#define MANIFEST_SYSTEM_FOLDER "/var/cache/mvld/snapshots"
#define MANIFEST_NAME_MAX 255u
#define MANIFEST_KEPT_MAX 9u
#define MANIFEST_PASSES_MAX 4u
#define MANIFEST_READS_MAX 4u
#define MANIFEST_FILE "manifest"
#define MANIFEST_LATER "later"
#define MOVED_FILE "concat.so"
#define RELOCATIONS_FILE "relocations"

/* Facts about a pass for starts that do not map it. */
struct manifest_pass {
    uint32_t name, library; /* in names; "": no library */
    uint32_t flags;         /* MVLD_PASS_*, MANIFEST_IDLE */
    uint32_t file;          /* file_id_key; for people */
};

/* A file that a pass read: if it has changed, the snapshot is out of date. */
struct manifest_read {
    uint32_t name, zero; /* path, in names */
    struct file_id file; /* all 0: it did not exist */
};

#define MANIFEST_IDLE 0x80000000u /* the pass was idle with its options */

/* The tables, in order.  Sizes are multiples of 8, except the names'. */
enum {
    MANIFEST_OBJECTS, MANIFEST_TEXTS, MANIFEST_WORDS, MANIFEST_RELOCATIONS, MANIFEST_SHIFTS,
    MANIFEST_REGIONS, MANIFEST_FRAGMENTS, MANIFEST_FIXED_CODE, MANIFEST_POINTERS, MANIFEST_KEPT, MANIFEST_NAMES,
    MANIFEST_TABLES
};
extern const uint32_t manifest_sizes[MANIFEST_TABLES]; /* of an entry */

struct manifest_header {
    char magic[8] MANIFEST_BYTES;
    uint32_t version, header_size;
    uint64_t size;     /* of the whole manifest */
    uint64_t checksum; /* likewise, with 0 in this field */
    uint64_t made_by;  /* the build of mvld; for a start also the passes and their options */
    uint64_t base;     /* checksum of the manifest that this one continues; 0: none */
    uint64_t layout_seed;    /* the loader's number that determines distances */
    uint64_t cpu;      /* cpu_identity of the machine that made it; 0: none */
    struct file_id tables; /* manifest_tables_name; all 0: none */
    union {
        uint32_t n[MANIFEST_TABLES];
        struct {
            uint32_t n_objects, n_texts, n_words, n_relocations, n_shifts;
            uint32_t n_regions, n_fragments, n_fixed, n_pointers, n_kept, names_size;
        };
    };
    uint32_t n_base;              /* number of objects of the manifest that this one continues */
    uint32_t n_addends, n_tabled; /* numbers of the first pointers, and of the following ones */
    uint32_t launch_key; /* in names: the host loader's settings; "": none.  For people */
    uint32_t n_passes, n_reads;
    struct manifest_pass passes[MANIFEST_PASSES_MAX]; /* in order */
    struct manifest_read reads[MANIFEST_READS_MAX];
};

#define MANIFEST_UNPLACED 1u /* without distance, without overlay */

struct manifest_object { /* for a start in the order of the link map; then [0] is the executable */
    struct file_id file;    /* all 0: none (the vDSO) */
    struct file_id overlay; /* all 0: its code was not changed.  `changed` is ignored */
    uint64_t build_id;      /* rimf_hash of it; 0: none */
    int64_t distance;       /* its bias minus that of the start's first placed object */
    uint32_t name;          /* path, in names; for people */
    uint32_t overlay_name;  /* in names: the file in the folder, "" if none */
    uint32_t flags;
    uint32_t first, length; /* its memory, as linked; whole pages */
    uint32_t n_words;       /* LATER: number of the words that it relies on, after those of earlier objects */
    uint32_t analysis;      /* rimf_analysis_key; a start does not compare it */
    uint32_t zero;
};

struct manifest_text { /* ascending */
    uint32_t object, zero;
    uint64_t linked, size, offset; /* of whole pages: as linked, and in the overlay */
    uint64_t hash;                 /* rimf_hash of the pages */
};

struct manifest_word { /* 8 bytes in `object` that contain an address */
    uint32_t object, linked;
    uint32_t to_object, to_linked; /* that address */
};

struct manifest_relocations { /* ascending by object and offset, one for each; whole pages */
    uint32_t object, n;            /* n entries have lost their symbol */
    uint64_t linked, size, offset; /* as linked, and in manifest_tables_name */
    uint64_t hash;                 /* rimf_hash of the pages */
};

struct manifest_shift { /* in the order of the pages; an addend that counts from another object */
    uint32_t at;        /* distance from the first of these pages, in their file */
    uint32_t to_object; /* the other one */
};

/* Pages of the region, in the file MOVED_FILE. */
struct manifest_piece {
    uint64_t linked, size, offset;
};
enum { MANIFEST_CODE, MANIFEST_TABLE, MANIFEST_FRAMES, MANIFEST_PIECES };

struct manifest_region { /* one, if code moved; addresses as linked, of `object` */
    uint64_t code, code_size, frames, frames_size; /* struct rimf_region */
    struct manifest_piece pieces[MANIFEST_PIECES]; /* code; the sorted table; the frames that it points to */
    uint64_t hash;             /* rimf_hash of these pages, one after the other */
    uint64_t hot;              /* rimf_region_hot: distance from `code`; 0: not set */
    uint32_t object, n_frames; /* n_frames: in the table */
    uint32_t pages;            /* enum mvld_pages */
    uint32_t zero;
};

#define MANIFEST_MOVED 1u

struct manifest_fragment { /* ascending by `at` */
    uint32_t object, flags; /* MANIFEST_MOVED: canonical addresses are in moved code, */
    uint32_t original;          /* as linked, of its object */
    uint32_t n_fixed;       /* except these; after those of earlier fragments */
    uint64_t at;            /* as linked, of the region's */
    uint32_t code, size;    /* struct moved_fragment */
    uint32_t sorted;        /* index of the i-th fragment by object and original */
    uint32_t zero;
};

/* Eight bytes, at any address, that contain an address of original code, and shall contain that of its moved code.
 * Three ascending lists: words that DT_RELR relocates, words that a table of ours writes, others. */
struct manifest_pointer {
    uint32_t object, linked;
    uint32_t fragment, offset; /* index, and offset in it */
};

struct manifest_kept { /* ascending by `number`: `kept` of rimf_feeder */
    uint32_t object, number;
    uint32_t linked, size;
};

/* A checked view of the bytes. */
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
/* The error in the region, its fragments, fixed code and pointers, or NULL.  The objects were checked. */
const char *manifest_check_moved(const struct manifest *);
#define OVERLAY_SIZE_MAX (1ul << 40) /* of a file that is mapped over another one */
/* The fragment that contains this address, as linked of the region's object, or NULL. */
const struct manifest_fragment *manifest_fragment_at(const struct manifest *, uint64_t linked);
/* Among the pointers from i to `end`, all of one list: the first of another object than i's, or `end`. */
uint32_t manifest_next_object(const struct manifest *, uint32_t i, uint32_t end);
/* The number of the object in this file, or -1. */
long manifest_find(const struct manifest *, const struct file_id *);
/* The texts of the object with that number. */
const struct manifest_text *manifest_texts_of(const struct manifest *, uint32_t number, uint32_t *n);
/* The object with that number, which the base does not have. */
static inline const struct manifest_object *manifest_object(const struct manifest *m, uint32_t number)
{
    return &m->objects[number - m->header->n_base];
}

/* ---- files (manifest_file.c) --------------------------------------------------- */

/* What is mapped in the process before the manifest is applied. */
struct manifest_early {
    const uintptr_t *biases; /* of each object; NULL: nothing is mapped */
    uint32_t entries; /* number of table entries without a symbol */
    int moved;        /* moved code is mapped, and relocated words point to it */
    int whole;        /* all tables are ours, so all words that a table writes do */
    uintptr_t tables; /* address of the first; 0: none is mapped */
    uint32_t first_text, end_text; /* these are mapped over those of the files */
};

struct manifest_file {
    struct manifest view;
    struct manifest_early early;
    int folder;    /* descriptor, for the overlays; -1: none */
    uint32_t user; /* files of this user, besides root's */
    int filtered;  /* only the host loader's calls may be made */
    void *map;     /* NULL: none */
    size_t size;
};

/* Maps the file of that name in the open folder, which the manifest then owns; only files of root and of `user` are
 * used.  0; -ENOENT: there is none; other errors with a static sentence in *why and nothing mapped. */
int manifest_map(struct manifest_file *, const struct rimf_sys *, int folder, const char *name, uint32_t user,
                 const char **why);
/* The same for MANIFEST_FILE in that folder, which is opened, and closed after an error. */
int manifest_map_start(struct manifest_file *, const struct rimf_sys *, const char *folder, uint32_t user,
                       const char **why);
void manifest_unmap(struct manifest_file *, const struct rimf_sys *);
/* The address of these pages, where tables are mapped (early.c).  The next: of those of the object with that bias, or NULL. */
uintptr_t manifest_tables_at(const struct manifest_file *, const struct manifest_relocations *);
const struct manifest_relocations *manifest_tables_of(const struct manifest_file *, uintptr_t bias);
/* Asks for large page cache pages for mapped, untouched code of a file that was written in large pieces. */
void overlay_want_large(const struct rimf_sys *, int filtered, uintptr_t at, size_t size);
/* Opens a file of the open folder if it is the one that was written.  Returns the descriptor, or negative errno with
 * a static sentence. */
long manifest_open_part(const struct manifest_file *, const struct rimf_sys *, const char *name,
                        const struct file_id *, const char **why);
/* Removes the folder of a manifest, complete or not, named relative to the folder `at` (or AT_FDCWD), if it contains
 * nothing else; otherwise nothing is changed.  Anything but a folder (a file, a FIFO, a link, which is not followed)
 * is unlinked.  Processes that use it continue.  The caller holds the lock of the cache.  0, or negative errno with a
 * static sentence in *why. */
int manifest_remove(const struct rimf_sys *, int at, const char *folder, uint32_t user, const char **why);
/* 0: manifest_remove would remove it, as far as can be told. */
int manifest_may_remove(const struct rimf_sys *, int at, const char *folder, uint32_t user, const char **why);
/* The identity of the file at that path; all 0: none.  Returns 1 if this process may know. */
int manifest_read_of(const struct rimf_sys *, const char *path, struct file_id *);
/* The path of a file of `reads` that has changed, or NULL. */
const char *manifest_other_read(const struct manifest *, const struct rimf_sys *);

/* ---- before the host loader relocates (early.c) ------------------------------------ */

/* Called when all of the manifest's objects are mapped as recorded, and none is relocated; `biases` has what is added
 * to linked addresses of each (0 for the vDSO), and remains valid.  Maps the tables.  0, or negative errno with a
 * static sentence and nothing is changed. */
int manifest_map_early(struct manifest_file *, const struct rimf_sys *, const uintptr_t *biases, const char **why);
/* Called when all objects are relocated, only resolvers have run, and the manifest is not applied: restores original
 * addresses in words.  The moved code stays mapped, in case a resolver has kept an address.  0, or negative errno:
 * some words could not be restored. */
int manifest_take_back(struct manifest_file *, const struct rimf_sys *);
/* manifest_file.c.  Maps these texts of one object, except those that are mapped, over those of the file, for an object
 * with this bias; `fd` is their overlay.  0, or negative errno of the first that cannot be mapped; adds the number of
 * mapped ones to *mapped. */
int manifest_map_texts(const struct manifest_file *, const struct rimf_sys *, uintptr_t bias,
                      const struct manifest_text *, uint32_t n, int fd, uint32_t *mapped);
/* As in manifest_map_early, and the CPU is that of the manifest: texts of libraries are mapped over those of
 * the files, as many as can be. */
void manifest_map_texts_early(struct manifest_file *, const struct rimf_sys *);
/* Maps the file's text again, from `fd`, over the last of these; 0, or negative errno. */
int manifest_take_text_back(struct manifest_file *, const struct rimf_sys *, int fd);
/* Returns 1 if `text` is the pages of an executable, unwritable segment. */
int overlay_is_text(const Elf64_Phdr *ph, size_t n, const struct manifest_text *);
/* Maps moved code over the region of the object with this bias; 0, or negative errno and nothing is changed.  The
 * next restores the host loader's mapping of the first `n` pieces. */
int manifest_region_map(const struct manifest_file *, const struct rimf_sys *, uintptr_t bias,
                        const char **why);
void manifest_region_unmap(const struct manifest_file *, const struct rimf_sys *, uintptr_t bias, int n);

/* The value of `build_id` for an object. */
static inline uint64_t manifest_build_id(const struct mvld_object *object)
{
    return object->build_id ? rimf_hash(object->build_id, object->build_id_size) : 0;
}

#endif
