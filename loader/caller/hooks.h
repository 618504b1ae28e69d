/* SPDX-License-Identifier: MIT
 *
 * loader/caller/hooks.h: how the C library finds its caller, and the object of an address, when
 * moved code runs (caller/hooks.c).
 */
#ifndef LOADER_CALLER_H
#define LOADER_CALLER_H

#include "rimf/base/base.h"

#include <stddef.h>
#include <stdint.h>

struct loader;
struct mvld_object;

enum {
    CALLER_OBJECT, /* _dl_find_dso_for_object */
    CALLER_ADDR,   /* _dl_addr */
    CALLER_SYM,    /* do_sym, for dlsym and dlvsym; or _dl_sym, in which it is inlined */
    CALLER_VSYM,   /* _dl_vsym, if do_sym is inlined in it; else 0 */
    CALLER_OPEN,   /* _dl_open, unless it calls CALLER_OBJECT; else 0 */
    CALLER_NEEDED,
    CALLER_IP = CALLER_NEEDED, /* _Unwind_GetIP */
    CALLER_IP_INFO,             /* _Unwind_GetIPInfo */
    CALLER_REGION,              /* _Unwind_GetRegionStart */
    CALLER_SET_IP,              /* _Unwind_SetIP */
    CALLER_FUNCTIONS
};
#define CALLER_STUB 128 /* bytes */

struct caller_function { /* a function with an address as argument or result */
    uintptr_t at;
    size_t size;
};

struct caller_hooks {
    uintptr_t stubs; /* 0: not prepared; `why` may have the reason */
    const char *why;
    struct caller_function functions[CALLER_FUNCTIONS];
    uint32_t context; /* offset of the program counter in the unwinder's contexts */
    const struct mvld_object *unwinder; /* or NULL */
    int installed;
    int kept;     /* the process that made the snapshot verified the C library's */
    int deferred; /* not prepared yet: a snapshot may contain the result */
};

/* Verifies everything, and changes nothing.  0, or -ENOTSUP with a static sentence in *why. */
int caller_prepare(struct loader *, const char **why);
/* Prepares what was deferred (`deferred`). */
void caller_finish(struct loader *);
/* For rimf_feeder.caller_hooks; the cookie is the loader. */
int caller_install(void *loader, const char **why);
/* Called when objects were closed or added, before the passes are told. */
void caller_changed(struct loader *, const struct mvld_object *const *removed, size_t n);

/* Called from the stubs, through caller/entry.S.  loader_caller_address: the original of an address.  The
 * next: the canonical address of a function (dlsym).  loader_caller_named: corrects dladdr's result
 * `found` for the given address.  loader_caller_place: the address where a frame continues. */
uintptr_t loader_caller_address(const struct loader *, uintptr_t address) RIMF_HIDDEN;
uintptr_t loader_caller_symbol(const struct loader *, uintptr_t address) RIMF_HIDDEN;
/* From a tool, see loader/start/outside.h. */
int loader_moved(uintptr_t original, size_t length, uintptr_t *to, const struct loader *) RIMF_HIDDEN;
struct named;
uintptr_t loader_caller_named(const struct loader *, uintptr_t address, struct named *,
                              uintptr_t found) RIMF_HIDDEN;
uintptr_t loader_caller_place(const struct loader *, uintptr_t context, uintptr_t address)
    RIMF_HIDDEN;

#endif
