/* SPDX-License-Identifier: MIT
 *
 * interface.h: how libmultiverse and the engine meet.
 *
 * Picture
 *
 *     libmultiverse.so.1, or an executable linked with libmultiverse.a
 *       note "Multiverse", type 2 ──► struct mv_link { engine } ──► struct mv_engine
 *                                                                    ops, state
 *
 *   There is one engine a process.  Under mvld it is the pass's.  The pass finds every copy of the
 *   library by its note and writes its engine into the link before any constructor runs.  Under a
 *   plain ld.so the first copy that is initialised makes the engine and does the same for the
 *   others.  A note is used, not a symbol, because it survives strip(1) and exists when the library
 *   is linked statically into the executable.
 */
#ifndef MULTIVERSE_INTERFACE_H
#define MULTIVERSE_INTERFACE_H

#include <stddef.h>
#include <stdint.h>

#include "multiverse.h"

/* Another one also with another struct mvld_api, by which the library calls mvld; in assembly as text. */
#define MV_LINK_ABI 6
#define MV_TEXT_OF(number) #number
#define MV_TEXT(number) MV_TEXT_OF(number)

struct mv_engine;
struct mv_switch;
struct mvld_object;

/* Descriptor of MULTIVERSE_NOTE_LIBRARY: the link's address, relative to `link`.  A word follows that nobody reads. */
struct mv_library_note {
    uint32_t abi;
    int32_t link;
};

struct mv_link {
    uint32_t size, abi;
    struct mv_engine *engine; /* NULL until the process has one */
};

/* An object whose memory may be touched during a call: `fixed` ones are never closed, others not
 * while `handle` is open.  See library/pins.c. */
struct mv_pin {
    uintptr_t bias;
    const void *dynamic;
    char *name;
    void *handle;
    uint8_t fixed, needed;
};

/* The result of one call; the library keeps one for each thread. */
struct mv_reply {
    /* In: the objects of the process.  NULL: nothing can be closed during the call. */
    struct mv_pin *pins;
    size_t n_pins;
    unsigned long long n_removed; /* objects closed so far, when they were listed */
    uint64_t operation; /* number of the operation; whether there is something to report, see
                         * `missed` */
    uint8_t missed;
    struct multiverse_status status;
    char error[512];
    size_t used, lost; /* bytes of `report`; lines that did not fit */
    char report[3584]; /* of the last operation that changed bindings, and of objects that came since */
};

static inline void mv_report_clear(struct mv_reply *reply)
{
    reply->report[0] = 0;
    reply->used = reply->lost = 0;
}

/* A switch or a function: the other one is NULL. */
struct mv_item {
    const struct multiverse_info_var *var;
    uint64_t value;     /* extended to 64 bits by its type */
    uint8_t flags;      /* MULTIVERSE_SWITCH_* */
    const struct multiverse_info_fn *fn;
    const char *object; /* the function's object */
    const struct mv_switch *const *guards; /* the switches of its variants, one for each guard;
                                            * NULL: never holds */
    size_t n_guards;
};

/* A function of which this is an instruction, or its first `size` bytes when that is not 0; of an object.  What is in
 * force instead, to which it may jump. */
struct mv_old {
    const struct mvld_object *object;
    uintptr_t address, in_force;
    uint32_t size;
};

enum mv_action { MV_COMMIT, MV_REVERT };
enum mv_scope { MV_ALL, MV_REFS, MV_FUNCTION };

enum mv_operation {
    MV_REFRESH,      /* as every operation does first */
    MV_APPLY,        /* action, scope, what; returns the number of functions whose binding changed */
    MV_IS_COMMITTED, /* what */
    MV_BIND,         /* what, state */
    MV_INFO_VAR,     /* what; sets var */
    MV_INFO_FN,      /* what; sets fn */
    /* missed, room, until.  Fills in functions that operations up to that one left generic or refused, and marks
     * them as reported.  Returns their number. */
    MV_MISSED,
    MV_VISIT,        /* visit, cookie.  Visits all switches, then all functions, with the lock held. */
    /* visit_old, cookie.  Code that operations replaced, and was not said to be left: each piece of it, original
     * addresses.  Sets `until` to the last of them.  -EBUSY: a call could not be changed, and may still lead there. */
    MV_VISIT_OLD,
    MV_OLD_IS_LEFT,  /* until.  Nobody is in what these replaced. */
    MV_OPERATIONS
};

/* An operation, with the fields that it uses. */
struct mv_call {
    enum mv_operation operation;
    enum mv_action action;
    enum mv_scope scope;
    int state;
    void *what; /* a switch or function; NULL for MV_ALL */
    const struct multiverse_info_var *var;
    const struct multiverse_info_fn *fn;
    const struct multiverse_info_fn **missed;
    int room;
    uint64_t until; /* the number of an operation */
    void (*visit)(void *cookie, const struct mv_item *);
    void (*visit_old)(void *cookie, const struct mv_old *);
    void *cookie;
};

/* The first word of an engine points to this. */
struct mv_ops {
    uint32_t size, abi;
    /* Takes the lock.  Returns negative errno with the sentence in the reply, which may be NULL.  -EAGAIN: an
     * object came that is not among the pins. */
    int (*call)(struct mv_engine *, struct mv_call *, struct mv_reply *);
    /* Sets `needed` of the pins that the engine depends on.  Likewise. */
    int (*want_pins)(struct mv_engine *, struct mv_reply *);
    /* Called around fork(): before; after it in the parent; after it in the child. */
    void (*fork_begin)(struct mv_engine *);
    void (*fork_end)(struct mv_engine *, int in_child);
};

static inline const struct mv_ops *mv_ops_of(struct mv_engine *engine)
{
    return *(const struct mv_ops *const *)(const void *)engine;
}

static inline int mv_ops_apply(struct mv_engine *engine, enum mv_action action, enum mv_scope scope, void *what,
                               struct mv_reply *reply)
{
    struct mv_call call = {.operation = MV_APPLY, .action = action, .scope = scope, .what = what};

    return mv_ops_of(engine)->call(engine, &call, reply);
}

#endif
