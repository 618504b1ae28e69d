/* SPDX-License-Identifier: MIT
 *
 * mvld/pass/references.h: slots, references, and their targets.  Included by mvld/pass.h.
 */
#ifndef MVLD_PASS_REFERENCES_H
#define MVLD_PASS_REFERENCES_H

#include <stddef.h>
#include <stdint.h>

struct mvld_context;
struct mvld_object;

#define MVLD_SLOT_LAZY 1u  /* not bound yet: the host loader binds it at the first call */
#define MVLD_SLOT_RELRO 2u /* read-only after relocation */

/* A GOT slot that the host loader fills with the address of a function. */
struct mvld_slot {
    uint32_t flags;
    uintptr_t address; /* present address of the slot */
    uintptr_t target;  /* the target that earlier passes want; if none wants one, the target in memory, or the
                        * one that binding will find.  For moved code the original address. 0: not certain */
    const char *why;   /* why the target is not certain (static), or NULL */
    const char *name;  /* the symbol, or NULL */
    uintptr_t found;   /* the target, ignoring edits of passes */
    uintptr_t shown;   /* the word that contains `target` (see depends): the slot itself, or another one with
                        * the choice of an IFUNC; 0 without target */
};

enum mvld_reference_kind {
    /* Through a slot, as the analysis lists them.  `site` is the opcode; prefixes precede it. */
    MVLD_REFERENCE_CALL_PLT = 1, /* e8 rel32     call entry of the PLT */
    MVLD_REFERENCE_JUMP_PLT,     /* e9 rel32     jmp  entry */
    MVLD_REFERENCE_JCC_PLT,      /* 0f 8x rel32  jcc  entry */
    MVLD_REFERENCE_CALL_SLOT,    /* ff 15 rel32  call *slot(%rip) */
    MVLD_REFERENCE_JUMP_SLOT,    /* ff 25 rel32  jmp  *slot(%rip) */
    /* Inside the object, from movable code; `site` as above. */
    MVLD_REFERENCE_CALL, /* e8 rel32             call of other code */
    MVLD_REFERENCE_JUMP, /* e9, 0f 8x rel32      jump to other code, possibly of the same function */
    MVLD_REFERENCE_LEA,  /* 48 8d, 4c 8d rel32   takes the address of code */
    /* In data. */
    MVLD_REFERENCE_SLOT, /* a slot of the GOT */
    MVLD_REFERENCE_WORD  /* a word that is relocated to the address of code */
};
#define MVLD_REFERENCES(kind) (1u << (kind)) /* kinds, or-ed */
#define MVLD_REFERENCES_ALL (~0u)

/* A place with a proven target.  The analysis was made of the file, so a pass that patches the bytes at `site`
 * must compare them first. */
struct mvld_reference {
    uintptr_t site;   /* its instruction or word, at its present address */
    uintptr_t slot;   /* the GOT slot that it uses, or is, at its present address; 0: none */
    uintptr_t target; /* the wanted target; for moved code the original address; through a slot, 0 if not
                       * certain */
    enum mvld_reference_kind kind;
    uintptr_t found;  /* the target, ignoring edits of passes; as above */
};
#define MVLD_RETARGETS_MAX (1u << 20) /* changed by one pass at a time */

/* The target of a call through a slot.  An entry of the executable's PLT that stands for a function whose
 * address the executable takes is followed. */
struct mvld_binding {
    uint32_t flags;    /* MVLD_SLOT_RELRO: every slot on the path; MVLD_SLOT_LAZY: at least one */
    uintptr_t slot;    /* its present address */
    uintptr_t target;
    const struct mvld_object *holder; /* the object of the target, or NULL */
    uintptr_t found;                  /* the host loader's target; `target` is the one that earlier passes want,
                                       * or the same */
};

/* Returns the wanted target of the calls of `object` through the slot of `bound` (calls_retarget), in *target,
 * with the value NULL.  Otherwise returns why the calls stay (a static sentence).  If it then also sets *target
 * (0 before), calls in moved code are bound to that target all the same: changing code in place costs a private
 * page, and these calls are not worth one.  The slot's own address in *target undoes the edits of earlier passes: the
 * calls use the slot, as they were found.  The rule is called once, several times, or never.  Its result
 * depends only on its arguments, the settings, and the api's answers about `object` and `bound`. */
typedef const char *mvld_calls_rule(const struct mvld_context *, const struct mvld_object *object,
                                    const struct mvld_binding *bound, uintptr_t *target);

#endif
