/* SPDX-License-Identifier: MIT
 *
 * rimf/image/private.h: the image's inside, for the files of rimf/: its rows and state.  What is asked of them is in
 * tables.h.
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
#define OBJECT_TO_SPLICE 8 /* a pass wants splices, which are not made yet */

struct rimf_object {
    struct mvld_object public; /* first: passes have pointers to it */
    struct elf_view view;      /* empty when opaque */
    const void *dynamic;       /* from the feeder: part of the object's identity */
    struct mvld_section *sections;
    size_t n_sections;
    struct {
        size_t now, found;              /* as that pass wants it, and before it is emitted; */
        const struct mvld_context *by;  /* NULL: both are the same */
    } domain;
    uint64_t seen; /* the last update that named it */
    uint64_t born; /* the first that did */
    int global;    /* there since the first update */
    int gone;      /* its memory must not be touched any more */
    struct rimf_edit *edit;   /* image/edits.h: what passes want of its calls, the first of them first */
    struct rimf_slots *slots; /* image/slots.c; NULL until asked for */
    struct rimf_words *words; /* image/reference_tables.c; likewise */
    struct rimf_named *named; /* code/functions.c: its symbols by address; likewise */
    size_t n_named;
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
    struct {
        int known;
        struct file_id id;
        int settled; /* checked whether `id` is final (store/writer.h): */
        const char *unsettled;
    } file;
    uint32_t number; /* store/manifest.h: the number, from 1; 0: it has none */
    struct {
        int patched; /* OBJECT_*: other than 0, it does not move any more, */
        const struct mvld_context *patched_by; /* as this pass changed it */
        int changed; /* a pass said so (depends), while recording */
        int known;   /* it was the file's, byte for byte, before any pass changed it */
        uint32_t analysis; /* analysis_key of the one whose hashes it then had; 0: none compared */
        int calls_direct; /* some were made so, where they stand or in moved code */
        int bound;   /* a pass bound calls or references to its functions, which its analysis does not list */
    } code;
    struct {
        int open;    /* it is writable now, */
        int to_open; /* and should be (store/apply_moved.c) */
    } relro;
};

/* Adjoining segments of one object; ordered by address (rimf_sort). */
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

/* Addresses; ascending once they are sorted. */
struct rimf_word_list {
    uintptr_t *at;
    size_t n, room;
};

/* The recorded dependencies of changes. */
struct rimf_watch {
    struct rimf_word_list words;    /* that they relied on */
    struct rimf_word_list owners;   /* for each, once the start is stored: the object whose code relies on it */
    struct rimf_word_list pointers; /* that the image relocated to moved code, before any code of the program ran */
    int incomplete; /* out of memory: nothing can be stored */
};

/* A reference whose target a pass changes (image/retarget.c). */
struct rimf_retarget {
    const struct mvld_context *ctx;
    struct rimf_object *object;
    uintptr_t at;    /* its word, or the displacement of its instruction */
    uintptr_t next;  /* the address from which that counts; 0: it is a word */
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
    uint64_t update; /* of the image, at that time */
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

struct mvld_image {
    const struct rimf_sys *sys;
    const struct rimf_log *log;
    struct rimf_feeder feeder;
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
    int has_filter; /* an object of the start is a filter */

    const char **domains; /* names of those that passes added: numbers from 1 on */
    size_t n_domains, domains_room;

    struct rimf_watch *watch; /* NULL: nothing will be stored */
    struct moved_code *moved; /* NULL: there is no region */
    struct new_section *new_sections; /* image/sections.c */
    size_t n_new_sections;
    /* Of the pass that runs: a rule of an earlier one may be asked meanwhile (`running`), which counts, while the
     * edits of the pass itself do not (`unfinished`). */
    enum rimf_stage stage;
    const struct mvld_context *running, *unfinished;
    uint32_t runner; /* its thread; 0: the only one */
    size_t n_spliced; /* places before which it wants code */
    struct code_splice *splices; /* code/splice.c */
    struct section_wanted { /* image/sections.c: a protection */
        struct section_wanted *next;
        const struct mvld_context *ctx;
        struct mvld_section *section;
        uint32_t prot;
        int key;
        int is_made;
        uint32_t before, segment_before; /* its protection then, and its segment's */
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
    struct symbol_edit *symbol_edits; /* image/symbols.c */
    struct rimf_address_set symbols_edited;
    struct rimf_retargets retargets;
    struct rimf_edit_report *reports; /* image/edits.h: for passes with edits that were not emitted yet */
    const struct applying *applying; /* while caller_hooks runs for it */
    int entered;   /* constructors of the program may have run */
    uint64_t finished; /* the addresses that objects of updates up to this one hold are what they will be */
    struct { /* store/manifest.h */
        uintptr_t base; /* of its distances */
        uint64_t checksum;
        uint32_t n; /* its objects; 0: there is none */
    } start;
};

/* Returns 1 if this emission makes only calls in moved code direct. */
static inline int rimf_image_leads_calls(const struct mvld_image *image)
{
    return image->reports && !image->watch;
}

/* Returns 1 if objects of this dlopen are added to the manifest. */
static inline int rimf_image_learns(const struct mvld_image *image)
{
    return image->watch && image->start.n;
}

static inline const struct rimf_object *rimf_object_of(const struct mvld_object *public)
{
    return (const struct rimf_object *)public;
}

static inline int rimf_object_is_finished(const struct mvld_image *image, const struct rimf_object *object)
{
    return object->born <= image->finished;
}

/* A pass bound calls or references to functions of this object; NULL: of nobody's. */
static inline void rimf_object_note_bound(const struct mvld_object *public)
{
    if (public)
        ((struct rimf_object *)rimf_object_of(public))->code.bound = 1;
}

/* Returns 1 if a pass removes the function at this address. */
static inline int rimf_is_removed(const struct mvld_image *image, uintptr_t entry)
{
    return image->removals.n && rimf_address_set_find(&image->removals.entries, entry) != NULL;
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
    return !image->entered || (image->feeder.unentered && object->born == image->updates);
}

#include "rimf/image/tables.h"

#endif
