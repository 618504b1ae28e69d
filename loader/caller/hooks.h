/* SPDX-License-Identifier: MIT
 *
 * loader/caller/hooks.h: whom the C library takes for its caller, and for the owner of an
 * address, where moved code runs (caller/hooks.c).
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
    CALLER_SYM,    /* do_sym: of dlsym and dlvsym */
    CALLER_OPEN,   /* _dl_open, where it does not ask CALLER_OBJECT; else 0 */
    CALLER_NEEDED,
    CALLER_IP = CALLER_NEEDED, /* _Unwind_GetIP */
    CALLER_IP_INFO,             /* _Unwind_GetIPInfo */
    CALLER_REGION,              /* _Unwind_GetRegionStart */
    CALLER_SET_IP,              /* _Unwind_SetIP */
    CALLER_FUNCTIONS
};
#define CALLER_STUB 128 /* bytes */

struct caller_function { /* a function that takes or gives an address */
    uintptr_t at;
    size_t size;
};

struct caller_hooks {
    uintptr_t stubs; /* 0: not prepared, and `why` may say why */
    const char *why;
    struct caller_function functions[CALLER_FUNCTIONS];
    uint32_t context; /* where the unwinder's contexts hold the program counter */
    const struct mvld_object *unwinder; /* or NULL */
    int installed;
    int kept;     /* the C library's were proved in the process that made the snapshot */
    int deferred; /* not prepared yet: a snapshot may hold what is to be found */
};

/* Proves everything that can be, and changes nothing.  0, or -ENOTSUP with a sentence
 * (static) in *why. */
int caller_prepare(struct loader *, const char **why);
/* Prepares what was deferred. */
void caller_finish(struct loader *);
/* Of rimf_image_set_caller_hooks; the cookie is the loader. */
int caller_install(void *loader, const char **why);
/* Objects went; others came, and the passes have not heard of them. */
void caller_changed(struct loader *, const struct mvld_object *const *removed, size_t n);

/* From the stubs, by way of entry.S: where an address is in original code; the one that a function has for
 * everybody (dlsym); what dladdr found, which returned `found`, made to fit what was asked; where a
 * frame goes on. */
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
