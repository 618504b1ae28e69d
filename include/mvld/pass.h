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
 *     run      for the objects of the start, and then for those of each dlopen:
 *              they are relocated, and none of their constructors has run
 *     removed  for objects that are gone, already unmapped: forget them,
 *              touch none of their memory
 *
 *   A pass runs before libc is usable: build it with
 *   -ffreestanding -fno-stack-protector -mgeneral-regs-only -fPIC, no libc.
 *   It calls mvld through `ctx->api` alone, and never another pass: passes meet
 *   in the image.
 *
 *   The image is tables: objects, symbols, domains, sections (pass/objects.h), slots and
 *   references (pass/references.h), functions and instructions (pass/code.h).  Edits of them are
 *   declared: an edit says at once whether it can be, and counts when the pass's function has
 *   returned 0, all of them or none.  Each belongs to one stage; in another it is refused (-EPERM).
 *
 *   What is found and what is wanted are two things.  A query answers what the passes before want (`target`),
 *   and tells what is there (`found`); a pass behind may want it otherwise.  Memory is changed once, behind the
 *   last pass.  A pass that asks for bytes as they will be (patch_begin, moved_find, code_add, code_splice)
 *   meets what those before it want: that is made first.  Patches of code (pass/patches.h) are made when they
 *   are committed.
 *
 *     map       file_place
 *     relocate  symbol_bind, symbol_hide, symbol_add, section_add
 *     run       section_add, code_add, section_set_pages, domain_add, domain_move, calls_retarget,
 *               reference_retarget, code_splice, fragment_move
 *
 *   Each pass needs options (pass/options.h) and the first parts of struct mvld_api.  What passes need that move code
 *   is in pass/moved.h, and for those that patch code byte by byte in pass/patches.h.
 *
 * Example
 *
 *     #include <mvld/pass.h>
 *
 *     static int run(const struct mvld_context *ctx,
 *                    const struct mvld_object *const *objects, size_t n) {
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
 * Errors are negative errno (a positive value counts as -EPROTO); the sentence that explains one is recorded with
 * `fail` and shown by MVLD_DEBUG.  A pass whose `run` fails is reported and the
 * program runs on with what earlier passes did.
 *
 * Thread-safety: the functions of a pass are called one at a time, by the
 * thread that loads.  Of the api, functions marked [any thread] may be called
 * later from other threads; a pass that does so guards its own state.
 */
#ifndef MVLD_PASS_H
#define MVLD_PASS_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <mvld/pass/code.h>
#include <mvld/pass/moved.h>
#include <mvld/pass/objects.h>
#include <mvld/pass/options.h>
#include <mvld/pass/patches.h>
#include <mvld/pass/references.h>

#define MVLD_PASS_ABI 4u

struct mvld_image;  /* opaque: the one description of all objects */
struct mvld_api;    /* below */
struct mvld_batch;  /* opaque: patches that are applied together */

/* ---- what a pass gets and gives ------------------------------------------ */

struct mvld_context {
    const char *pass; /* its name */
    const struct mvld_api *api;
    struct mvld_image *image;
    void **state;                          /* the pass's own, kept between calls */
    int later;                             /* relocate, run: 1: the objects are of a dlopen, 0: of the start */
    const struct mvld_setting *settings;   /* every option in its order, defaults included */
    size_t n_settings;
    uint64_t *matched;                     /* mvld's own */
};

/* Bits of `flags`. */
#define MVLD_PASS_ANALYSIS 1u /* reads what `mvld analyze` found: the loader notes from which
                                 file each object comes */
#define MVLD_PASS_FREEZES 2u  /* nobody misses `run`, where what it did at the start is there: edits, and patches
                                 of which it said what they depend on.  That may be kept and mapped by later
                                 processes, in which `run` is then not called for the start (for dlopen it
                                 is, with a NULL state) */
#define MVLD_PASS_MOVES 4u /* it moves code (fragment_move).
                              Its `library` reserves the addresses: it is left out where address space is
                              limited (RLIMIT_AS), and where calls are watched (LD_AUDIT) */

/* A file of which an object is about to be mapped. */
struct mvld_file {
    const char *name;  /* as the object will be called (mvld_object) */
    uint32_t flags;    /* MVLD_OBJECT_MAIN: the executable, unless mvld was run as a program */
    const void *bytes; /* all of it, readable while the pass is asked */
    size_t size;
    uintptr_t address; /* where the executable lies, when it is mapped already; else 0 */
    const char *path;  /* its real path, where the kernel tells one; else as `name` */
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
     * the dlopen fails, as for any file that cannot be mapped; the sentence is on standard error (once the program
     * runs, not where that is a regular file: it may be one of its own).  The image has no objects yet, at the start;
     * asked are alloc, release, fail, log, random, file_read and file_place.  Also asked at starts from a snapshot: such a pass has not
     * MVLD_PASS_FREEZES.  The host loader is not asked about. */
    int (*map)(const struct mvld_context *, const struct mvld_file *);
    /* Objects are mapped, each as soon as it is, and nothing of the start, or of the dlopen that they belong
     * to, is relocated: symbols can be changed (symbol_bind, symbol_hide, symbol_add).  The image of this stage has all
     * objects that are mapped so far, but for the vDSO and the host loader; its objects are other ones than those of run, and
     * memory from alloc stays.  No snapshot of the program is made or used.  An error: none of the edits is made. */
    int (*relocate)(const struct mvld_context *, const struct mvld_object *const *objects, size_t n);
    /* The objects of the start, all of them, in the order of the link map; or those of one dlopen, with
     * `later` in the context.  A pass that failed at the start is not called again. */
    int (*run)(const struct mvld_context *, const struct mvld_object *const *objects, size_t n);
    /* Objects that relocate or run was called with are gone, by dlclose, or by a dlopen that failed; those of the two
     * images in calls of their own, with that image in the context.  Their memory is unmapped; what describes
     * them can be read until the call returns. */
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

/* A function that needs a pointer and gets NULL, or a struct of zeros, does nothing: its value is -EPERM in another
 * stage than its own, else -EINVAL, NULL, or 0 (moved_find: 2).  Other pointers to what is not there are not seen. */

struct mvld_api {
    /* ---- What is said, and memory ---------------------------------------------- */

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

    /* Memory, zeroed, 16-byte aligned, from mvld's own pages.  NULL when there is
     * none.  release(NULL) is nothing.  [any thread] */
    void *(*alloc)(struct mvld_image *, size_t size);
    void (*release)(struct mvld_image *, void *);

    /* What a file holds that the user named for one of the pass's options (MVLD_OPTION_FILE), ended with
     * NUL; to be released.  NULL, with a sentence: it cannot be read, is no regular file, or is larger than
     * MVLD_FILE_MAX.  For the thread that loads, in every stage. */
    char *(*file_read)(const struct mvld_context *, const struct mvld_setting *, size_t *size);
    /* Fills [to, to + size), of at most 256 bytes, with numbers by chance, of the kernel's.  0, -EAGAIN: it
     * has none yet, -EINVAL. */
    int (*random)(const struct mvld_image *, void *to, size_t size);

    /* The definition that a MVLD_OPTION_SYMBOL names, in the first object of that name that has it.  For the thread
     * that loads, inside relocate, run, or removed.
     * 0; -ENOENT: none has it now; -EINVAL: no such setting of the pass, or without a value. */
    int (*setting_symbol)(const struct mvld_context *, const struct mvld_setting *, struct mvld_symbol *out);

    /* ---- What is there: objects and their parts -------------------------------- */

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

    /* The real path of the file that the object was mapped from, as the kernel has it: no link is in it.  To be
     * released.  NULL: it is not known, or there is no memory.  For the thread that loads. */
    char *(*object_path)(struct mvld_image *, const struct mvld_object *);

    /* Each note of `object` named `name` (NUL-terminated) of `type`.  The visitor
     * gets a descriptor that lies whole inside the object's memory; a visitor's
     * value other than 0 ends the walk and is returned.  Without a visitor: 1 when there is
     * one.  -ENOEXEC: notes are truncated. */
    int (*note_each)(const struct mvld_object *, const char *name, uint32_t type,
                     int (*visit)(void *cookie, const void *desc, size_t size), void *cookie);

    /* Sections of an object, by address; with NULL those that passes added, the last first.  NULL: no such
     * index, or address.  Good as long as the object. */
    const struct mvld_section *(*section_at)(const struct mvld_image *, const struct mvld_object *,
                                             size_t index);
    const struct mvld_section *(*section_find)(const struct mvld_image *, uintptr_t address);
    /* Asks the kernel for such pages, at once: nothing that the program computes changes.  In the stage run
     * (-EPERM).  -EINVAL: no section, or AS_MAPPED; -ENOTSUP: a snapshot is made; or what the kernel says. */
    int (*section_set_pages)(struct mvld_image *, const struct mvld_section *, enum mvld_section_pages);

    /* The definition of `name` (any version when `version` is NULL) in `object`
     * alone.  -ENOENT when it has none. */
    int (*symbol_find)(const struct mvld_object *, const char *name, const char *version,
                       struct mvld_symbol *out);
    /* Each definition of `object` that look-ups may find, in the order of its table.  A visitor's value
     * other than 0 ends the walk and is returned. */
    int (*symbol_each)(const struct mvld_object *,
                       int (*visit)(void *cookie, const struct mvld_symbol *), void *cookie);
    /* The definition that the global scope finds first.  -ENOENT. */
    int (*symbol_resolve)(const struct mvld_image *, const char *name, const char *version,
                          struct mvld_symbol *out);
    /* Follows a PLT entry at `address` to the function that it ends at, bound or
     * not.  `address` itself when it is no PLT entry.  */
    uintptr_t (*plt_target)(const struct mvld_image *, uintptr_t address);

    /* ---- The stage map --------------------------------------------------------- */

    /* For the stage map.  The lowest page of the object lies at `address`, a multiple of a page, instead of
     * where the host loader would have it; of several calls the last counts.  What is nearer than 2 GiB to the
     * executable (file->address) can be called directly.  An address that is the same each time is one that
     * attackers know.  Not for what has its place already: the
     * executable, objects that are linked at a fixed address, or aligned to more than a page, for which the
     * host loader takes address space before it asks for the file.
     * 0, or with a sentence, and it lies where it would: -EPERM: another stage; -EINVAL: no page begins there;
     * -ENOTSUP: the above; -EEXIST: something lies there; or what the kernel says. */
    int (*file_place)(const struct mvld_context *, const struct mvld_file *, uintptr_t address);

    /* ---- The stage relocate ---------------------------------------------------- */

    /* For the stage relocate.  Every look-up of `symbol` in its object, by relocation or dlsym, finds the
     * function `to` from now on; or nothing, as if the object did not define it.  Who has a definition from
     * symbol_find names with its version that version alone, else the default one.  What was bound when an
     * object was linked asks nobody, and stays.  Declared: made when the pass has returned 0, all or none.
     * The object of `to` stays as long as that of `symbol`: nothing is bound back when it goes.
     * 0; -EPERM: it is another stage; -ENOENT; -EINVAL: not a function (bind), thread-local or unique
     * (hide); -ENOTSUP: the object's symbols lie beside its code; -EEXIST, -ENOMEM. */
    int (*symbol_bind)(struct mvld_image *, const struct mvld_symbol *symbol,
                       const struct mvld_symbol *to);
    int (*symbol_hide)(struct mvld_image *, const struct mvld_symbol *symbol);
    /* The same for a definition that `symbol->object` has not.  From now on each look-up that comes to the
     * object finds it, as if the object had been linked so: by relocation, weak or strong, lazy or not, of
     * any version, and by dlsym.  `object` is one of those that this call is for, or, until the start is relocated, a
     * library that a pass brings, which has room for MVLD_SYMBOLS_MAX in all.  `address` is in any
     * object that is mapped, which stays as long as this one, or in a section of the pass: in code
     * for STT_FUNC and STT_GNU_IFUNC; STT_OBJECT and STT_NOTYPE may be data.  STB_GLOBAL or STB_WEAK; no version.
     * The name is copied.  Tables of another size are in memory of their own, which is not given back: who reads
     * an object's DT_SYMTAB inside of its segments alone finds none.
     * 0; -EPERM: another stage; -EEXIST: the object defines it; -EINVAL: the above; -ENOTSUP: the object has no
     * DT_GNU_HASH, or there is none that is sound, or its room is full; -E2BIG: more than MVLD_SYMBOLS_MAX of this pass;
     * -ENOMEM. */
    int (*symbol_add)(const struct mvld_context *, const struct mvld_symbol *symbol);

    /* ---- Slots and references: where calls and pointers lead ------------------- */

    /* Slots and references: for the thread that loads, inside run.
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
    /* Each reference of `object` of these kinds (MVLD_REFERENCES), kind after kind; those through slots
     * by ascending site.  A visitor's value other than 0 ends the walk and is returned.
     * -ENODATA, with a sentence in *why, good until the next call: a kind of code is wanted, and there is
     * no analysis (`mvld analyze`) of exactly this object; or one inside of it, and its code was moved. */
    int (*reference_each)(struct mvld_image *, const struct mvld_object *, uint32_t kinds,
                          int (*visit)(void *cookie, const struct mvld_reference *),
                          void *cookie, const char **why);

    /* What a slot is called, as slot_find says, and nothing else: NULL when it has no name. */
    const char *(*slot_name)(struct mvld_image *, const struct mvld_object *, uintptr_t address);

    /* Declares a rule for the calls of `object` through PLT and GOT, as its analysis lists them: it is told
     * where the passes before want them, and says where they shall lead.
     * Nothing is changed yet: behind the last pass each place is
     * compared with what the analysis says, where it shall lead is verified (code of an object, within
     * reach; not the vDSO's, nor the host loader's), and it becomes a direct call; and what the rules
     * relied on is noted for snapshots of the program.  What stays, and why, the log says, and counts
     * (MVLD_LOG_PASSES).  Where calls are watched on their way (auditor) they stay.
     * For the thread that loads, inside run.
     * 0; -EEXIST: the pass has one, -EINVAL, -ENOMEM. */
    int (*calls_retarget)(const struct mvld_context *, const struct mvld_object *,
                          mvld_calls_rule *, uint32_t flags);

    /* Leads one reference elsewhere, as reference_each told it: a CALL, LEA, SLOT or WORD that leads to
     * the beginning of a function.  `target` is code of an object (not the vDSO's, nor the host loader's),
     * or of a section that the pass added, and within 2 GiB where the reference is one of code.
     * Or a JUMP_TABLE; then `target` is where an entry of the same table leads.
     * Declared: verified now, made behind the last pass, all of one pass or none.  A pass before may have wanted
     * it elsewhere.  A snapshot holds those of code.
     * Where a CALL leads must leave alone what the function that was called leaves alone, all registers that
     * it does not change included: compilers look into functions of the same object.
     * Slots, words and entries are changed as long as no code of their object has run; a call that a pass leads
     * elsewhere than its slot (calls_retarget) does not look at it any more.  For the thread that loads, inside run.
     * 0, or with a sentence that names object and place: -EPERM: another stage; -EINVAL: no such kind or
     * object; -ENOTSUP: a kind that cannot be led elsewhere by itself, code that was moved, an object that
     * must not be changed, or a snapshot that could not hold it; -ENODATA: no analysis; -ENOENT: not proven;
     * -ESTALE: it leads elsewhere by now; -EBUSY: it may have been read, or calls are watched; -EFAULT: the
     * target is no such code; -ERANGE: it is out of reach; -EEXIST: twice; -E2BIG: more than
     * MVLD_RETARGETS_MAX; -ENOMEM. */
    int (*reference_retarget)(const struct mvld_context *, const struct mvld_reference *,
                              uintptr_t target);

    /* ---- Functions and instructions -------------------------------------------- */

    /* Functions and instructions (pass/code.h): for the thread that loads, inside run.
     *
     * Each function of `object`, by address; a visitor's value other than 0 ends the walk and is returned.
     * -ENODATA, with a sentence in *why, good until the next call: there is no analysis (`mvld analyze`) of
     * exactly this object.  -ENOMEM. */
    int (*function_each)(struct mvld_image *, const struct mvld_object *,
                         int (*visit)(void *cookie, const struct mvld_function *), void *cookie, const char **why);
    /* The function that holds `address`.  0; -ENOENT: no function that is known; -ENOMEM. */
    int (*function_find)(struct mvld_image *, uintptr_t address, struct mvld_function *out);
    /* Each instruction of a function that is at least decoded, by address, as its bytes are now.  Likewise; -ENODATA
     * also: it is not decoded, or code of its object was moved. */
    int (*instruction_each)(struct mvld_image *, const struct mvld_function *,
                            int (*visit)(void *cookie, const struct mvld_instruction *), void *cookie,
                            const char **why);

    /* `code` runs before the instruction at `address`, which is executed then: with registers, flags and the
     * 128 bytes below the stack pointer as they were.  Of several at one place the one that was declared first
     * runs first; so do those of earlier passes.  In front of an endbr64 it runs behind it.
     * The pass brings libconcat.so.1 (`library`), as for code_add; unwinders see the program's own frames alone.
     * Declared: made when the pass has returned 0, all or none.  An object with splices is not moved by a pass
     * behind.  For the thread that loads, inside run of the start; of a dlopen, where there was a first at the start.
     * What can be spliced: instructions of five bytes or more, and calls, of decoded functions; and functions at
     * their entry.  0, or with a sentence that names object and place: -EPERM: another stage; -EINVAL: no object,
     * no code, or no instruction begins there; -ENODATA: its function is not proven, or has moved; -ENOTSUP: the
     * instruction cannot make way, or a snapshot is made; -EBUSY: a debugger is there; -EEXIST: a splice beside it
     * replaces it; -E2BIG, -ENOMEM. */
    int (*code_splice)(const struct mvld_context *, uintptr_t address, mvld_splice_code *code, void *cookie);

    /* ---- New code and data ----------------------------------------------------- */

    /* Memory for code or data of the pass, zeroed, in whole pages, within reach of the calls of all objects
     * that lie near the program.  It can be written; code until the pass returns: it is executed from then
     * on, and never written again, and calls may lead there (calls_retarget).  It is never given back.
     * For the thread that loads, inside run; inside relocate, for symbol_add: to what is added there run leads
     * nothing.  NULL, with a sentence: there is no room near the program (`placement = as-is`), the size is 0
     * or above MVLD_SECTION_MAX, there are MVLD_SECTIONS_MAX, it is another stage, or a snapshot is made. */
    void *(*section_add)(const struct mvld_context *, enum mvld_section_kind, size_t size);

    /* A section of code, as section_add, whose functions have names (MVLD_NAMES_*) and unwind tables: an
     * exception is thrown through them, and backtraces, debuggers and profilers see them, as of any library.
     * `functions` ascend, do not overlap, and are copied.  The code lies in the room of libconcat.so.1, which the
     * pass brings (`library`; where there is none, no code is added), and which dladdr names for it.  It is known
     * when the pass has returned 0.
     * For the thread that loads, inside run of the start; of a dlopen, where there was a first call at the start.
     * NULL, with a sentence: as section_add; the room is not there, is full, or code is about to move there
     * (fragment_move); functions overlap, have no name, or a frame that is not understood. */
    void *(*code_add)(const struct mvld_context *, size_t size, const struct mvld_new_function *functions, size_t n,
                      uint32_t names);

    /* ---- Patches of code, byte by byte ----------------------------------------- */

    /* Patches.  [any thread], serialised by one process-wide lock.
     * begin: NULL when out of memory, or in the stages map and relocate.  add: -EINVAL, -ENOMEM.  commit: applies
     * those that verify, reports the others in their `result`; returns 0, or
     * negative errno when nothing at all was changed.  The batch stays readable
     * until end.  Protections afterwards are what they were before; no page is
     * ever writable and executable.  An object whose code is changed inside run is not moved
     * by a pass behind it.  Code that moved is changed where it runs, and where it was mapped if it runs
     * there, too, in the same batch (moved_find), or not at all.
     * Outside of the pass's functions nobody may unmap, while a commit goes on, an object that it changes: the
     * process would end as if the program had written there.  `removed` comes behind dlclose, which is too late.
     * Who commits from a thread holds the objects, as the pass's library can (dlopen with RTLD_NOLOAD). */
    struct mvld_batch *(*patch_begin)(struct mvld_image *);
    int (*patch_add)(struct mvld_batch *, uintptr_t address, const void *expect,
                     const void *replace, size_t length);
    int (*patch_commit)(struct mvld_batch *, struct mvld_patch_report *);
    size_t (*patch_count)(const struct mvld_batch *);
    const struct mvld_patch *(*patch_at)(const struct mvld_batch *, size_t index);
    void (*patch_end)(struct mvld_batch *);

    /* ---- Domains --------------------------------------------------------------- */

    /* Domains.  NULL: no such index.  Changed in the stage run, by the thread that loads: add: its number,
     * the name is copied; -E2BIG, -ENOMEM.  move: -EINVAL: no such domain; -ENOENT: the object is gone.
     * Both: -EPERM: another stage. */
    size_t (*domain_count)(const struct mvld_image *);
    const struct mvld_domain *(*domain_at)(const struct mvld_image *, size_t index);
    long (*domain_add)(struct mvld_image *, const char *name);
    size_t (*domain_of)(const struct mvld_object *);
    int (*domain_move)(struct mvld_image *, const struct mvld_object *, size_t domain);

    /* ---- For passes that move code --------------------------------------------- */

    /* Moved code, as rimf/moved/moved.h describes: for the thread that loads, inside run, of
     * passes with MVLD_PASS_MOVES.
     *
     * region_open: code can move, to the addresses that libconcat.so.1 reserves.  `pages` counts in the first
     * call of a process (not where it started from a snapshot, which has its own); `names` (MVLD_NAMES_*) holds
     * for what moves in this call of the pass.  Negative errno with a sentence (static) in *why: none can.
     * fragments: the smallest fragments into which the code of `object` can be cut, by address: how many,
     * and as many of them as there is room for.  0, with a sentence (static) in *why: it cannot.
     * fragment_move: declares that a fragment moves, or several neighbours as one, or, with NULL, all code
     * of `object` that can, as one block: `gap` bytes behind what was declared before.  What leads to it
     * follows.  Fragments of an object that are not declared together with its others stay.  Moved when
     * the pass has returned 0, all or none.  Negative errno with a sentence (good until the next call) in *why: it stays; another pass may have moved it,
     * which the sentence names. */
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

    /* ---- For passes whose work a snapshot holds, and that patch while the program runs --- */

    /* For passes with MVLD_PASS_FREEZES that apply patches: edits note by themselves what they relied on.
     * What the pass changed in `object` is right as long as the same files lie at the same distances and the
     * 8-aligned word at `word`, in the memory of any object, points to the same place as now.  0 also
     * for no word: the change relies on nothing more.  A snapshot may lack patches of which
     * this is not said.  Nearly free when none is made.  0, -ENOMEM, -EINVAL; -ENOTSUP: the object is
     * unplaced (MVLD_OBJECT_UNPLACED), and must stay as it is.  That no distance leads to such an object the
     * pass sees to. */
    int (*depends)(struct mvld_image *, const struct mvld_object *object, uintptr_t word);

    /* n patches at base + offset, by ascending address; one whose word of `expect` equals
     * that of `replace` is left out.  The arrays are not copied: they stay as they are
     * until patch_end.  patch_count and patch_at list these patches too (two words
     * that are joined as one), in the same order behind those of patch_add, but only after a commit that
     * refused some, or failed.  Whether code moved is not looked at: ask moved_find.
     * [any thread] -EINVAL, -ENOMEM. */
    int (*patch_add_words)(struct mvld_batch *, uintptr_t base, const struct mvld_word *,
                           const uint64_t *expect, const uint64_t *replace, size_t n);

    /* Commits will come often, at the program's own wish.  From now on mvld may
     * keep a descriptor open between them, as rimf/patch/maps.c describes; else it
     * never does.  [any thread] */
    void (*patch_often)(struct mvld_image *);
};

#endif
