/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/reasons.c: reasons in words.
 */
#include "rimf/analyze/analyser.h"

const char *reason_words(enum sidecar_reason reason)
{
    static const char *const words[SIDECAR_REASONS] = {
        [SIDECAR_PROVEN] = "proven",
        [SIDECAR_UNDECODABLE] = "bytes that are no instruction",
        [SIDECAR_IMPLAUSIBLE] = "an instruction that no compiler emits",
        [SIDECAR_OVERRUN] = "its last instruction ends behind its end",
        [SIDECAR_ADDRESS_SIZE] = "an address of 32 bits relative to RIP",
        [SIDECAR_RELOCATED] = "a relocation changes it",
        [SIDECAR_ENTERED] = "a branch leads into the middle of an instruction",
        [SIDECAR_POINTED] = "a pointer, symbol or landing pad into the middle of an instruction",
        [SIDECAR_READ] = "it is read as data",
        [SIDECAR_OUTSIDE] = "an operand outside the object",
        [SIDECAR_BASE] = "it computes with its own address (large code model)",
        [SIDECAR_LABEL_TAKEN] = "the address of a place inside it is taken",
        [SIDECAR_TAKES_LABEL] = "it takes the address of a place inside a function",
        [SIDECAR_FALLS] = "it runs on into code that stays home",
        [SIDECAR_SHORT_BRANCH] = "a short branch into code that stays home",
        [SIDECAR_FRAME_ODD] = "its unwinding description cannot be made one of a copy",
        [SIDECAR_KEPT] = "data keeps a place inside it, such as a return address",
        [SIDECAR_BOUNDED] = "its section has bounds that code may ask for",
    };

    return reason < SIDECAR_REASONS ? words[reason] : "unknown";
}
