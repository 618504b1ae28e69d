/* SPDX-License-Identifier: MIT
 *
 * engine.h: shared by the files of the multiverse engine.
 *
 * Picture
 *
 *     mv_engine ─► mv_unit (an object with descriptors) ─► mv_point[]  mv_site[]
 *         │                                                 │  ▲        │
 *         └─► mv_switch list ◄──────── guards ──────────────┘  └────────┘
 *
 *   gather.c   notes and tables become units, all checked; objects that are closed
 *   records.c  records become points and switches
 *   sites.c    recorded calls become sites: decoded, sorted, assigned to points
 *   bind.c     the wanted binding of each point; which variant fits the values
 *   words.c    present and wanted words of entries and sites; write.c  writes the difference
 *              as one batch of patches
 *   outcome.c  the outcome of each point; error sentences, reports; lines for people
 *   layout.c   makes the arrays of words; addresses of moved code
 *   site.c     instructions at call sites, and reads of constants; inline.c  bodies that fit into one
 *   engine.c   the lock, the look-ups, tables; operations.c  the functions of interface.h
 *
 *   A constant (multiverse("constant")) is a point without an entry, one in each unit that reads it.
 *   Its sites are these reads.
 *
 *   An inline call (multiverse("inline")) is a point, too: its pad is the jump in the caller, its
 *   variants are the arms.  It is selected and written together with the function that it calls, and
 *   has no name, count or outcome of its own.
 *
 *   Sites are read lazily, at the first commit: an initialisation without a commit touches no code
 *   page.  Each array of a unit is one allocation; sites have none of their own.
 */
#ifndef MULTIVERSE_ENGINE_H
#define MULTIVERSE_ENGINE_H

#include <errno.h>
#include <stdarg.h>
#include <sys/mman.h>

#include "rimf/base/base.h"
#include "passes/multiverse/engine/interface.h"
#include "rimf/base/lock.h"
#include "passes/multiverse/site/site.h"

#include "mvld/descriptor.h"
#include "mvld/pass.h"

/* After so many commits and reverts, more are expected. */
#define MV_OFTEN 8
#define MV_UNIT_MAX (UINT32_MAX - 8u) /* the maximum offset of a word in its object */
#define MV_NO_WORD UINT32_MAX

struct mv_switch {
    struct mv_switch *next;
    uintptr_t address; /* 0: its object was closed */
    char *name;        /* our copy; "" if no record names it */
    uint64_t value;    /* as read by the present commit, extended to 64 bits */
    uint64_t in_force; /* as read by the last commit of all, or of this switch */
    uint8_t width, flags; /* MULTIVERSE_SWITCH_* */
    uint8_t bound;        /* variants may fix it; see multiverse_bind() */
    uint8_t has_value;    /* in_force, bound_in_force are set */
    uint8_t bound_in_force;
    uint8_t configured;   /* set. and bind. were applied */
    uint8_t committed;    /* the last commit_refs or revert_refs of it was a commit */
    uint32_t stamp;       /* its time, see mv_engine.clock */
    uint32_t n_functions; /* points with variants for it, */
    uint32_t n_inline;    /* and inline calls */
    struct multiverse_info_var info;
};

struct mv_point {
    const struct multiverse_function *record; /* NULL: a constant */
    const char *name;         /* in the record, or that of the constant's switch */
    struct mv_unit *unit;     /* NULL: a free element of the array */
    uintptr_t body, pad;      /* 0 for a constant; for an inline call `body` */
    uintptr_t variable;       /* of a function pointer or constant; for an inline call the function;
                               * else 0 */
    struct mv_point *peer;    /* the next stub of the same function pointer, or the same constant
                                 in another unit */
    struct mv_switch **guards; /* one for each guard of the record; NULL: never holds */
    uint32_t n_guards;         /* the record's, which cannot be read once unmapped */
    uint32_t n_sites, n_far;   /* of them, out of reach of `wanted` */
    struct mv_site *sites;
    int32_t variant, wanted_variant;  /* index; -1: none */
    uintptr_t target, wanted;         /* targets of calls; 0: the generic.  For a constant its
                                       * variable; 0: a load */
    uint64_t value, wanted_value;     /* of a constant */
    uintptr_t goal;                   /* the code of `wanted` that runs: the moved code, if any */
    uint8_t selected; /* by the operation under way */
    uint8_t dirty;    /* some site or the entry does not have the wanted bytes */
    uint8_t refused, applied; /* patches of the present operation: errno of a refused one; whether
                               * any was applied */
    uint8_t is_inline; /* an inline call */
    uint8_t is_loaded; /* a constant with reads that are no sites */
    uint8_t orphaned; /* the pointer variable was closed with its object */
    uint8_t reached;  /* by the operation under way */
    uint8_t outcome;  /* enum multiverse_outcome, of the last operation that reached it, */
    int error;        /* and the reason, as in struct multiverse_info_fn */
    uint64_t missed;  /* the operation that left it generic or refused; 0 once reported */
    uint64_t left;    /* the last operation that changed what is in force, until no thread is in the old code; or 0 */
    uint32_t word, other;     /* of the entry, as in mv_site; of a constant MV_NO_WORD */
    struct mv_inline inlined; /* of `wanted` */
    uint32_t slots_of, slots[5]; /* while words are made: for the unit of that number */
    struct multiverse_info_fn info;
};

struct mv_site {
    uintptr_t address; /* first: see rimf_sort */
    struct mv_point *point;
    struct mv_site *next; /* of the same point */
    struct mv_unit *unit;
    uint32_t word, other; /* indices into the unit's words, of the first of two that are joined;
                           * other: in the moved code, if both run, else MV_NO_WORD */
    int32_t distance;     /* to the moved code, or 0 */
    uint8_t kind, length; /* enum mv_site_kind */
    uint8_t runs_original; /* see layout.c */
};

/* See words.c. */
enum mv_way { MV_RULE, MV_KEEP, MV_ORIGINAL, MV_EACH };
struct mv_slot {
    uint64_t lead;
    uint32_t to, mask; /* the target's distance from the unit's base */
    uint8_t way, shift;
    uint8_t kind, length; /* MV_SITE_NONE: entries */
    uint32_t n;           /* words */
    struct mv_point *point; /* NULL: forgotten */
};

struct mv_entry {
    uintptr_t key; /* an address */
    void *value;
};

/* One distinct note: three ranges inside the object. */
struct mv_tables {
    struct mv_tables *next;
    uintptr_t functions, functions_end, callsites, callsites_end, switches, switches_end;
};

/* Words of a unit that are adjacent in memory: original ones, or those of moved code. */
struct mv_stretch {
    struct mv_stretch *next; /* of all units, by address */
    struct mv_unit *unit;
    uint32_t first, n;
};

struct mv_unit {
    struct mv_unit *next; /* by address */
    const struct mvld_object *object;
    const struct mvld_segment *code, *data; /* that contained the last address: see mv_holds */
    struct mv_tables *tables;
    struct mv_point *points;
    struct mv_entry *by_pad; /* points with a pad, by its address */
    struct mv_switch **guards;
    struct mv_site *sites;
    size_t n_points, n_pads, n_guards, n_sites;
    /* words.c, layout.c: arrays by address, in one block of memory */
    void *words;
    uintptr_t base;           /* the object's start, or that of its moved code before it */
    struct mvld_word *places; /* from the base */
    uint32_t *slot_of;
    uint64_t *bytes[2], *original; /* as in site.h */
    struct mv_slot *slots;
    size_t n_words, n_slots;
    struct mv_stretch stretches[2];
    uint8_t now; /* index of the present content in `bytes` */
    uint8_t sites_read;
    uint8_t unmoved; /* none of its code has moved */
    uint8_t closing; /* may be closed during the call: do not touch its memory */
    uint8_t fresh; /* added by the present gather */
    uint8_t encoded; /* in the present batch */
};

/* Open addressing; 0 is a free element. */
struct mv_table {
    struct mv_entry *entries;
    size_t capacity, used; /* capacity is 0 or a power of two */
};

struct mv_engine {
    const struct mv_ops *ops; /* first: see interface.h */
    const struct mvld_api *api;
    struct mvld_image *image;
    const struct rimf_sys *sys;
    /* Brings the image up to date under a plain ld.so; NULL under mvld. */
    int (*refresh)(struct mv_engine *);
    unsigned long long n_added, n_removed; /* used by refresh: counters of its last list */
    uint8_t listed;
    struct rimf_lock lock;
    uint8_t committed;     /* the last operation on everything was a commit */
    uint32_t stamp, clock; /* its time; counts operations on everything and on switches */
    uint64_t operation;    /* counts all */
    struct mv_unit *units;
    struct mv_stretch *stretches; /* of all units whose sites were read */
    uint8_t some_moved;           /* some of these are in moved code */
    struct mv_switch *switches;
    struct mv_table points;    /* body or pointer variable -> mv_point */
    struct mv_table by_switch; /* address -> mv_switch */
    struct mv_reply *reply;    /* of the present call, or NULL */
    uint8_t some_closing;      /* a unit is */
    uint32_t settled;          /* the last operation was a commit of everything that left so many
                                * functions unchanged: another one need only compare the switches;
                                * or 0 */
    uint8_t incomplete;        /* out of memory for descriptors: a commit would miss them */
    /* NULL, or: do others change this code, or know it by its address?  Then a body there is not copied; nor is one with a
     * NOP of a jump's length. */
    int (*tied_to_address)(uintptr_t code, size_t size);
    uintptr_t return_thunk;    /* 0, or where code jumps to instead of a `ret` */
    uint32_t n_slotted;        /* units whose words were made, so far */
    uint8_t n_asked;           /* operations requested by the program, up to MV_OFTEN */
    struct mv_engine *other;   /* the process already has this engine: use it */
    uint8_t forking;           /* between fork_begin and fork_end */
    size_t n_refusals_lost;    /* lines that did not fit */
    size_t refusals_used;
    char refusals[2048];       /* refusals of gather, for every report */
};

/* ---- operations.c */
RIMF_HIDDEN extern const struct mv_ops mv_ops;
int mv_create(struct mvld_image *, const struct mvld_api *, const struct rimf_sys *,
              struct mv_engine **out);

/* ---- engine.c */
int mv_lock(struct mv_engine *, struct mv_reply *);
/* Takes the lock and brings the list of objects up to date.  Returns 0, or negative errno without
 * the lock. */
int mv_enter(struct mv_engine *, struct mv_reply *);
void mv_unlock(struct mv_engine *);
struct mv_point *mv_find_point(struct mv_engine *, uintptr_t address);
struct mv_switch *mv_find_switch(struct mv_engine *, uintptr_t address);
/* The pin of this object, or NULL. */
struct mv_pin *mv_find_pin(struct mv_reply *, uintptr_t bias, const void *dynamic);
/* Reserves `n` elements, so that as many puts cannot fail.  0 or -ENOMEM. */
int mv_table_room(struct mv_engine *, struct mv_table *, size_t n);
int mv_table_put(struct mv_engine *, struct mv_table *, uintptr_t key, void *value);
void *mv_table_get(const struct mv_table *, uintptr_t key);
void mv_table_clear(struct mv_table *);

/* ---- gather.c: lock held, or before anybody else may call */
/* Returns 0, -ENOMEM; -EALREADY if the process already has an engine: see `other`. */
int mv_added(struct mv_engine *, const struct mvld_object *const *objects, size_t n);
void mv_removed(struct mv_engine *, const struct mvld_object *const *objects, size_t n);

/* ---- records.c */
void mv_gather_records(struct mv_engine *, struct mv_unit *);
/* Whether the entry has the linker's bytes, wherever it runs. */
int mv_pad_is_original(const struct mv_engine *, const struct mv_point *);
/* The function that an inline call calls, or NULL. */
struct mv_point *mv_function_of(const struct mv_engine *, const struct mv_point *);
/* Makes the point findable; a pointer's further stubs become peers.  1, or 0. */
int mv_enter_point(struct mv_engine *, struct mv_point *);
/* The unit's point for a constant, or NULL. */
struct mv_point *mv_constant_of(struct mv_engine *, const struct mv_unit *, uintptr_t variable);
/* The same for the constant whose record is at an address; so many bytes of the table follow. */
struct mv_point *mv_recorded_constant(struct mv_engine *, struct mv_unit *, uintptr_t at, size_t room);
/* Adds `by` (1 or -1) to the function counts of the switches of its variants. */
void mv_count_functions(struct mv_point *, int by);
/* Connects every copy of libmultiverse among the objects to this engine.  If one has another
 * engine, returns that and changes nothing. */
struct mv_engine *mv_attach(struct mv_engine *, const struct mvld_object *const *objects,
                            size_t n);

/* ---- sites.c */
/* Reads the sites of units whose sites were not read yet.  0 or -ENOMEM. */
int mv_read_sites(struct mv_engine *);
/* Returns 1 if a site begins in [start, start + size), in original code. */
int mv_has_sites(const struct mv_unit *, uintptr_t start, size_t size);
/* Rebuilds the points' lists of sites. */
void mv_link_sites(struct mv_engine *);

/* ---- layout.c */
/* Makes the words of a unit's sites and entries: 0, -ENOMEM. */
int mv_make_words(struct mv_engine *, struct mv_unit *);
/* Links the stretches of all present units. */
void mv_link_stretches(struct mv_engine *);
/* The original address of code that may be moved code. */
uintptr_t mv_original(const struct mv_engine *, uintptr_t address);
/* The code that runs for the wanted variant: the moved code, if any.  A function's original address
 * also jumps there, and is used while no site is known to run in moved code; an arm's original does
 * not jump. */
uintptr_t mv_running(const struct mv_engine *, const struct mv_point *);
/* The address, original or moved, where the linker's bytes can be read. */
uintptr_t mv_readable(const struct mv_engine *, uintptr_t original, size_t length);
/* *moved: the address of the moved copy, or 0.  Returns 1: the original runs, too; 2: only the
 * original runs, as all of its object. */
int mv_places(const struct mv_engine *, uintptr_t original, uintptr_t *moved);

/* ---- words.c */
/* The number of words of the instruction that begins with this one: 1, or 2. */
static inline size_t mv_words_of(const struct mv_unit *unit, size_t i)
{
    return unit->places[i].joined ? 2 : 1;
}
/* Fills the wanted content of all words; counts sites out of reach in each point.  0: none changes,
 * and nothing was filled. */
int mv_encode_words(struct mv_unit *);
/* The same for one word whose point needs work. */
uint64_t mv_word_wanted(const struct mv_unit *, size_t index, int *far);
/* Whether every word has the bytes that we wrote last. */
int mv_words_are_intact(const struct mv_engine *, const struct mv_unit *);
/* After a fork during a commit: reads the words again. */
void mv_repair(struct mv_engine *);

/* ---- bind.c */
int mv_apply(struct mv_engine *, enum mv_action, enum mv_scope, uintptr_t what);
/* Binds new points to the state in force. */
int mv_apply_fresh(struct mv_engine *);
/* Marks all present objects as seen by the commits so far. */
void mv_finished(struct mv_engine *);
/* Whether every site and entry of the object has the bytes that we wrote last. */
int mv_object_is_intact(struct mv_engine *, const struct mvld_object *);
uint64_t mv_switch_read(const struct mv_switch *);

/* ---- outcome.c */
/* Called before an operation decides on the point, or only retries a refusal. */
void mv_outcome_begin(struct mv_point *, int reached);
/* Sets the point's outcome and reason. */
void mv_outcome(struct mv_point *, enum multiverse_outcome, int error);
/* Called after writing: merges a function pointer's stubs into one function, and fills the reply's
 * status. */
void mv_outcomes_finish(struct mv_engine *);
const char *mv_why(int error); /* a phrase */
/* 0: a stub of a function pointer that another stub represents. */
int mv_is_first(const struct mv_engine *, const struct mv_point *);
/* Records an error sentence in the image and in the reply; returns -err. */
int mv_fail(struct mv_engine *, int err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Adds a line to the report of the present call, and to the log. */
void mv_report(struct mv_engine *, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same, also for the reports of later commits. */
void mv_refuse(struct mv_engine *, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Drops such lines about an object that is closed: they begin with its name. */
void mv_forget_refusals(struct mv_engine *, const char *object);
void mv_describe(const struct mv_item *, char *text, size_t size);

/* ---- write.c */
/* Writes the wanted bindings of the selected points; returns the number of changed functions.
 * `all`: also of units that are no longer in the list. */
int mv_write(struct mv_engine *, int all);

/* ---- inline helpers */

/* Returns 1 if [address, address + length) is inside one segment of the object with `prot`.  `last`
 * caches the segment, because most queries hit the same. */
static inline int mv_holds(const struct mvld_object *object, const struct mvld_segment **last,
                           uintptr_t address, size_t length, uint32_t prot)
{
    const struct mvld_segment *segment = *last;

    if (segment && address >= segment->start && address <= segment->end &&
        length <= segment->end - address)
        return 1;
    for (size_t i = 0; i < object->n_segments; i++) {
        segment = &object->segments[i];
        if ((segment->prot & prot) == prot && address >= segment->start &&
            address <= segment->end && length <= segment->end - address) {
            *last = segment;
            return 1;
        }
    }
    return 0;
}

static inline int mv_needs_work(const struct mv_point *point)
{
    return point && point->selected && point->dirty;
}

static inline uintptr_t mv_word_address(const struct mv_unit *unit, size_t i)
{
    return unit->base + unit->places[i].offset;
}

static inline int mv_is_far(uintptr_t from, uintptr_t to) /* for rel32 */
{
    intptr_t distance = (intptr_t)(to - from);

    return distance != (int32_t)distance;
}

static inline const struct multiverse_variant *mv_variants(const struct mv_point *point)
{
    return (const struct multiverse_variant *)(const void *)(point->record + 1);
}

static inline const struct multiverse_guard *mv_guards(const struct mv_point *point)
{
    return (const struct multiverse_guard *)(const void *)(mv_variants(point) +
                                                           point->record->n_variants);
}

static inline int mv_is_constant(const struct mv_point *point)
{
    return !point->record;
}

/* The size of the pad at a function's entry or inline call; a constant has none, record NULL. */
static inline unsigned mv_pad_size(const struct multiverse_function *record)
{
    if (!record)
        return 0;
    return record->flags & MULTIVERSE_FUNCTION_BRANCH ? MV_BRANCH_SIZE : MV_PAD_SIZE;
}

static inline uintptr_t mv_distance(const int32_t *field)
{
    return (uintptr_t)field + (uintptr_t)(intptr_t)*field;
}

#endif
