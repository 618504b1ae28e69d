/* SPDX-License-Identifier: MIT
 *
 * mvld/pass/references.h: slots, references, and where they lead.  Included by mvld/pass.h.
 */
#ifndef MVLD_PASS_REFERENCES_H
#define MVLD_PASS_REFERENCES_H

#include <stddef.h>
#include <stdint.h>

struct mvld_context;
struct mvld_object;

#define MVLD_SLOT_LAZY 1u  /* not bound yet: the host loader will at the first call */
#define MVLD_SLOT_RELRO 2u /* read-only since it was relocated */

/* A GOT slot that the host loader fills with the address of a function. */
struct mvld_slot {
    uint32_t flags;
    uintptr_t address; /* of the slot, now */
    uintptr_t target;  /* what it is wanted to hold: as passes before want it, else what it holds, or will
                          hold once bound; of moved code the original; 0 when not certain */
    const char *why;   /* why it is not certain (static), or NULL */
    const char *name;  /* the symbol, or NULL when it has none */
    uintptr_t found;   /* the same as memory has it, whatever passes before want */
    uintptr_t shown;   /* the word that shows `target` (see depends): the slot itself, or
                          another one that shows what an IFUNC chose; 0 without target */
};

enum mvld_reference_kind {
    /* Through a slot, as the analysis lists them; `site` is the opcode, prefixes stand before it. */
    MVLD_REFERENCE_CALL_PLT = 1, /* e8 rel32     call entry of the PLT */
    MVLD_REFERENCE_JUMP_PLT,     /* e9 rel32     jmp  entry */
    MVLD_REFERENCE_JCC_PLT,      /* 0f 8x rel32  jcc  entry */
    MVLD_REFERENCE_CALL_SLOT,    /* ff 15 rel32  call *slot(%rip) */
    MVLD_REFERENCE_JUMP_SLOT,    /* ff 25 rel32  jmp  *slot(%rip) */
    MVLD_REFERENCE_CALL_SINGLE,  /* e8 rel32     call of a function of the same object that is one
                                                 instruction and a return; its slot is 0 */
    /* Inside of the object, from code that can be moved; `site` likewise. */
    MVLD_REFERENCE_CALL, /* e8 rel32             call of other code */
    MVLD_REFERENCE_JUMP, /* e9, 0f 8x rel32      jump to other code, perhaps of the same function */
    MVLD_REFERENCE_LEA,  /* 48 8d, 4c 8d rel32   takes the address of code */
    /* In data. */
    MVLD_REFERENCE_SLOT,      /* a slot of the GOT */
    MVLD_REFERENCE_WORD,      /* a word that a relocation made the address of code */
    MVLD_REFERENCE_JUMP_TABLE /* four bytes: how far behind the start of the table */
};
#define MVLD_REFERENCES(kind) (1u << (kind)) /* or-ed: which kinds */
#define MVLD_REFERENCES_ALL (~0u)

/* A place that is proven to lead somewhere.  The analysis that found it was made of the file: who
 * patches the bytes at `site` compares them. */
struct mvld_reference {
    uintptr_t site;   /* its instruction, word or entry, now */
    uintptr_t slot;   /* the GOT slot that it goes through, or is, now; 0: none */
    uintptr_t target; /* where it is wanted to lead: of moved code, where that came from; through a slot, 0 where
                         that is not certain */
    enum mvld_reference_kind kind;
    uintptr_t found;  /* where it leads, whatever passes before want; likewise */
};
#define MVLD_RETARGETS_MAX (1u << 20) /* that one pass leads elsewhere at a time */

/* Where a call through a slot is wanted; an entry of the executable's PLT, which stands for a
 * function whose address the executable takes, is followed. */
struct mvld_binding {
    uint32_t flags;    /* MVLD_SLOT_RELRO: each slot on the way; MVLD_SLOT_LAZY: one of them */
    uintptr_t slot;    /* its address, now */
    uintptr_t target;
    const struct mvld_object *holder; /* that the target is in, or NULL */
    uintptr_t found;                  /* where the host loader sends the call; `target` is where the passes
                                         before want it, which is the same where none wants it elsewhere */
};

/* Where the calls of `object` through the slot of `bound` shall lead (calls_retarget).  NULL, and
 * *target: there.  Or why they stay as they are (static); with *target, which is 0 before, code that
 * is moved leads there all the same: they are not worth a page of memory, which to change code where
 * it was mapped takes.  With the slot for *target what the passes before want is taken back, and calls lead through
 * it, as they were found.  It is asked when somebody must know, once or more often, or never, and depends
 * on nothing but its arguments, the settings, and what the api tells of `object` and `bound`. */
typedef const char *mvld_calls_rule(const struct mvld_context *, const struct mvld_object *object,
                                    const struct mvld_binding *bound, uintptr_t *target);

#define MVLD_CALLS_SINGLES 1u /* also, a function of the object that is one instruction and a return
                                 stands where it is called */
#define MVLD_CALLS_BOUND 2u   /* the rule says `target` as it was told it, for each slot that is read-only: it need
                                 not be asked where calls are known to lead there */

#endif
