/* SPDX-License-Identifier: MIT
 *
 * rimf/code/code.h: functions and instructions (mvld/pass/code.h), as analyses and the code itself tell them.
 *
 * The analysis of an object says where functions are and how far each is proven; it does not keep instructions.
 * They are decoded again from the code as it is now, which passes may have changed; each change replaces one
 * instruction by one of the same length, so instructions begin where they began.
 */
#ifndef RIMF_CODE_H
#define RIMF_CODE_H

#include "mvld/pass.h"
#include "rimf/analysis/analysis.h"
#include "rimf/image/private.h"

/* ---- code/instructions.c: of code alone ------------------------------------------------------ */

struct code_instructions {
    struct mvld_instruction *list; /* ascending; `others` as far as the code itself says */
    size_t n;
};

/* Those of the function of `size` bytes that runs at `address` and can be read at `code`.  `live` is decided
 * where `decides`; else all is.  0; -ENOEXEC: they do not end where it does; -ENOMEM.  After 0, to be released. */
int code_instructions_of(struct rimf_heap *, const uint8_t *code, size_t size, uintptr_t address, int decides,
                         struct code_instructions *);
void code_instructions_release(struct rimf_heap *, struct code_instructions *);
/* The one at the address, or NULL. */
struct mvld_instruction *code_instruction_at(const struct code_instructions *, uintptr_t address);

/* ---- code/frame.c: how a function is unwound --------------------------------------------------- */

struct code_frame {
    const uint8_t *initial, *initial_end; /* instructions of the CIE */
    const uint8_t *program, *program_end; /* and of the FDE */
    int has_pads; /* exceptions may land in it */
};

/* The frame of a movable unit.  0; -ENOENT: it is not listed, or of another form than compilers use. */
int code_frame_of(const struct rimf_object *, const struct analysis *, const struct analysis_unit *,
                  struct code_frame *);

/* ---- code/functions.c: behind rimf_api() -------------------------------------------------------- */

/* The unit that the address is in, of an object whose code runs where it was mapped; or NULL, and a sentence
 * (static) in *why. */
const struct analysis_unit *code_unit_at(struct mvld_image *, struct rimf_object *, uintptr_t address,
                                         const struct analysis **, const char **why);
/* The instructions of such a unit.  0; or negative errno with a sentence (static) in *why. */
int code_instructions_at(struct mvld_image *, struct rimf_object *, const struct analysis *,
                         const struct analysis_unit *, struct code_instructions *, const char **why);

int rimf_function_each(struct mvld_image *, const struct mvld_object *,
                       int (*visit)(void *cookie, const struct mvld_function *), void *cookie, const char **why);
int rimf_function_find(struct mvld_image *, uintptr_t address, struct mvld_function *out);
int rimf_instruction_each(struct mvld_image *, const struct mvld_function *,
                          int (*visit)(void *cookie, const struct mvld_instruction *), void *cookie,
                          const char **why);

#endif
