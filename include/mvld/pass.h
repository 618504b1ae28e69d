/* SPDX-License-Identifier: MIT
 *
 * mvld/pass.h: what a pass is, and the functions that mvld offers to it.
 *
 * Overview
 *
 *   A pass is a self-contained shared object in mvld's pass folder.  It defines one symbol, `mvld_pass`, a
 *   `const struct mvld_pass` with its name, requirements, options and functions.  The pass manager maps the
 *   object (RELATIVE relocations only, no DT_NEEDED, no undefined symbols, no TLS, no constructors), checks the
 *   declarations of the whole pipeline, and calls the functions with a context.  There are four stages:
 *
 *     map      for each file, before it is mapped: the pass can refuse it
 *     relocate for objects that are mapped, before anything is relocated: the pass can change symbols
 *     run      for the objects of the start, and then for those of each dlopen: they are relocated, and none of
 *              their constructors has run
 *     removed  for objects that are closed and already unmapped: the pass forgets them, and touches none of
 *              their memory
 *
 *   A pass runs before libc is usable: build it with -ffreestanding -fno-stack-protector -mgeneral-regs-only
 *   -fPIC, without libc.  It calls mvld through `ctx->api` only, and never another pass: passes meet in the image.
 *
 *   The image is tables: objects, symbols, domains, sections (pass/objects.h), slots and references
 *   (pass/references.h), functions and instructions (pass/code.h).  A pass declares edits of them.  An edit is
 *   checked when it is declared.  It is kept if the pass's function returns 0; otherwise all of its edits are
 *   dropped.  Each edit belongs to one stage; in another stage it is refused (-EPERM):
 *
 *     map       none: the pass looks at the file (file_object) and may refuse it
 *     relocate  symbol_bind, symbol_hide
 *     run       section_add, section_remove, code_add, section_protect, domain_add, domain_move, calls_retarget,
 *               reference_retarget, code_splice, code_remove, fragment_move
 *
 *   A query returns what earlier passes want (`target`), and also what memory contains (`found`).  A later pass
 *   may want something else.  Memory is changed once, after the last pass.  There are two exceptions: the edits of
 *   earlier passes are made before a pass uses patch_begin or code_add, which depend on the new bytes; and patches
 *   of code (pass/patches.h) are made when they are committed.
 *
 *   Every pass needs options (pass/options.h) and the first parts of struct mvld_api.  Passes that move code need
 *   pass/moved.h; passes that patch bytes of code need pass/patches.h.
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
 * Errors are negative errno (a positive value counts as -EPROTO).  `fail` records the sentence that explains an
 * error, and MVLD_DEBUG shows it.  If the `run` of a pass fails, the failure is reported, and the program runs
 * with what the earlier passes did.
 *
 * Thread-safety: the functions of a pass are called one at a time, by the thread that loads.  Functions of the
 * api that are marked [any thread] may be called later from other threads; such a pass guards its own state.
 */
#ifndef MVLD_PASS_H
#define MVLD_PASS_H

#include <stddef.h>
#include <stdint.h>

#include <mvld/pass/code.h>
#include <mvld/pass/moved.h>
#include <mvld/pass/objects.h>
#include <mvld/pass/options.h>
#include <mvld/pass/patches.h>
#include <mvld/pass/references.h>

#define MVLD_PASS_ABI 9u

struct mvld_image;  /* opaque: the description of all objects */
struct mvld_api;    /* below */
struct mvld_batch;  /* opaque: patches that are applied together */

/* ---- what a pass gets and gives ------------------------------------------ */

struct mvld_context {
    const char *pass; /* its name */
    const struct mvld_api *api;
    struct mvld_image *image;
    void **state;                          /* the pass's own; kept between calls */
    int later;                             /* relocate, run: 1 for objects of a dlopen, 0 for those of the start */
    const struct mvld_setting *settings;   /* every option, in order of declaration, with defaults */
    size_t n_settings;
    uint64_t *matched;                     /* used by mvld */
};

/* Bits of `flags`. */
#define MVLD_PASS_ANALYSIS 1u /* uses the results of `mvld analyze`: the loader notes the file of each object */
#define MVLD_PASS_FREEZES 2u  /* The effects of `run` can be kept in a snapshot: edits, and patches whose
                               * dependencies the pass named (depends).  A process that starts from the snapshot
                               * does not call `run` for the objects of its start.  It does for objects of
                               * dlopen, with a NULL state */
#define MVLD_PASS_MOVES 4u /* it moves code (fragment_move).  Its `library` reserves the addresses, and is left
                            * out if address space is limited (RLIMIT_AS) or calls are audited (LD_AUDIT) */
#define MVLD_PASS_VARIANTS 8u /* it patches what multiverse's notes (mvld/descriptor.h) describe, in moved code, too.
                               * Without such a pass the code of objects with these notes is not moved */

/* A file that is about to be mapped as an object. */
struct mvld_file {
    const char *name;  /* the name that the object will have (mvld_object) */
    uint32_t flags;    /* MVLD_OBJECT_MAIN: the executable, unless mvld was run as a program */
    const void *bytes; /* the whole file; valid during the call */
    size_t size;
    uintptr_t address; /* of the executable, if it is already mapped; else 0 */
    const char *path;  /* its real path if the kernel gives one; else `name` */
};

struct mvld_pass {
    uint32_t abi;  /* MVLD_PASS_ABI */
    const char *name; /* [a-z0-9-]; the file is <name>.so */
    const char *help; /* one line */
    const struct mvld_option *options;  /* ends with .name == NULL; or NULL */
    /* A shared object that the loader adds to the global scope while the pass is in the pipeline
     * ("libmultiverse.so.1"), or NULL.  A file name is looked for beside the pass, in MVLD_PASS_PATH, and in
     * mvld's libdir; otherwise this is an absolute path. */
    const char *library;
    /* This and the following functions may be NULL.  map is called before a file is mapped, when none of its
     * code can have run.  Returns 0, or negative errno with a sentence (fail) to refuse the file.  Then the
     * program does not start, or the dlopen fails, as for a file that cannot be mapped.  The sentence is
     * written to standard error; once the program runs, only if standard error is no regular file, which may be
     * the program's own.  At the start the image has no objects yet.  map may call alloc, release, fail, log,
     * random, file_read, and file_object (and what it serves).  It is also called at starts from a snapshot, so
     * such a pass does not have MVLD_PASS_FREEZES.  It is not called for the host loader. */
    int (*map)(const struct mvld_context *, const struct mvld_file *);
    /* relocate is called for each object as soon as it is mapped.  Nothing of its start, or of its dlopen, is
     * relocated yet, so symbols can be changed (symbol_bind, symbol_hide).  The image of this stage
     * has all objects mapped so far, except the vDSO and the host loader.  Its objects are not those of run;
     * memory from alloc remains valid.  A program with such a pass has no snapshot.  After an error none of the
     * pass's edits is made. */
    int (*relocate)(const struct mvld_context *, const struct mvld_object *const *objects, size_t n);
    /* run is called once with all objects of the start, in the order of the link map, and then with the objects
     * of each dlopen, with `later` set in the context.  A pass that failed at the start is not called again. */
    int (*run)(const struct mvld_context *, const struct mvld_object *const *objects, size_t n);
    /* removed is called for objects that relocate or run was called with and that are closed, by dlclose or by
     * a dlopen that failed.  Objects of the two images come in separate calls, with that image in the context.
     * Their memory is unmapped; their descriptions are valid until the call returns. */
    void (*removed)(const struct mvld_context *, const struct mvld_object *const *objects,
                    size_t n);
    uint32_t flags; /* MVLD_PASS_*, or-ed */
    /* Returns a static sentence if the pass has nothing to do in any program with these settings, or NULL.  The
     * function is called before any other of the pass, also by `mvld pipeline`, and looks at the settings only.
     * Of an idle pass the library is not added, and no function is called. */
    const char *(*idle)(const struct mvld_setting *settings, size_t n);
    /* NULL-terminated list of pass names, or NULL.  If one of them is in the pipeline, this pass runs after it,
     * in whichever order they are configured. */
    const char *const *behind;
};

/* ---- log categories: the words of MVLD_DEBUG --------------------------- */

enum mvld_log_category {
    MVLD_LOG_FILES = 1,
    MVLD_LOG_PASSES = 2,
    MVLD_LOG_PATCH = 4,
    MVLD_LOG_IMAGE = 8,
    MVLD_LOG_STATISTICS = 16,
    MVLD_LOG_WARNING = 64 /* always recorded; shown if any category is on */
};

/* ---- what mvld offers --------------------------------------------------- */

/* A function that gets NULL, or a struct of zeros, for a required pointer does nothing.  It returns -EPERM in a
 * wrong stage, else -EINVAL, NULL, or 0 (moved_find: 2).  Other invalid pointers are not detected. */

struct mvld_api {
    /* ---- What is said, and memory ---------------------------------------------- */

    /* Records the sentence for an error and returns -err.  Formats: %s %d %u %x %p %zu %ld %lu %lx %c %%, no
     * width but %02x and %016lx. */
    int (*fail)(struct mvld_image *, int err, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
    /* Returns the last recorded sentence, or "". */
    const char *(*last_error)(const struct mvld_image *);
    /* Writes one line if the category is on.  [any thread] */
    void (*log)(const struct mvld_image *, uint32_t category, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
    int (*log_enabled)(const struct mvld_image *, uint32_t category); /* 1 or 0 */

    /* Zeroed memory, 16-byte aligned, from mvld's own pages; NULL if there is none.  release(NULL) does
     * nothing.  [any thread] */
    void *(*alloc)(struct mvld_image *, size_t size);
    void (*release)(struct mvld_image *, void *);

    /* Reads the file that the user named in an option of the pass (MVLD_OPTION_FILE).  Returns its contents
     * with a NUL behind them, to be released.  NULL, with a sentence: the file cannot be read, is no regular
     * file, or is larger than MVLD_FILE_MAX.  For the thread that loads, in every stage. */
    char *(*file_read)(const struct mvld_context *, const struct mvld_setting *, size_t *size);
    /* Fills [to, to + size), at most 256 bytes, with random bytes of the kernel.  Returns 0, -EAGAIN if the
     * kernel has none yet, or -EINVAL. */
    int (*random)(const struct mvld_image *, void *to, size_t size);

    /* Finds the definition that an MVLD_OPTION_SYMBOL names, in the first object of that name that defines it.
     * For the thread that loads, inside relocate, run, or removed.  Returns 0; -ENOENT: no object defines it
     * now; -EINVAL: not a setting of the pass, or without a value. */
    int (*setting_symbol)(const struct mvld_context *, const struct mvld_setting *, struct mvld_symbol *out);

    /* ---- What is there: objects and their parts -------------------------------- */

    /* Objects, in the order of the link map; index < object_count.  A pointer is valid until the object is
     * removed.  [any thread] */
    size_t (*object_count)(const struct mvld_image *);
    const struct mvld_object *(*object_at)(const struct mvld_image *, size_t index);
    /* Returns the object with a segment that contains `address`, or NULL. */
    const struct mvld_object *(*object_find)(const struct mvld_image *, uintptr_t address);
    /* Returns 1 if [address, address + length) is inside one segment of `object` with at least `prot`, else 0.
     * Does not read the memory.  [any thread] */
    int (*object_holds)(const struct mvld_object *, uintptr_t address, size_t length,
                        uint32_t prot);

    /* Visits each note of `object` with this name (NUL-terminated) and type.  The visitor gets a descriptor
     * that is wholly inside the object's memory.  A visitor's value other than 0 ends the walk and is returned.
     * Without a visitor the function returns 1 if there is such a note.  -ENOEXEC: notes are truncated. */
    int (*note_each)(const struct mvld_object *, const char *name, uint32_t type,
                     int (*visit)(void *cookie, const void *desc, size_t size), void *cookie);

    /* Sections of an object, by address; with a NULL object those that passes added, the latest first.  NULL:
     * no such index or address.  A pointer is valid as long as the object. */
    const struct mvld_section *(*section_at)(const struct mvld_image *, const struct mvld_object *,
                                             size_t index);
    /* Gives the pages of a data section a protection (PROT_READ, PROT_WRITE, or 0: no access) and a protection key
     * (key_add; negative: none).  Declared: made after all else that passes want.  mvld does not read a protected
     * segment any more.  Code of the pass that calls go through opens it again, for a thread (wrpkru) or for all
     * threads (mprotect): passes/example/isolate.c.  A thread inherits the rights of a key from the thread that
     * creates it; signal handlers start without access.
     *
     * In the stage run.  Returns 0, or an error with a sentence: -EPERM: another stage; -EINVAL; -EEXIST: a pass
     * protects it already; -ENOTSUP: a snapshot is being made, the section shares its first page, the object must
     * not be changed, or the host loader binds slots in it at their first use, or reads the dynamic section in it;
     * -ENOMEM. */
    int (*section_protect)(const struct mvld_context *, const struct mvld_section *, uint32_t prot, int key);
    /* Allocates a protection key, from 1 on, by which this thread has no access.  In the stage run.  Negative errno
     * with a sentence: CPU or kernel have no keys, or no more. */
    long (*key_add)(const struct mvld_context *);

    /* Finds the definition of `name` in `object` only; any version if `version` is NULL.  Returns 0, or
     * -ENOENT. */
    int (*symbol_find)(const struct mvld_object *, const char *name, const char *version,
                       struct mvld_symbol *out);
    /* Visits each definition of `object` that look-ups may find, in the order of its symbol table.  A visitor's
     * value other than 0 ends the walk and is returned. */
    int (*symbol_each)(const struct mvld_object *,
                       int (*visit)(void *cookie, const struct mvld_symbol *), void *cookie);
    /* Finds the definition that comes first in the global scope.  Returns 0, or -ENOENT. */
    int (*symbol_resolve)(const struct mvld_image *, const char *name, const char *version,
                          struct mvld_symbol *out);
    /* Returns the function that a PLT entry at `address` ends at, bound or not; `address` itself if it is no
     * PLT entry. */
    uintptr_t (*plt_target)(const struct mvld_image *, uintptr_t address);

    /* ---- The stage map --------------------------------------------------------- */

    /* For the stage map.  Returns the file as an object: headers (phdr), segments, `why`, build-id, and what
     * note_each, symbol_find, symbol_each and object_holds return for objects.  Its segments are at `bias`, not
     * relocated; executable segments are zeros there: their code is at file->bytes + p_offset.  It is not one of the
     * image's objects, and valid until the pass returns or calls this again.  NULL, with a sentence: another stage, not
     * an ELF file for this machine with segments inside the file, or no memory. */
    const struct mvld_object *(*file_object)(const struct mvld_context *, const struct mvld_file *);

    /* ---- The stage relocate ---------------------------------------------------- */

    /* For the stage relocate.  symbol_bind: every look-up of `symbol` in its object, by relocation or dlsym,
     * finds the function `to`.  symbol_hide: such look-ups find nothing, as if the object did not define it.  A
     * symbol with a version (from symbol_find) names that version only, otherwise the default one.  References
     * that were bound when the object was linked do not change.  Declared: made after the pass returned 0, all
     * or none.  The object of `to` must stay as long as that of `symbol`, because nothing is bound back when it
     * is closed.  Returns 0; -EPERM: another stage; -ENOENT; -EINVAL: not a function (bind), thread-local or
     * unique (hide); -ENOTSUP: the object's symbols are next to its code; -EEXIST, -ENOMEM. */
    int (*symbol_bind)(struct mvld_image *, const struct mvld_symbol *symbol,
                       const struct mvld_symbol *to);
    int (*symbol_hide)(struct mvld_image *, const struct mvld_symbol *symbol);

    /* ---- Slots and references: where calls and pointers lead ------------------- */

    /* Slots and references: for the thread that loads, inside run.
     *
     * slot_at: the i-th slot of `object`.  The target is exact: the content of memory, or, for a lazy slot, the
     * target that the host loader is certain to find.  Do not query a bound slot again later: its target may
     * have been closed.  Returns 0; -ENOENT: no such slot; -ENOMEM. */
    int (*slot_at)(struct mvld_image *, const struct mvld_object *, size_t index,
                   struct mvld_slot *out);
    /* Visits each reference of `object` of these kinds, one kind after the other, those through slots by
     * ascending site.  A visitor's value other than 0 ends the walk and is returned.  -ENODATA, with a sentence
     * in *why that is valid until the next call: a kind in code was requested, and there is no analysis (`mvld
     * analyze`) of exactly this object; or a kind inside the object, and its code was moved. */
    int (*reference_each)(struct mvld_image *, const struct mvld_object *, uint32_t kinds,
                          int (*visit)(void *cookie, const struct mvld_reference *),
                          void *cookie, const char **why);

    /* Returns the symbol name of a slot, or NULL. */
    const char *(*slot_name)(struct mvld_image *, const struct mvld_object *, uintptr_t address);

    /* Declares a rule for the calls of `object` through PLT and GOT that its analysis lists.  The rule gets the
     * target that earlier passes want, and returns the target that this pass wants.  Nothing is changed yet.
     * After the last pass mvld compares each place with the analysis, verifies the target (code of an object,
     * within reach; not of the vDSO or the host loader), and makes the call direct.  mvld records what the
     * rules relied on, for snapshots.  The log lists and counts calls that stay, with reasons
     * (MVLD_LOG_PASSES).  If an auditor or a profiler counts calls in PLT and GOT, all stay.  For the thread that
     * loads, inside run.  Returns 0; -EEXIST: the pass has a rule for this object; -EINVAL, -ENOMEM. */
    int (*calls_retarget)(const struct mvld_context *, const struct mvld_object *, mvld_calls_rule *);

    /* Changes the target of one reference, as reference_each returned it: a CALL, LEA, SLOT or WORD that points
     * to the beginning of a function, or a WORD of DT_INIT_ARRAY or DT_FINI_ARRAY.  `target` is code of an object
     * (not of the vDSO or the host loader), or of a section that the pass added; for a reference in code it is
     * within 2 GiB.
     *
     * Declared: verified now, made after the last pass, all of one pass or none.  An earlier pass may have
     * changed the same reference; the reference's `found` as `target` undoes that.  A snapshot holds references in
     * code.
     *
     * The new target of a CALL must preserve whatever the old function preserves, including every register that
     * it happens not to change: compilers use such knowledge inside an object.
     *
     * Slots and words can be changed as long as no code of their object has run.  A call whose target
     * calls_retarget changed no longer reads its slot.  For the thread that loads, inside run.
     *
     * Returns 0, or an error with a sentence that names object and place: -EPERM: another stage; -EINVAL: no
     * such kind or object; -ENOTSUP: a kind that cannot be changed by itself, moved code, an object that must
     * not be changed, or a snapshot that cannot hold it; -ENODATA: no analysis; -ENOENT: not proven; -ESTALE:
     * it has another target now; -EBUSY: it may have been read, or calls are audited; -EFAULT: the target is no
     * such code; -ERANGE: the target is out of reach; -EEXIST: declared twice, or a pass removes the function;
     * -E2BIG: more than MVLD_RETARGETS_MAX; -ENOMEM. */
    int (*reference_retarget)(const struct mvld_context *, const struct mvld_reference *,
                              uintptr_t target);

    /* ---- Functions and instructions -------------------------------------------- */

    /* Functions and instructions (pass/code.h): for the thread that loads, inside run.
     *
     * Visits each function of `object`, by address.  A visitor's value other than 0 ends the walk and is
     * returned.  -ENODATA, with a sentence in *why that is valid until the next call: there is no analysis
     * (`mvld analyze`) of exactly this object.  -ENOMEM. */
    int (*function_each)(struct mvld_image *, const struct mvld_object *,
                         int (*visit)(void *cookie, const struct mvld_function *), void *cookie, const char **why);
    /* Finds the function that contains `address`.  Returns 0; -ENOENT: no known function; -ENOMEM. */
    int (*function_find)(struct mvld_image *, uintptr_t address, struct mvld_function *out);
    /* Visits each instruction of a decoded or movable function, by address, with the target that earlier passes
     * want.  As function_each; -ENODATA also if the function is not decoded, a pass removes it, or code of its
     * object moves. */
    int (*instruction_each)(struct mvld_image *, const struct mvld_function *,
                            int (*visit)(void *cookie, const struct mvld_instruction *), void *cookie,
                            const char **why);

    /* Calls `code` before the instruction at `address`, each time it is executed: see pass/code.h. */
    int (*code_splice)(const struct mvld_context *, uintptr_t address, mvld_splice_code *code, void *cookie);

    /* Turns the function into traps: see pass/code.h. */
    int (*code_remove)(const struct mvld_context *, const struct mvld_function *, uint32_t flags);

    /* ---- New code and data ----------------------------------------------------- */

    /* Maps zeroed memory for code or data of the pass, in whole pages, within reach of calls of all objects
     * near the program.  Data stays writable.  Code is writable until the pass returns; then it becomes
     * executable and read-only, and calls can be bound to it (calls_retarget).  Only section_remove frees
     * the memory.  For the thread that loads, inside run.  NULL, with a sentence: no free addresses near the
     * program (`placement = as-is`), the size is 0 or above MVLD_SECTION_MAX, there are MVLD_SECTIONS_MAX
     * sections, another stage, or a snapshot is being made. */
    void *(*section_add)(const struct mvld_context *, enum mvld_section_kind, size_t size);
    /* Unmaps a section that this pass added in the same call of `run`.  Returns 0, or an error with a sentence:
     * -EPERM: another stage; -EINVAL: no added section, or one of code_add; -EBUSY: another pass added it (the
     * sentence names that pass), or an earlier call of `run`; it is executable already; a declared edit points
     * into it. */
    int (*section_remove)(const struct mvld_context *, const struct mvld_section *);

    /* Adds a section of code like section_add, whose functions have names (MVLD_NAMES_*) and unwind tables:
     * exceptions pass through them, and backtraces, debuggers and profilers see them, as in any library.
     * `functions` ascend, do not overlap, and are copied.  The code is in the region of libconcat.so.1, which
     * dladdr returns for it.  The pass names this library (`library`).  It is left out where that of a
     * pass with MVLD_PASS_MOVES is, and then no code is added.  Unwinders know the code after the pass returned 0.
     * For the thread that loads, inside run of the start; of a dlopen only if there was a first call at the start.
     * NULL, with a sentence: as section_add; the region is missing or full, or code is about to move there
     * (fragment_move); functions overlap, have no name, or a frame that is not understood. */
    void *(*code_add)(const struct mvld_context *, size_t size, const struct mvld_new_function *functions, size_t n,
                      uint32_t names);

    /* ---- Patches of code, byte by byte ----------------------------------------- */

    /* Patches, in batches: see pass/patches.h.  [any thread] */
    struct mvld_batch *(*patch_begin)(struct mvld_image *);
    int (*patch_add)(struct mvld_batch *, uintptr_t address, const void *expect,
                     const void *replace, size_t length);
    int (*patch_commit)(struct mvld_batch *, struct mvld_patch_report *);
    const struct mvld_patch *(*patch_at)(const struct mvld_batch *, size_t index);
    void (*patch_end)(struct mvld_batch *);

    /* ---- Domains --------------------------------------------------------------- */

    /* Domains: objects that belong together, by a number.  Domain 0 exists from the start and gets every new object.
     * Domains protect nothing themselves: later passes read them.  domain_add and domain_move are for the stage run
     * (-EPERM) and the thread that loads.  domain_add copies the name, which is for logs, and returns the domain's
     * number, -E2BIG (MVLD_DOMAINS_MAX), or -ENOMEM.  domain_move returns 0; -EINVAL: no such domain; -ENOENT: the
     * object was closed. */
    long (*domain_add)(struct mvld_image *, const char *name);
    size_t (*domain_of)(const struct mvld_object *);
    int (*domain_move)(struct mvld_image *, const struct mvld_object *, size_t domain);

    /* ---- For passes that move code --------------------------------------------- */

    /* Moved code: see pass/moved.h. */
    int (*region_open)(const struct mvld_context *, enum mvld_pages pages, uint32_t names,
                       const char **why);
    size_t (*fragments)(struct mvld_image *, const struct mvld_object *, struct mvld_fragment *,
                        size_t room, const char **why);
    int (*fragment_move)(struct mvld_image *, const struct mvld_object *,
                         const struct mvld_fragment *, size_t gap, uint32_t flags,
                         const char **why);
    /* Returns the original address of an address in moved code, or 0.  [any thread, also from a signal handler] */
    uintptr_t (*original_of)(const struct mvld_image *, uintptr_t address);
    /* Tells where the code at [original, original + length), inside one function, runs, for passes that patch
     * while the program runs.  *moved is the address of its moved copy, or 0.  Returns 1: original and copy
     * run; patch both.  0: only the copy runs; mvld's jump is at the original and must not be changed.  2: the
     * code was not moved, nor any of its object.  In the stage run, call it after patch_begin.  [any thread] */
    int (*moved_find)(const struct mvld_image *, uintptr_t original, size_t length, uintptr_t *moved);

    /* ---- For passes whose work a snapshot holds, and that patch while the program runs --- */

    /* Says what the pass's patches of `object` depend on: see pass/patches.h. */
    int (*depends)(struct mvld_image *, const struct mvld_object *object, uintptr_t word);

    /* Adds n patches at base + offset: see pass/patches.h.  [any thread] */
    int (*patch_add_words)(struct mvld_batch *, uintptr_t base, const struct mvld_word *,
                           const uint64_t *expect, const uint64_t *replace, size_t n);

    /* Tells mvld that this program commits often.  mvld may then keep /proc/self/maps open between commits
     * (rimf/patch/maps.c); otherwise it never does.  [any thread] */
    void (*patch_often)(struct mvld_image *);
};

#endif
