/* SPDX-License-Identifier: MIT
 *
 * loader/caller/private.h: shared by the files of the caller hooks (caller/hooks.c).
 */
#ifndef LOADER_CALLER_PRIVATE_H
#define LOADER_CALLER_PRIVATE_H

#include "rimf/x86/displace.h"
#include "loader/caller/hooks.h"
#include "loader/loader.h"

/* One function: its stub, and the jump to it. */
struct hook {
    uintptr_t stub, at; /* `at`: target of the jump */
    uint8_t code[CALLER_STUB];
    uint8_t was[DISPLACE_JUMP], jump[DISPLACE_JUMP];
};

struct hooks {
    size_t n;
    struct hook at[CALLER_FUNCTIONS];
};

/* caller/hooks.c: makes the hooks of these functions from their present bytes.  0, or -ENOTSUP with
 * a static sentence in *why. */
int caller_hooks(const struct caller_hooks *, size_t first, size_t end, struct hooks *,
                  const char **why);

/* caller/entry.S: a stub's slots contain these addresses. */
void caller_stub_entry(void) RIMF_HIDDEN;
void caller_stub_caller(void) RIMF_HIDDEN;
void caller_stub_fourth(void) RIMF_HIDDEN;
void caller_stub_place(void) RIMF_HIDDEN;
void caller_stub_result(void) RIMF_HIDDEN;
void caller_stub_symbol(void) RIMF_HIDDEN;
void caller_stub_named(void) RIMF_HIDDEN;

/* caller/stub.c */

#define CALLER_SLOTS (CALLER_STUB - 16u) /* offset of two slots in a stub */
#define CALLER_PADDING 0xcc              /* int3 */

/* Writes the start of a stub, before the displaced instructions; returns its length. */
size_t caller_begin_stub(uint8_t code[CALLER_STUB], size_t which);
/* Called before code is moved: tells unwinders about the stubs. */
void caller_describe(struct loader *);

/* caller/stub.c: writes what a snapshot does not contain.  0; otherwise no jump to a stub
 * exists, and caller/hooks.c does everything. */
int caller_snapshot(struct loader *);

/* caller/find.c: finds and verifies the first CALLER_NEEDED functions.  0, or -ENOTSUP with a
 * static sentence in *why. */
int caller_find(const struct loader *, struct caller_function *functions, const char **why);

/* caller/code.c */

/* How one object calls a function of another: `through` is a PLT entry or the function itself (e8),
 * or a GOT slot (ff 15). */
struct call_way {
    uintptr_t through;
    uint8_t slot;
};

/* The common target of all direct jumps out of the function, with its first argument unchanged; or
 * 0. */
uintptr_t caller_tail(const struct caller_function *function);
/* How the function calls `callee`; through 0: it does not. */
struct call_way caller_way(struct mvld_image *, const struct mvld_object *,
                              const struct caller_function *function, uintptr_t callee);
/* The number of such calls in the function, if each passes the argument that is in this register, RDX or RCX, at its
 * entry; else 0. */
unsigned caller_asks(const struct caller_function *function, struct call_way, unsigned argument);
/* Whether it contains this instruction. */
int caller_compares(const struct caller_function *function, const uint8_t bytes[4]);

/* caller/find.c: finds four functions of the program's unwinder, and sets l->caller->unwinder.  0;
 * -ENOENT: there is none; -ENOTSUP: they are not of the known form. */
int caller_find_unwinder(struct loader *);

#endif
