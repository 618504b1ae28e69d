/* SPDX-License-Identifier: MIT
 *
 * rimf/code/code.h: functions and instructions (mvld/pass/code.h), from analyses and the code itself.
 *
 * The analysis of an object has its functions and how far each is proven, but no instructions.  They are
 * decoded again from the present code, which passes may have changed; each change replaces one instruction by
 * one of the same length, so instruction boundaries stay.  Targets are those that passes want.
 */
#ifndef RIMF_CODE_H
#define RIMF_CODE_H

#include "mvld/pass.h"
#include "rimf/analysis/analysis.h"
#include "rimf/elf/frames.h"
#include "rimf/image/private.h"
#include "rimf/x86/decode.h"

/* ---- code/instructions.c: of code only ------------------------------------------------------ */

struct code_instructions {
    struct mvld_instruction *list; /* ascending; `others` as far as the code itself tells */
    size_t n;
};

/* Decodes the function of `size` bytes that runs at `address` and is readable at `code`.  `live` is computed
 * if `decides`; otherwise everything is live.  0; -ENOEXEC: the instructions do not end at its end; -ENOMEM.
 * After 0, to be released. */
int code_instructions_of(struct rimf_heap *, const uint8_t *code, size_t size, uintptr_t address, int decides,
                         struct code_instructions *);
void code_instructions_release(struct rimf_heap *, struct code_instructions *);
/* The instruction at the address, or NULL. */
struct mvld_instruction *code_instruction_at(const struct code_instructions *, uintptr_t address);

/* ---- code/trampoline.c: how a function is unwound --------------------------------------------------- */

struct code_frame {
    struct reader initial, program; /* instructions of the CIE, and of the FDE */
    int has_pads; /* it has landing pads */
};

/* The frame of a movable unit.  0; -ENOENT: it is not listed, or of another form than compilers use. */
int code_frame_of(const struct rimf_object *, const struct analysis *, const struct analysis_unit *,
                  struct code_frame *);

/* The caller's frame and registers, before one instruction. */
struct code_unwind {
    uint8_t base;      /* base register of the CFA, in DWARF's numbering: */
    uint32_t offset;   /* so far */
    uint8_t saved[17]; /* for each register: it is at CFA - 8 times this; 0: unchanged */
};
#define CODE_UNWIND_RSP 7u
/* The ABI's state at the first byte of a function. */
extern const struct code_unwind code_unwind_entry;
/* The state before the instruction at this offset in the function.  0; -ENOTSUP: it needs more than offsets. */
int code_unwind_at(const struct code_frame *, uint32_t offset, struct code_unwind *);

/* ---- code/splice.c, code/place.c, code/trampoline.c: code in front of an instruction -------------- */

#define SPLICE_LONGEST 14u /* replaced bytes: prefixes and a jump */
#define SPLICE_STEPS 6u    /* instructions, of one byte or more, that a jump overwrites */

struct code_spliced {
    struct code_spliced *next;
    const struct mvld_context *ctx;
    mvld_splice_code *code;
    void *cookie;
    int is_made;
};

enum code_splice_way {
    SPLICE_CALL,      /* e8: calls the trampoline, which continues with a jump */
    SPLICE_CALL_SLOT, /* ff 15: likewise, through the slot */
    SPLICE_MOVED      /* the instructions are in the trampoline, after the code */
};

/* All code before one instruction. */
struct code_splice {
    struct code_splice *next;
    struct rimf_object *object;
    uintptr_t place;
    enum code_splice_way way;
    uint8_t length;                       /* bytes that are replaced */
    uint8_t old[SPLICE_LONGEST], now[SPLICE_LONGEST], then[SPLICE_LONGEST]; /* then: once all are made */
    int is_made;                          /* some of its code: `now` is there; else `old` */
    int is_other;                         /* made, but `old` was changed since: it is to be made again */
    uint32_t live;                        /* MVLD_LIVE* */
    struct code_unwind unwind[SPLICE_STEPS + 1]; /* before each instruction, and after the last */
    struct code_spliced *first;
};

/* This code runs once what is wanted now is made. */
static inline int code_spliced_counts(const struct mvld_image *image, const struct code_spliced *s)
{
    return s->is_made || s->ctx != image->unfinished;
}

/* A place for a splice. */
struct code_place {
    const struct analysis *s;
    const struct analysis_unit *unit;
    uintptr_t start; /* of the function */
    uint32_t offset; /* in it: of the instruction, behind an endbr64 */
    uint32_t live;   /* MVLD_LIVE* */
    const uint8_t *code;
    struct instruction i;
};

/* Returns -error, with a sentence. */
int code_refuse(const struct mvld_context *, const struct rimf_object *, uintptr_t address, int error, const char *why);
/* The instruction at the address.  0, or negative errno with a sentence. */
int code_place_find(const struct mvld_context *, struct rimf_object *, uintptr_t address, struct code_place *);
/* Decides which instructions are displaced, and how: NULL, or why it is impossible (static). */
const char *code_place_read(struct code_splice *, const struct code_place *);
/* The same again for a splice that is not made: passes may have given its instructions other targets. */
const char *code_place_read_again(struct mvld_image *, struct code_splice *);
/* Writes the trampoline of a splice, at `to`, into `code`; or with NULL returns the largest size that it may have.
 * Its frame is in `frame`, of MVLD_FRAME_MAX bytes, and *frame_size.  0, or a static sentence in *why. */
size_t code_trampoline(const struct mvld_image *, const struct code_splice *, uintptr_t to, uint8_t *code,
                       uint8_t *frame, size_t *frame_size, const char **why);

int rimf_code_splice(const struct mvld_context *, uintptr_t address, mvld_splice_code *, void *cookie);
/* The pass has run: its splices are wanted.  0, or negative errno with a sentence. */
int rimf_splices_check(struct mvld_image *, const struct mvld_context *);
/* Drops this pass's splices that are not made. */
void rimf_splices_forget(struct mvld_image *, const struct mvld_context *);
/* The splice at this address, if it is made; or NULL. */
struct code_splice *code_splice_at(const struct mvld_image *, uintptr_t address);
/* The first pass whose code runs before instructions there; or NULL. */
const struct mvld_context *code_spliced_by(const struct mvld_image *, uintptr_t start, size_t size);

/* ---- code/remove.c: functions that passes remove ------------------------------------------------- */

int rimf_code_remove(const struct mvld_context *, const struct mvld_function *, uint32_t flags);
/* The pass has run: nothing that stays leads to what it removes.  0, or negative errno with a sentence. */
int rimf_removals_check(struct mvld_image *, const struct mvld_context *);
/* They become traps, but for those of the pass that runs.  NULL; or *error, with a sentence, and the pass whose do
 * not. */
const struct mvld_context *rimf_removals_emit(struct mvld_image *, int *error);
/* Drops this pass's that are not made. */
void rimf_removals_forget(struct mvld_image *, const struct mvld_context *);

/* ---- code/bound.c: symbols that objects refer to -------------------------------------------------- */

/* 0, or -ENOMEM. */
int code_bound_read(struct mvld_image *);
/* An object refers to a symbol of this name, or has this address.  `name` may be NULL. */
int code_is_bound(const struct mvld_image *, uintptr_t address, const char *name);

/* ---- code/functions.c: behind rimf_api() -------------------------------------------------------- */

/* The unit of the address, in an object whose code has not moved; or NULL, and a static sentence in *why. */
const struct analysis_unit *code_unit_at(struct mvld_image *, struct rimf_object *, uintptr_t address,
                                         const struct analysis **, const char **why);
/* The instructions of such a unit.  0; or negative errno with a static sentence in *why. */
int code_instructions_at(struct mvld_image *, struct rimf_object *, const struct analysis *,
                         const struct analysis_unit *, struct code_instructions *, const char **why);

int rimf_function_each(struct mvld_image *, const struct mvld_object *,
                       int (*visit)(void *cookie, const struct mvld_function *), void *cookie, const char **why);
int rimf_function_find(struct mvld_image *, uintptr_t address, struct mvld_function *out);
int rimf_instruction_each(struct mvld_image *, const struct mvld_function *,
                          int (*visit)(void *cookie, const struct mvld_instruction *), void *cookie,
                          const char **why);

#endif
