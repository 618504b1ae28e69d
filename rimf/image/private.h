/* SPDX-License-Identifier: MIT
 *
 * rimf/image/private.h: the image's inside, for the files of rimf/.
 *
 * There are readers in any thread, and one thread that updates.  A reader finds all objects through one
 * pointer, `table`, to an array that is never changed once published; rimf_table_enter() counts the reader
 * in, rimf_table_leave() out.  An update builds a new table, publishes it, and frees old ones only at a
 * moment when no reader is counted; until then they wait in `retired`.  Removed objects wait one update
 * longer, because the update that removes them returns them.
 */
#ifndef RIMF_IMAGE_PRIVATE_H
#define RIMF_IMAGE_PRIVATE_H

#include "rimf/base/address_set.h"
#include "rimf/base/alloc.h"
#include "rimf/elf/view.h"
#include "rimf/image/image.h"
#include "rimf/base/lock.h"
#include "rimf/base/log.h"
#include "rimf/base/sys.h"

#include <stdarg.h>

#define RIMF_BUILD_ID_MAX 64

struct rimf_patcher; /* rimf/patch/patch.c */
struct moved_code;  /* rimf/moved/moved.h */

#define OBJECT_PATCHED 1 /* a pass changed its code, byte by byte */
#define OBJECT_SPLICED 2 /* splices: code of passes runs before its instructions (code/splice.c) */
#define OBJECT_REMOVED 4 /* functions of it were removed (code/remove.c) */

struct rimf_object {
    struct mvld_object public; /* first: passes have pointers to it */
    struct elf_view view;      /* empty when opaque */
    const void *dynamic;       /* from the feeder: part of the object's identity */
    struct mvld_section *sections;
    size_t n_sections;
    size_t domain, domain_found;            /* wanted by that pass, until it is emitted; */
    const struct mvld_context *domain_by;   /* and before; NULL: it is the same */
    uint64_t seen; /* the last update that named it */
    uint64_t born; /* the first that did */
    int global;    /* there since the first update */
    int gone;      /* its memory must not be touched any more */
    struct rimf_edit *edit;   /* image/edits.h: what passes want of its calls, the first of them first */
    struct rimf_slots *slots; /* image/slots.c; NULL until asked for */
    struct rimf_words *words; /* image/reference_tables.c; likewise */
    struct opened_analysis *analysis; /* image/references.c; NULL until needed */
    struct rimf_object *next_gone;
    uint8_t build_id[RIMF_BUILD_ID_MAX];
    size_t moved;    /* moved/moved.h: the place in the list, from 1, of the first piece of its code;
                     * 0: none of it moved */
    struct moved_place *fragments; /* moved/fragments.c: all of them */
    size_t n_fragments, fragments_room;
    uint8_t *held;     /* moved/entries.c: for each unit, what holds its original address; or NULL */
    uintptr_t frames;  /* their unwind tables */
    size_t frames_size;
    int changed;    /* a pass said so (depends), while recording */
    int identified; /* `identity` is known */
    struct file_id identity;
    int settled;    /* checked whether `identity` is final (store/writer.h): */
    const char *unsettled;
    uint32_t number; /* store/manifest.h: the number, from 1; 0: it has none */
    int patched;    /* OBJECT_*: other than 0, it does not move any more, */
    const struct mvld_context *patched_by; /* as this pass changed it */
    int code_known; /* its code was the file's, byte for byte, before any pass changed it */
    int finished;   /* moved/moved.h: the addresses that it holds are what they will be */
    size_t room;           /* image/symbol_edits.c: spare space that its symbol tables get; */
    struct elf_more *more; /* the added symbols, */
    uintptr_t extended;    /* and, while that is done, the address of the new tables */
    int opened;     /* its RELRO is writable now, */
    int to_open;    /* and should be (store/apply_pointers.c) */
    int calls_direct; /* some were made so, where they stand or in moved code */
    int names_lent; /* a pass may have names that lie in its analysis */
};

/* One segment of one object; ordered by address (rimf_sort). */
struct rimf_place {
    uintptr_t start, end;
    struct rimf_object *object;
};

struct rimf_table {
    size_t n_objects, n_places;
    struct rimf_object **objects; /* in the order of the link map */
    struct rimf_place *places;
    struct rimf_table *next_retired;
};

/* The recorded dependencies of changes. */
struct rimf_watch {
    uintptr_t *words; /* words that they relied on */
    size_t n, room;
    uintptr_t *owners; /* for each, once the start is stored: the object whose code relies on it */
    size_t n_owners, owners_room;
    uintptr_t *pointers; /* words that the image relocated to moved code, before any code of the program ran */
    size_t n_pointers, pointers_room;
    int incomplete; /* out of memory: nothing can be stored */
};

/* The choice of an IFUNC's resolver, found in slots (image/slots.c). */
struct rimf_choice {
    uintptr_t ifunc; /* the resolver; 0: free */
    uintptr_t shown; /* the slot that has it; 0: none does */
    uintptr_t target;
    uint64_t update; /* of the image, at that time */
};
#define RIMF_CHOICES 64u

/* Objects without a slot that points into this one (image/slots_lazy.c). */
struct rimf_shown {
    const struct mvld_object *of;
    uint64_t update; /* of the image, at that time */
    uint64_t none;   /* one bit each, of the first 64 */
};

/* A reference whose target a pass changes (image/retarget.c). */
struct rimf_retarget {
    const struct mvld_context *ctx;
    struct rimf_object *object;
    uintptr_t at;    /* its word, its entry, or the displacement of its instruction */
    uintptr_t next;  /* the address from which that counts; 0: not a displacement */
    uintptr_t table; /* the table of the entry; 0: no entry */
    uintptr_t target;
    uintptr_t found; /* where it led: `target` again, where what was wanted before is taken back */
    uint64_t old;    /* what is there */
};

struct rimf_retargets {
    struct rimf_retarget *list; /* in order of declaration */
    size_t n, room;
    const struct mvld_context *refused; /* the pass of the last that could not be made */
    size_t own;                     /* start of the last pass's */
    struct rimf_address_set places; /* for each the index of the last one, from 1, which is the valid one */
};

/* One that a pass added (image/sections.c). */
struct new_section {
    struct new_section *next;
    const struct mvld_context *owner;
    struct mvld_section public;
};

/* A function that a pass removes (code/remove.c). */
struct rimf_removal {
    const struct mvld_context *ctx;
    struct rimf_object *object;
    uintptr_t start; /* its original address */
    size_t size;
    int is_made;
};

struct rimf_removals {
    struct rimf_removal *list;
    size_t n, room;
    struct rimf_address_set entries;
};

/* image/domains.c */
struct mvld_domain {
    const char *name;
    size_t n_objects;
};

struct mvld_image {
    const struct rimf_sys *sys;
    const struct rimf_log *log;
    struct rimf_heap heap;        /* its lock is the innermost; it also serialises updates */
    struct rimf_lock patch_lock;  /* patches are committed by one thread at a time */
    struct rimf_patcher *patcher; /* NULL until the first patch */
    char error[512];              /* the last recorded sentence */

    struct rimf_table *table; /* never NULL */
    unsigned readers;
    struct rimf_table *retired;
    struct rimf_object *gone; /* removed by the last update */
    uint64_t updates;
    void *change; /* arrays of the last struct rimf_change */

    struct mvld_domain **domains;
    size_t n_domains;

    const char *auditor; /* or NULL */
    struct rimf_watch *watch; /* NULL: nothing will be stored */
    struct analysis_place analyses[RIMF_ANALYSES_MAX];
    size_t n_analyses;
    int (*is_steered)(void *cookie, const char *folder); /* rimf_image_set_steered */
    void *steered_cookie;
    struct moved_code *moved; /* NULL: there is no region */
    long (*room)(void *cookie, size_t size); /* rimf_image_set_room; or NULL */
    void *room_cookie;
    char *(*path)(void *cookie, struct mvld_image *, uintptr_t address); /* rimf_image_set_path; or NULL */
    void *path_cookie;
    int (*place)(void *cookie, uintptr_t address); /* rimf_image_set_place; or NULL */
    void *place_cookie;
    struct new_section *new_sections; /* image/sections.c */
    size_t n_new_sections;
    enum rimf_stage stage;
    struct code_splice *splices; /* code/splice.c */
    struct section_wanted { /* image/sections.c: a protection */
        struct section_wanted *next;
        const struct mvld_context *ctx;
        struct mvld_section *section;
        uint32_t prot;
        int key;
    } *sections_wanted;
    struct { /* realise/file_view.c */
        struct rimf_object *object;
        uintptr_t start;
        size_t size;
    } viewed;
    struct rimf_removals removals; /* until analyses are closed */
    struct {                       /* code/bound.c */
        struct rimf_address_set set;
        uint64_t update; /* of the image, when it was read */
    } bound;
    const struct mvld_context *running;
    struct symbol_edit *symbol_edits; /* image/symbol_edits.c */
    struct rimf_address_set symbols_edited;
    struct rimf_retargets retargets;
    struct rimf_edit_report *reports; /* image/edits.h: for passes with edits that were not emitted yet */
    const struct mvld_context *unfinished; /* the pass in its `run`: its edits do not count yet */
    uint32_t runner; /* its thread; 0: the only one */
    void (*failed)(void *cookie, const struct mvld_context *, int error); /* or NULL: rimf_image_set_failed */
    void *failed_cookie;
    int (*caller_hooks)(void *cookie, const char **why);
    void *caller_cookie;
    const struct rimf_described *described; /* rimf_image_describe */
    size_t n_described;
    const struct applying *applying; /* while caller_hooks runs for it */
    int unentered; /* moved/moved.h */
    int entered;   /* constructors of the program may have run */
    int untraced;  /* rimf_image_set_untraced */
    int filtered;  /* rimf_image_set_filtered */
    int (*planned)(const void *cookie, const char *pass); /* or NULL: rimf_image_set_planned */
    const void *planned_cookie;
    uintptr_t start_base; /* store/manifest.h: base of the start's distances, */
    uint64_t start_checksum; /* its identity, */
    uint32_t n_start; /* and its number of objects; 0: there is none */
    uintptr_t kept[8]; /* rimf_image_keep_original */
    size_t kept_sizes[8];
    struct rimf_choice choices[RIMF_CHOICES];
    struct rimf_shown shown;
};

/* Returns 1 if this emission makes only calls in moved code direct. */
static inline int rimf_image_leads_calls(const struct mvld_image *image)
{
    return image->reports && !image->watch;
}

/* Returns 1 if objects of this dlopen are added to the manifest. */
static inline int rimf_image_learns(const struct mvld_image *image)
{
    return image->watch && image->n_start;
}

static inline const struct rimf_object *rimf_object_of(const struct mvld_object *public)
{
    return (const struct rimf_object *)public;
}

/* Returns 1 if a pass removes the function at this address. */
static inline int rimf_is_removed(const struct mvld_image *image, uintptr_t entry)
{
    return rimf_address_set_find(&image->removals.entries, entry) != NULL;
}

/* A pass may give NULL, or a struct of zeros.  Every object has a name. */
static inline int rimf_is_object(const struct mvld_object *public)
{
    return public && public->name;
}

/* Whether its memory is mapped, too. */
static inline int rimf_is_mapped(const struct mvld_object *public)
{
    return rimf_is_object(public) && !__atomic_load_n(&rimf_object_of(public)->gone, __ATOMIC_ACQUIRE);
}

static inline struct mvld_image *rimf_context_image(const struct mvld_context *ctx)
{
    return ctx ? ctx->image : NULL;
}

/* Whether only code that the host loader calls to relocate it has run. */
static inline int rimf_object_unentered(const struct mvld_image *image,
                                        const struct rimf_object *object)
{
    return !image->entered || (image->unentered && object->born == image->updates);
}

/* ---- image/table.c -------------------------------------------------------- */

const struct rimf_table *rimf_table_enter(const struct mvld_image *);
void rimf_table_leave(const struct mvld_image *);
/* Creates a table of `n` objects with space for `places`; NULL: no memory. */
struct rimf_table *rimf_table_create(struct mvld_image *, size_t n, size_t places);
/* Fills in the places: those of `old` that are not closed, merged with the new objects'. */
void rimf_table_index(struct rimf_table *, const struct rimf_table *old, uint64_t update,
                      struct rimf_object *const *added, size_t n_added);
const struct rimf_place *rimf_table_find(const struct rimf_table *, uintptr_t address);
/* Publishes the table; frees those that no reader can have any more. */
void rimf_table_publish(struct mvld_image *, struct rimf_table *);

/* ---- image/references.c ---------------------------------------------------- */

/* Returns 1 if a debugger may have breakpoints in the code. */
int rimf_image_is_traced(const struct mvld_image *);

/* ---- image/object.c ------------------------------------------------------- */

struct rimf_object *rimf_object_create(struct mvld_image *, const struct rimf_source *);

/* ---- image/sections.c ------------------------------------------------------ */

/* Fills in sections, at most n_segments + 2 of them. */
void rimf_sections_fill(struct rimf_object *);

/* ---- image/domains.c ------------------------------------------------------- */

int rimf_domains_create(struct mvld_image *);
size_t rimf_domain_count(const struct mvld_image *);
const struct mvld_domain *rimf_domain_at(const struct mvld_image *, size_t index);
long rimf_domain_add(struct mvld_image *, const char *name);
size_t rimf_domain_of(const struct mvld_object *);
int rimf_domain_move(struct mvld_image *, const struct mvld_object *, size_t domain);
/* Where this pass moved the object, it is in its domain of before. */
void rimf_domain_take_back(struct mvld_image *, struct rimf_object *, const struct mvld_context *);

/* ---- image/symbols.c, image/plt.c, image/patches.c: behind rimf_api() ---------- */

int rimf_symbol_find(const struct mvld_object *, const char *name, const char *version,
                     struct mvld_symbol *out);
int rimf_symbol_each(const struct mvld_object *, int (*visit)(void *cookie, const struct mvld_symbol *),
                     void *cookie);
int rimf_symbol_resolve(const struct mvld_image *, const char *name, const char *version,
                        struct mvld_symbol *out);
/* The definition that a reference of `from` would be bound to.  -ENOENT, or -EAGAIN if objects outside the
 * global scope define it and only the host loader knows which one is meant. */
int rimf_symbol_bind(const struct mvld_image *, const struct rimf_object *from, size_t index,
                     struct mvld_symbol *out);
/* The original of the executable's copy of a library's variable (R_X86_64_COPY). */
int rimf_symbol_copied(const struct mvld_image *, const struct rimf_object *from, size_t index,
                       struct mvld_symbol *out);
uintptr_t rimf_plt_target(const struct mvld_image *, uintptr_t address);

enum rimf_slot_state {
    RIMF_SLOT_ODD, /* it contains no function of an object */
    RIMF_SLOT_LAZY,
    RIMF_SLOT_BOUND
};
/* The present content of the slot; for an address in moved code, the original.  The code there tells
 * whether it waits for the first call; it need not be read where that is impossible (`lazy` 0). */
enum rimf_slot_state rimf_slot_value(const struct mvld_image *, const struct rimf_object *,
                                     uintptr_t slot, int lazy, uintptr_t *value);
uintptr_t rimf_plt_slot(const struct mvld_object *, uintptr_t entry);

/* ---- image/slots.c, image/references.c -------------------------------------- */

/* Whether one of the objects of the start is a filter. */
int rimf_has_filter(const struct mvld_image *);
int rimf_slot_at(struct mvld_image *, const struct mvld_object *, size_t index,
                 struct mvld_slot *out);
int rimf_slot_find(struct mvld_image *, const struct mvld_object *, uintptr_t address,
                   struct mvld_slot *out);
int rimf_slot_target(struct mvld_image *, const struct mvld_object *, uintptr_t address,
                    struct mvld_slot *out, const struct mvld_object **holder);
const char *rimf_slot_name(struct mvld_image *, const struct mvld_object *, uintptr_t address);

/* ---- image/sections.c ---------------------------------------------------------- */

const struct mvld_section *rimf_section_at(const struct mvld_image *, const struct mvld_object *, size_t index);
const struct mvld_section *rimf_section_find(const struct mvld_image *, uintptr_t address);
int rimf_section_set_pages(struct mvld_image *, const struct mvld_section *, enum mvld_section_pages);

int rimf_section_protect(const struct mvld_context *, const struct mvld_section *, uint32_t prot, int key);
long rimf_key_add(const struct mvld_context *);
/* Drops those of this pass. */
void rimf_protections_forget(struct mvld_image *, const struct mvld_context *);
/* Makes them, after the last pass.  NULL; or *error, with a sentence, and the pass whose one failed. */
const struct mvld_context *rimf_protections_emit(struct mvld_image *, int *error);

void *rimf_section_add(const struct mvld_context *, enum mvld_section_kind, size_t size);
/* Returns 1, or 0 with a sentence.  The next one records a mapped section: 0, or -ENOMEM. */
int rimf_section_may_add(const struct mvld_context *, enum mvld_section_kind, size_t size);
int rimf_section_note(const struct mvld_context *, enum mvld_section_kind, uintptr_t at, size_t size);
/* Whether these bytes are executable code, or will be when this pass has returned; or data. */
int rimf_new_section_holds(const struct mvld_context *, enum mvld_section_kind, uintptr_t address);
/* Makes new code executable.  0, or -EACCES with a sentence. */
int rimf_new_sections_seal(struct mvld_image *, const struct mvld_context *);
/* Makes the pages of these bytes, in one segment of the object, writable and not executable; or restores
 * their protection.  0, or negative errno. */
long rimf_object_protect(const struct mvld_image *, const struct rimf_object *, uintptr_t address, size_t length,
                         int open);

/* ---- image/symbol_edits.c ------------------------------------------------------ */

int rimf_symbol_redirect(struct mvld_image *, const struct mvld_symbol *, const struct mvld_symbol *to);
int rimf_symbol_hide(struct mvld_image *, const struct mvld_symbol *);
int rimf_symbol_add(const struct mvld_context *, const struct mvld_symbol *);

/* ---- image/edits.c ------------------------------------------------------------ */


int rimf_calls_retarget(const struct mvld_context *, const struct mvld_object *, mvld_calls_rule *,
                        uint32_t flags);

/* ---- image/watch.c ------------------------------------------------------------ */

int rimf_depends(struct mvld_image *, const struct mvld_object *, uintptr_t word);
/* Appends to a growing list on the image's heap.  0, or -ENOMEM. */
int rimf_words_add(struct mvld_image *, uintptr_t **list, size_t *n, size_t *room,
                   uintptr_t word);
/* Records that the image relies on this word.  0, or -ENOMEM. */
int rimf_watch_word(struct mvld_image *, uintptr_t word);
/* Records a word that was relocated to moved code. */
void rimf_watch_pointer(struct mvld_image *, uintptr_t word);
/* Sorts the words without duplicates, and the pointers.  0, or -ENOMEM: something was not recorded. */
int rimf_watch_finish(struct mvld_image *);
/* The words that this object's code relies on, in order of recording, up to the limit; returns their
 * number.  Once the start is stored. */
size_t rimf_watch_words(const struct rimf_watch *, const struct mvld_object *, uintptr_t *words);
/* Sorts and removes duplicates; returns the remaining number. */
size_t rimf_watch_sort(uintptr_t *words, size_t n);
/* The index of the first of these, ascending, at or behind `start`. */
size_t rimf_words_first(const uintptr_t *words, size_t n, uintptr_t start);
const char *rimf_auditor(const struct mvld_image *);

/* ---- image/reference_tables.c, image/retarget.c --------------------------------- */

int rimf_reference_each(struct mvld_image *, const struct mvld_object *, uint32_t kinds,
                        int (*visit)(void *cookie, const struct mvld_reference *), void *cookie,
                        const char **why);
/* The kind of the instruction with a displacement at this address; 0: another one. */
enum mvld_reference_kind rimf_operand_kind(const uint8_t *at);
/* Returns 1 if a relocation makes this word of the object an address. */
int rimf_word_is_pointer(struct mvld_image *, struct rimf_object *, uintptr_t word);
int rimf_reference_retarget(const struct mvld_context *, const struct mvld_reference *, uintptr_t target);
/* The wanted target of the word, the entry or the displacement at this address; or NULL. */
const struct rimf_retarget *rimf_retarget_at(const struct mvld_image *, uintptr_t at);
/* 1: it counts; another pass did not say otherwise since, and it does not lead there already. */
int rimf_retarget_counts(const struct mvld_image *, const struct rimf_retarget *);
/* 1: one that counts leads into these bytes. */
int rimf_retarget_leads_into(const struct mvld_image *, uintptr_t at, size_t size);
/* Those of this pass go, or with `others` all but those: what was wanted before counts again. */
void rimf_retargets_forget(struct mvld_image *, const struct mvld_context *, int others);

/* ---- image/references.c: analyses ------------------------------------------------ */


/* The whole analysis of the object except the branches between units, or NULL with a sentence in *why.
 * Valid until the analyses are closed. */
const struct analysis *rimf_analysis_whole(struct mvld_image *, struct rimf_object *,
                                          const char **why);
/* With the branches.  Then the other two functions' earlier results have them, too. */
const struct analysis *rimf_analysis_branches(struct mvld_image *, struct rimf_object *,
                                             const char **why);
/* The same, perhaps only with the tables of units and calls; or of calls. */
const struct analysis *rimf_analysis_units(struct mvld_image *, struct rimf_object *);
const struct analysis *rimf_analysis_calls(struct mvld_image *, struct rimf_object *,
                                          const char **why);

/* The analysis's names for debuggers (analysis/analysis.h, SYMBOLS): pages of it, in memory. */
struct analysis_names {
    uintptr_t pages;
    size_t size; /* whole pages */
    size_t symbols_size, names, names_size; /* symbols come first; offset of the names */
    uint32_t first; /* base of symbols' values, as linked */
};
/* 0: it has none, or they were taken. */
int rimf_analysis_names(struct mvld_image *, struct rimf_object *, struct analysis_names *);
/* Their pages were taken: the caller owns them. */
void rimf_analysis_without_names(struct rimf_object *);

/* Undoes a batch's changes; or logs a warning that this was not possible. */
void rimf_patch_take_back(struct mvld_image *, const struct mvld_batch *made);
/* Frees the patch engine's memory. */
void rimf_patch_forget(struct mvld_image *);

/* ---- image/core.c -------------------------------------------------------------- */

size_t rimf_object_count(const struct mvld_image *);
const struct mvld_object *rimf_object_at(const struct mvld_image *, size_t index);
const struct mvld_object *rimf_object_find(const struct mvld_image *, uintptr_t address);
int rimf_object_holds(const struct mvld_object *, uintptr_t address, size_t length, uint32_t prot);
/* 0, or -EPERM with a sentence: the stage is not that of the edit. */
int rimf_only_in(struct mvld_image *, enum rimf_stage, const char *who);
int rimf_note_each(const struct mvld_object *, const char *name, uint32_t type,
                   int (*visit)(void *cookie, const void *desc, size_t size), void *cookie);
struct mvld_batch *rimf_api_patch_begin(struct mvld_image *);
void *rimf_api_alloc(struct mvld_image *, size_t size);
void rimf_api_release(struct mvld_image *, void *memory);
const char *rimf_last_error(const struct mvld_image *);
void rimf_api_log(const struct mvld_image *, uint32_t category, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int rimf_api_log_enabled(const struct mvld_image *, uint32_t category);
int rimf_vfail(struct mvld_image *, int err, const char *format, va_list);
int rimf_fail(struct mvld_image *, int err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The common part of both tables of struct mvld_api. */
#define RIMF_API_CORE \
    .object_count = rimf_object_count, .object_at = rimf_object_at, \
    .object_find = rimf_object_find, .object_holds = rimf_object_holds, \
    .note_each = rimf_note_each, .plt_target = rimf_plt_target, \
    .patch_add = rimf_patch_add, \
    .patch_commit = rimf_patch_commit, .patch_count = rimf_patch_count, \
    .patch_at = rimf_patch_at, .patch_end = rimf_patch_end, \
    .patch_often = rimf_patch_often, .patch_add_words = rimf_patch_add_words, \
    .original_of = rimf_original_of, \
    .alloc = rimf_api_alloc, .release = rimf_api_release, .fail = rimf_fail, \
    .last_error = rimf_last_error, .log = rimf_api_log, \
    .log_enabled = rimf_api_log_enabled

#endif
