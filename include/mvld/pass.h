/* SPDX-License-Identifier: MIT
 *
 * mvld/pass.h: what a pass is, and everything that a pass may ask of mvld.
 *
 * Overview
 *
 *   A pass is a self-contained shared object in mvld's pass folder.  It defines
 *   one symbol, `mvld_pass`, a `const struct mvld_pass` that declares its name,
 *   what it needs, its options and its functions.  The pass manager maps the
 *   object (RELATIVE relocations only, no DT_NEEDED, no undefined symbols, no
 *   TLS, no constructors), checks the declarations of the whole pipeline, and
 *   calls the functions with a context:
 *
 *     map      for each file, before it is mapped: it can be refused
 *     relocate for objects that are mapped, before anything is relocated: symbols
 *              can be changed
 *     run      once, the whole image; everything is relocated and no
 *              constructor has run
 *     added    for the objects of one dlopen, relocated, before their
 *              constructors
 *     removed  for the objects of one dlclose, already unmapped: forget them,
 *              touch none of their memory
 *
 *   A pass runs before libc is usable: build it with
 *   -ffreestanding -fno-stack-protector -mgeneral-regs-only -fPIC, no libc.
 *   It calls mvld through `ctx->api` alone, and never another pass: passes meet
 *   in the image.
 *
 * Example
 *
 *     #include <mvld/pass.h>
 *
 *     static int run(const struct mvld_context *ctx) {
 *         size_t n = ctx->api->object_count(ctx->image);
 *         ctx->api->log(ctx->image, MVLD_LOG_PASSES, "%zu objects", n);
 *         return 0;
 *     }
 *     const struct mvld_pass mvld_pass = {
 *         .abi = MVLD_PASS_ABI,
 *         .name = "count", .help = "counts the objects", .run = run,
 *     };
 *
 *     cc -shared -nostdlib -ffreestanding -fno-stack-protector \
 *        -mgeneral-regs-only -fPIC -Wl,-Bsymbolic -o count.so count.c
 *
 * Errors are negative errno; the sentence that explains one is recorded with
 * `fail` and shown by MVLD_DEBUG.  A pass whose `run` fails is reported and the
 * program runs on with what earlier passes did.
 *
 * Thread-safety: `run`, `added` and `removed` are called one at a time, by the
 * thread that loads.  Of the api, functions marked [any thread] may be called
 * later from other threads; a pass that does so guards its own state.
 */
#ifndef MVLD_PASS_H
#define MVLD_PASS_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#define MVLD_PASS_ABI 2u

struct mvld_image;  /* opaque: the one description of all objects */
struct mvld_batch;  /* opaque: patches that are applied together */

/* ---- objects ---------------------------------------------------------- */

struct mvld_segment { /* one PT_LOAD, where it is now */
    uintptr_t start, end; /* [start, end), not rounded to pages */
    uint32_t prot;        /* PROT_READ | PROT_WRITE | PROT_EXEC as linked */
};

#define MVLD_OBJECT_MAIN 1u   /* the executable */
#define MVLD_OBJECT_VDSO 2u
#define MVLD_OBJECT_LOADER 4u /* the host loader */
#define MVLD_OBJECT_OPAQUE 8u /* its headers could not be read: see `why` */
#define MVLD_OBJECT_UNPLACED 16u /* a frozen image is being made, and the object lies elsewhere
                                 each time: nobody's code may hold a distance from or to it */

/* One ELF file in the process.  Fields do not change while it is loaded. */
struct mvld_object {
    uint32_t flags;          /* MVLD_OBJECT_* */
    const char *name;        /* path; "" never: the executable has its own here */
    uintptr_t bias;          /* run-time address minus linked address */
    uintptr_t start, end;    /* what its segments span */
    const struct mvld_segment *segments;
    size_t n_segments;
    const void *dynamic;     /* Elf64_Dyn[], or NULL */
    const void *phdr;        /* Elf64_Phdr[], or NULL */
    size_t phnum;
    const uint8_t *build_id; /* or NULL */
    size_t build_id_size;
    const char *why;         /* why it must not be transformed, or NULL */
    void *link_map;          /* struct link_map *, or NULL (the vDSO) */
};

struct mvld_symbol {
    const char *name;
    const char *version; /* or NULL */
    uintptr_t address;   /* where it is now; 0 for a thread-local, which has no one address */
    uint64_t size;
    uint8_t type, binding, visibility; /* STT_, STB_, STV_ */
    const struct mvld_object *object;
};

/* ---- patches ----------------------------------------------------------- */

#define MVLD_PATCH_MAX 16u

/* One patch: `length` bytes at `address` must be `expect`, and become
 * `replace`.  Refused with -ESTALE when they are not, -EFAULT when the range is
 * not executable memory of an object in the image, -EEXIST when it overlaps
 * another patch of the batch, -EDEADLK when other threads run and the bytes
 * cannot be changed safely under them. */
struct mvld_patch {
    uintptr_t address;
    uint8_t length; /* 1 .. MVLD_PATCH_MAX */
    uint8_t expect[MVLD_PATCH_MAX];
    uint8_t replace[MVLD_PATCH_MAX];
    int result;     /* out: 0, or why it was refused */
};

/* One of many patches, of 4 to 8 bytes.  Its bytes lie in words of their own, the first
 * in the lowest byte: see patch_add_words. */
struct mvld_word {
    uint32_t offset; /* from the base of its array */
    uint16_t length;
    uint16_t own;    /* the caller's: never looked at */
};

struct mvld_patch_report {
    size_t applied, refused;
    const char *method; /* "mprotect", "remap", "selfmem", … */
};

/* ---- slots and references ------------------------------------------------ */

#define MVLD_SLOT_LAZY 1u  /* not bound yet: the host loader will at the first call */
#define MVLD_SLOT_RELRO 2u /* read-only since it was relocated */

/* A GOT slot that the host loader fills with the address of a function. */
struct mvld_slot {
    uint32_t flags;
    uintptr_t address; /* of the slot, now */
    uintptr_t target;  /* what it holds, or will hold once bound, of moved code the original;
                          0 when not certain */
    const char *why;   /* why it is not certain (static), or NULL */
    const char *name;  /* the symbol, or NULL when it has none */
    uintptr_t shown;   /* the word that shows `target` (see depends): the slot itself, or
                          another one that shows what an IFUNC chose; 0 without target */
};

enum mvld_reference_kind {
    MVLD_REFERENCE_CALL_PLT = 1, /* e8 rel32     call entry of the PLT */
    MVLD_REFERENCE_JUMP_PLT,     /* e9 rel32     jmp  entry */
    MVLD_REFERENCE_JCC_PLT,      /* 0f 8x rel32  jcc  entry */
    MVLD_REFERENCE_CALL_SLOT,    /* ff 15 rel32  call *slot(%rip) */
    MVLD_REFERENCE_JUMP_SLOT,    /* ff 25 rel32  jmp  *slot(%rip) */
    MVLD_REFERENCE_CALL_SINGLE   /* e8 rel32     call of a function of the same object that is one
                                                 instruction and a return; its slot is 0 */
};

/* A place in proven code that leads somewhere.  The analysis that found it was made of
 * the file: the bytes at `site` are still to be compared. */
struct mvld_reference {
    uintptr_t site; /* its opcode, now; prefixes stand before it */
    uintptr_t slot; /* the GOT slot that it goes through, now */
    enum mvld_reference_kind kind;
};

/* Where a call through a slot is certain to end; an entry of the executable's PLT, which stands for a
 * function whose address the executable takes, is followed. */
struct mvld_binding {
    uint32_t flags;    /* MVLD_SLOT_RELRO: each slot on the way; MVLD_SLOT_LAZY: one of them */
    uintptr_t slot;    /* its address, now */
    uintptr_t target;
    const struct mvld_object *holder; /* that the target is in, or NULL */
};

enum mvld_section_kind { MVLD_SECTION_CODE = 1, MVLD_SECTION_DATA };
#define MVLD_SECTION_MAX (64ul << 20)
#define MVLD_FILE_MAX (16ul << 20)

struct mvld_context;
struct mvld_setting;

/* Where the calls of `object` through the slot of `bound` shall lead (calls_retarget).  NULL, and
 * *target: there.  Or why they stay as they are (static); with *target, which is 0 before, code that
 * is moved leads there all the same: they are not worth a page of memory, which to change code where
 * it was mapped takes.  It is asked when somebody must know, once or more often, or never, and depends
 * on nothing but its arguments, the settings, and what the api tells of `object` and `bound`. */
typedef const char *mvld_calls_rule(const struct mvld_context *, const struct mvld_object *object,
                                    const struct mvld_binding *bound, uintptr_t *target);

#define MVLD_CALLS_SINGLES 1u /* also, a function of the object that is one instruction and a return
                                 stands where it is called */

/* ---- moved code ------------------------------------------------------------ */

/* In what pages moved code lies: 2 MiB each where the code fills them, and they are there; others are
 * small. */
enum mvld_pages {
    MVLD_PAGES_SMALL,
    MVLD_PAGES_THP,     /* put together by the kernel (transparent huge pages) */
    MVLD_PAGES_HUGETLB, /* of the machine's pool; what that lacks, as THP */
    MVLD_PAGES_QUICK,   /* what is there soonest: in the process the kernel's, where its setting
                         * has them and code fills half of one; in a frozen image small */
    MVLD_PAGES_POOL,    /* of the machine's pool; what that lacks, small */
    MVLD_PAGES_HOT      /* as THP, but nothing is paid for huge pages behind the last MVLD_MOVE_HOT */
};

/* Who gets the names of moved code, or-ed. */
#define MVLD_NAMES_DEBUGGERS 1u /* GDB and LLDB, by the JIT interface of GDB */
#define MVLD_NAMES_PERF 2u      /* perf, by /tmp/perf-PID.map */

/* Code that moves as a whole: some functions of an object that follow each other. */
struct mvld_fragment {
    uintptr_t original; /* where it was mapped */
    size_t size;
};

#define MVLD_MOVE_HOT 1u /* it begins where it lies best in the lines of the caches */

/* ---- log categories: the words of MVLD_DEBUG --------------------------- */

enum mvld_log_category {
    MVLD_LOG_FILES = 1,
    MVLD_LOG_PASSES = 2,
    MVLD_LOG_PATCH = 4,
    MVLD_LOG_IMAGE = 8,
    MVLD_LOG_STATISTICS = 16,
    MVLD_LOG_VERIFY = 32,
    MVLD_LOG_WARNING = 64 /* always recorded; shown when any category is */
};

/* ---- what mvld offers --------------------------------------------------- */

struct mvld_api {
    /* Objects.  Order is that of the link map; index < object_count.  The
     * pointers stay good until the object is removed.  [any thread] */
    size_t (*object_count)(const struct mvld_image *);
    const struct mvld_object *(*object_at)(const struct mvld_image *, size_t index);
    /* The object whose segments hold `address`, or NULL. */
    const struct mvld_object *(*object_find)(const struct mvld_image *, uintptr_t address);
    /* 1 when [address, address + length) lies inside one segment of `object` that
     * has at least `prot`, else 0.  Never reads the memory.  [any thread] */
    int (*object_holds)(const struct mvld_object *, uintptr_t address, size_t length,
                        uint32_t prot);

    /* Each note of `object` named `name` (NUL-terminated) of `type`.  The visitor
     * gets a descriptor that lies whole inside the object's memory; a visitor's
     * value other than 0 ends the walk and is returned.  Without a visitor: 1 when there is
     * one.  -ENOEXEC: notes are truncated. */
    int (*note_each)(const struct mvld_object *, const char *name, uint32_t type,
                     int (*visit)(void *cookie, const void *desc, size_t size), void *cookie);

    /* The definition of `name` (any version when `version` is NULL) in `object`
     * alone.  -ENOENT when it has none. */
    int (*symbol_find)(const struct mvld_object *, const char *name, const char *version,
                       struct mvld_symbol *out);
    /* The definition that the global scope finds first.  -ENOENT. */
    int (*symbol_resolve)(const struct mvld_image *, const char *name, const char *version,
                          struct mvld_symbol *out);
    /* Follows a PLT entry at `address` to the function that it ends at, bound or
     * not.  `address` itself when it is no PLT entry.  */
    uintptr_t (*plt_target)(const struct mvld_image *, uintptr_t address);

    /* Patches.  [any thread], serialised by one process-wide lock.
     * begin: NULL when out of memory.  add: -EINVAL, -ENOMEM.  commit: applies
     * those that verify, reports the others in their `result`; returns 0, or
     * negative errno when nothing at all was changed.  The batch stays readable
     * until end.  Protections afterwards are what they were before; no page is
     * ever writable and executable. */
    struct mvld_batch *(*patch_begin)(struct mvld_image *);
    int (*patch_add)(struct mvld_batch *, uintptr_t address, const void *expect,
                     const void *replace, size_t length);
    int (*patch_commit)(struct mvld_batch *, struct mvld_patch_report *);
    size_t (*patch_count)(const struct mvld_batch *);
    const struct mvld_patch *(*patch_at)(const struct mvld_batch *, size_t index);
    void (*patch_end)(struct mvld_batch *);

    /* Memory, zeroed, 16-byte aligned, from mvld's own pages.  NULL when there is
     * none.  release(NULL) is nothing.  [any thread] */
    void *(*alloc)(struct mvld_image *, size_t size);
    void (*release)(struct mvld_image *, void *);

    /* Records the sentence for an error and returns -err.  Formats: %s %d %u %x
     * %p %zu %ld %lu %lx %c %%, no width but %02x and %016lx. */
    int (*fail)(struct mvld_image *, int err, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
    /* The last recorded sentence, "" when none. */
    const char *(*last_error)(const struct mvld_image *);
    /* One line, when the category is on.  [any thread] */
    void (*log)(const struct mvld_image *, uint32_t category, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
    int (*log_enabled)(const struct mvld_image *, uint32_t category); /* 1 or 0 */
    void (*vlog)(const struct mvld_image *, uint32_t category, const char *format, va_list);

    /* Slots and references: for the thread that loads, inside run and added.
     *
     * The i-th slot of `object`, or the one at `address`.  Its answer is exact: what the
     * memory holds, or, of a lazy one, what the host loader is certain to find.  A slot
     * that was bound by now must not be asked for again later: its target may be gone.
     * 0; -ENOENT: no such slot; -ENOMEM. */
    int (*slot_at)(struct mvld_image *, const struct mvld_object *, size_t index,
                   struct mvld_slot *out);
    int (*slot_find)(struct mvld_image *, const struct mvld_object *, uintptr_t address,
                     struct mvld_slot *out);
    /* Who watches calls on their way through PLT and GOT (auditing, profiling; a sentence),
     * so that they must keep going there; or NULL. */
    const char *(*auditor)(const struct mvld_image *);
    /* Each reference of `object`, by ascending site, as its analysis (`mvld analyze`)
     * lists them; a visitor's value other than 0 ends the walk and is returned.
     * -ENODATA, with a sentence in *why, good until the next call: there is no analysis of
     * exactly this object. */
    int (*reference_each)(struct mvld_image *, const struct mvld_object *,
                          int (*visit)(void *cookie, const struct mvld_reference *),
                          void *cookie, const char **why);

    /* Commits will come often, at the program's own wish.  From now on mvld may
     * keep a descriptor open between them, as rimf/patch/maps.c describes; else it
     * never does.  [any thread] */
    void (*patch_often)(struct mvld_image *);

    /* For passes with MVLD_PASS_FREEZES: what they changed in `object` (applied patches)
     * is right as long as the same files lie at the same distances and the 8-aligned word
     * at `word`, in the memory of any object, points to the same place as now.  0 also
     * for no word: the change relies on nothing more.  Nearly free when nothing will be
     * frozen.  0, -ENOMEM, -EINVAL; -ENOTSUP: the object is unplaced (MVLD_OBJECT_UNPLACED), and
     * must stay as it is.  That no distance leads to such an object the pass sees to. */
    int (*depends)(struct mvld_image *, const struct mvld_object *object, uintptr_t word);

    /* n patches at base + offset, by ascending address; one whose word of `expect` equals
     * that of `replace` is left out.  The arrays are not copied: they stay as they are
     * until patch_end.  patch_count and patch_at list these patches too, in the same
     * order behind those of patch_add, but only after a commit that refused some, or
     * failed.  [any thread] -EINVAL, -ENOMEM. */
    int (*patch_add_words)(struct mvld_batch *, uintptr_t base, const struct mvld_word *,
                           const uint64_t *expect, const uint64_t *replace, size_t n);

    /* Moved code, as rimf/moved/moved.h describes: for the thread that loads, inside run and added, of
     * passes with MVLD_PASS_MOVES.
     *
     * region_open: code can move, to the addresses that libconcat.so.1 reserves.  `pages` counts in the first
     * call of a process (not where it started from an image, which has its own); `names` (MVLD_NAMES_*) holds
     * for what moves in this call of the pass.  Negative errno with a sentence (static) in *why: none can.
     * fragments: the smallest fragments into which the code of `object` can be cut, by address: how many,
     * and as many of them as there is room for.  0, with a sentence (static) in *why: it cannot.
     * fragment_move: declares that a fragment moves, or several neighbours as one, or, with NULL, all code
     * of `object` that can, as one block: `gap` bytes behind what was declared before.  What leads to it
     * follows.  Fragments of an object that are not declared together with its others stay.  Moved when
     * the pass has returned 0, all or none.  Negative errno with a sentence (static) in *why: it stays. */
    int (*region_open)(const struct mvld_context *, enum mvld_pages pages, uint32_t names,
                       const char **why);
    size_t (*fragments)(struct mvld_image *, const struct mvld_object *, struct mvld_fragment *,
                        size_t room, const char **why);
    int (*fragment_move)(struct mvld_image *, const struct mvld_object *,
                         const struct mvld_fragment *, size_t gap, uint32_t flags,
                         const char **why);
    /* Where the code was mapped that an address in moved code is of, or 0.  [any thread, also from a
     * signal handler] */
    uintptr_t (*original_of)(const struct mvld_image *, uintptr_t address);
    /* Where the code at [original, original + length), inside one function, runs, for who changes it
     * while the program runs: *moved is where it moved to, or 0.  1: it runs where it was mapped,
     * too, and must be changed at both places; 0: only where it moved to, for a jump there stands
     * over those bytes, and belongs to mvld; 2: where it was mapped, as all code of its object.
     * [any thread] */
    int (*moved_find)(const struct mvld_image *, uintptr_t original, size_t length, uintptr_t *moved);

    /* What a file holds that the user named for one of the pass's options (MVLD_OPTION_FILE), ended with
     * NUL; to be released.  NULL, with a sentence: it cannot be read, is no regular file, or is larger than
     * MVLD_FILE_MAX.  For the thread that loads. */
    char *(*file_read)(const struct mvld_context *, const struct mvld_setting *, size_t *size);
    /* Fills [to, to + size), of at most 256 bytes, with numbers by chance, of the kernel's.  0, -EAGAIN: it
     * has none yet, -EINVAL. */
    int (*random)(const struct mvld_image *, void *to, size_t size);

    /* What a slot is called, as slot_find says, and nothing else: NULL when it has no name. */
    const char *(*slot_name)(struct mvld_image *, const struct mvld_object *, uintptr_t address);

    /* Memory for code or data of the pass, zeroed, in whole pages, within reach of the calls of all objects
     * that lie near the program.  It can be written; code until the pass returns: it is executed from then
     * on, and never written again, and calls may lead there (calls_retarget).  It is never given back.
     * For the thread that loads, inside run and added.  NULL, with a sentence: there is no room near the
     * program (`placement = as-is`), the size is 0 or above MVLD_SECTION_MAX, or an image is made. */
    void *(*section_add)(const struct mvld_context *, enum mvld_section_kind, size_t size);

    /* For the stage relocate.  Every look-up of `symbol` in its object, by relocation or dlsym, finds the
     * function `to` from now on; or nothing, as if the object did not define it.  Who has a definition from
     * symbol_find names with its version that version alone, else the default one.  What was bound when an
     * object was linked asks nobody, and stays.  Declared: made when the pass has returned 0, all or none.
     * 0; -EPERM: it is another stage; -ENOENT; -EINVAL: not a function (bind), thread-local or unique
     * (hide); -ENOTSUP: the object's symbols lie beside its code; -EEXIST, -ENOMEM. */
    int (*symbol_bind)(struct mvld_image *, const struct mvld_symbol *symbol,
                       const struct mvld_symbol *to);
    int (*symbol_hide)(struct mvld_image *, const struct mvld_symbol *symbol);

    /* Declares a rule for the calls of `object` through PLT and GOT, as its analysis lists them.
     * Nothing is changed yet: when the pass has run, or when code has been moved, each place is
     * compared with what the analysis says, where it shall lead is verified (code of an object, within
     * reach; not the vDSO's, nor the host loader's), and it becomes a direct call; and what the rule
     * relied on is noted for images of the program.  What stays, and why, the log says, and counts
     * (MVLD_LOG_PASSES).  Where calls are watched on their way (auditor) they stay.
     * For the thread that loads, inside run and added.
     * 0; -EEXIST: another pass's rule is not realised yet, -EINVAL, -ENOMEM. */
    int (*calls_retarget)(const struct mvld_context *, const struct mvld_object *,
                          mvld_calls_rule *, uint32_t flags);
};

/* ---- options ------------------------------------------------------------ */

enum mvld_option_type {
    MVLD_OPTION_BOOL = 1, /* 0 or 1; yes, no, on, off, true, false, 1, 0 */
    MVLD_OPTION_INT,      /* int64_t, min <= value <= max; decimal or 0x */
    MVLD_OPTION_WORD,     /* one of `words` */
    MVLD_OPTION_STRING,
    MVLD_OPTION_PREFIX,   /* `name` is a prefix such as "set."; any number of keys,
                             each a string: they follow each other in the settings */
    MVLD_OPTION_WORDS,    /* some of `words` (at most MVLD_WORDS_MAX), none twice, by preference: "thp, small" */
    MVLD_OPTION_FILE      /* a string, the path of a file that the pass reads, or "": a frozen image is
                             not taken when there is another file than when it was made */
};

struct mvld_option {
    const char *name;
    enum mvld_option_type type;
    int64_t min, max;
    const char *initial;       /* default, as text; NULL: none, its setting's text is NULL */
    const char *const *words;  /* MVLD_OPTION_WORD, MVLD_OPTION_WORDS: NULL-terminated */
    const char *help;          /* one line */
};

/* One configured value, checked against the declaration. */
struct mvld_setting {
    const char *name; /* whole key, "set.config_smp" */
    const char *text; /* NULL: nothing was said and there is no default */
    int64_t number;   /* BOOL, INT; index into words for WORD; WORDS: see below */
    const char *file; /* where it was said; "" for a default */
    unsigned line;
};

#define MVLD_WORDS_MAX 15u /* of MVLD_OPTION_WORDS: four bits of a number for each */

/* The i-th of the words that were said, as an index into `words`, or -1: there are no more. */
static inline int mvld_setting_word(const struct mvld_setting *setting, unsigned i)
{
    return i < MVLD_WORDS_MAX ? (int)(setting->number >> 4 * i & 15) - 1 : -1;
}

/* ---- what a pass gets and gives ------------------------------------------ */

struct mvld_context {
    const char *pass; /* its name */
    const struct mvld_api *api;
    struct mvld_image *image;
    void **state;                          /* the pass's own, kept between calls */
    const struct mvld_setting *settings;   /* every option in its order, defaults included */
    size_t n_settings;
};

/* Bits of `flags`. */
#define MVLD_PASS_ANALYSIS 1u /* reads what `mvld analyze` found: the loader notes from which
                                 file each object comes */
#define MVLD_PASS_FREEZES 2u  /* what `run` does is nothing but patches, said by `depends`, and
                                 moved code: it
                                 may be kept and mapped by later processes, in which `run` is
                                 then not called (`added` and `removed` are, with a NULL state) */
#define MVLD_PASS_MOVES 4u /* it moves code (fragment_move): what passes before it declared waits for it.
                              Its `library` reserves the addresses: it is left out where address space is
                              limited (RLIMIT_AS), and where calls are watched (LD_AUDIT) */

/* A file of which an object is about to be mapped. */
struct mvld_file {
    const char *name;  /* its real path, where the kernel tells one */
    uint32_t flags;    /* MVLD_OBJECT_MAIN: the executable, unless mvld was run as a program */
    const void *bytes; /* all of it, readable while the pass is asked */
    size_t size;
};

struct mvld_pass {
    uint32_t abi;  /* MVLD_PASS_ABI */
    const char *name; /* [a-z0-9-], the file is <name>.so */
    const char *help; /* one line */
    /* NULL-terminated lists of pass names, or NULL. */
    const char *const *requires_passes; /* must be in the pipeline too */
    const char *const *after;           /* when present, must come before this one */
    const char *const *conflicts;       /* must not be in the pipeline */
    const struct mvld_option *options;  /* ends with .name == NULL; or NULL */
    /* A shared object that the loader puts into the global scope when the pass is
     * in the pipeline ("libmultiverse.so.1"), or NULL.  A name is looked for beside
     * the pass, in MVLD_PASS_PATH, in mvld's libdir; else it is an absolute path. */
    const char *library;
    /* May be NULL, as those that follow.  A file is about to be mapped, and nothing of it can have run:
     * 0, or negative errno with a sentence (fail): it must not be.  Then the program does not start, or
     * the dlopen fails, as for any file that cannot be mapped.  The image has no objects yet, at the start;
     * asked are alloc, release, fail and log.  Also asked at starts from a frozen image: such a pass has not
     * MVLD_PASS_FREEZES.  The host loader is not asked about. */
    int (*map)(const struct mvld_context *, const struct mvld_file *);
    /* Objects are mapped, each as soon as it is, and nothing of the start, or of the dlopen that they belong
     * to, is relocated: symbols can be changed (symbol_bind, symbol_hide).  The image of this stage has all
     * objects that are mapped so far; its objects are other ones than those of run and added, and memory from
     * alloc stays.  No image of the program is made or used.  An error: none of the edits is made. */
    int (*relocate)(const struct mvld_context *, const struct mvld_object *const *objects, size_t n);
    int (*run)(const struct mvld_context *);
    int (*added)(const struct mvld_context *, const struct mvld_object *const *objects,
                 size_t n);
    void (*removed)(const struct mvld_context *, const struct mvld_object *const *objects,
                    size_t n);
    uint32_t flags; /* MVLD_PASS_*, or-ed */
    /* Why the pass has nothing to do in any program with these settings (a sentence, static), or
     * NULL: it has.  May be NULL itself.  Asked before anything else of the pass runs, also by
     * `mvld pipeline`: it looks at nothing but the settings.  A pass that says so counts as one that
     * did its work for those that require it; its library is not brought, none of its functions is
     * called. */
    const char *(*idle)(const struct mvld_setting *settings, size_t n);
    /* NULL-terminated list of pass names, or NULL.  Where one of them is in the pipeline, this pass
     * runs behind it, whichever is named first: either order means the same (`after` refuses). */
    const char *const *behind;
};

#endif
