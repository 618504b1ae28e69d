/* SPDX-License-Identifier: MIT
 *
 * loader/caller/private.h: what the files of the caller hooks share (caller/hooks.c).
 */
#ifndef LOADER_CALLER_PRIVATE_H
#define LOADER_CALLER_PRIVATE_H

#include "rimf/x86/displace.h"
#include "loader/loader.h"

/* One function: its stub, and the jump to it. */
struct hook {
    uintptr_t stub, at; /* `at`: where the jump goes */
    uint8_t code[CALLER_STUB];
    uint8_t was[DISPLACE_JUMP], jump[DISPLACE_JUMP];
};

struct hooks {
    size_t n;
    struct hook at[CALLER_FUNCTIONS];
};

/* caller/hooks.c: the hooks of these functions, of what stands there now.  0, or -ENOTSUP with a
 * sentence (static) in *why. */
int caller_hooks(const struct caller_hooks *, size_t first, size_t end, struct hooks *,
                  const char **why);

/* caller/stub.c */

#define CALLER_SLOTS (CALLER_STUB - 16u) /* in a stub: two of them */
#define CALLER_PADDING 0xcc              /* int3 */

/* What stands in a stub before the displaced instructions; returns how much. */
size_t caller_begin_stub(uint8_t code[CALLER_STUB], size_t which);
/* Before code is moved: unwinders will know the stubs. */
void caller_describe(struct loader *);

/* caller/snapshot.c: writes what a snapshot does not bring.  0; else nothing leads to a stub,
 * and caller/hooks.c does it all. */
int caller_snapshot(struct loader *);

/* caller/find.c: the first CALLER_NEEDED functions, proved to be what they are named.  0, or
 * -ENOTSUP with a sentence (static) in *why. */
int caller_find(const struct loader *, struct caller_function *functions, const char **why);
/* A function that `object` exports and whose bytes can be read: 0 or -ENOENT. */
int caller_exported(const struct mvld_object *, const char *name, const char *version,
                     struct caller_function *out);

/* caller/code.c */

/* How one object calls a function of another: `through` is an entry of the PLT or the
 * function itself (e8), or a GOT slot (ff 15). */
struct call_way {
    uintptr_t through;
    uint8_t slot;
};

/* Where the direct jumps out of the function all lead, its first argument as it was; or 0. */
uintptr_t caller_tail(const struct caller_function *function);
/* How the function calls `callee`; through 0: it does not. */
struct call_way caller_way(struct mvld_image *, const struct mvld_object *,
                              const struct caller_function *function, uintptr_t callee);
/* How often the function calls that way: each time to ask for its third argument, else 0. */
unsigned caller_asks(const struct caller_function *function, struct call_way);
/* It has this instruction. */
int caller_compares(const struct caller_function *function, const uint8_t bytes[4]);

/* caller/unwind.c: the four of the unwinder that is in the program, and
 * l->caller.unwinder.  0; -ENOENT: there is none; -ENOTSUP: they are not as they are known. */
int caller_find_unwinder(struct loader *);

#endif
