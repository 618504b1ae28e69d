/* SPDX-License-Identifier: MIT
 *
 * rimf/analysis/reasons.c: reasons as sentences.
 */
#include "rimf/analysis/analysis.h"

const char *analysis_reason_words(enum analysis_reason reason)
{
    static const char *const words[ANALYSIS_REASONS] = {
        [ANALYSIS_PROVEN] = "proven",
        [ANALYSIS_UNDECODABLE] = "bytes that are no instruction",
        [ANALYSIS_IMPLAUSIBLE] = "an instruction that no compiler emits",
        [ANALYSIS_OVERRUN] = "its last instruction ends behind its end",
        [ANALYSIS_ADDRESS_SIZE] = "an address of 32 bits relative to RIP",
        [ANALYSIS_RELOCATED] = "a relocation changes it",
        [ANALYSIS_ENTERED] = "a branch leads into the middle of an instruction",
        [ANALYSIS_POINTED] = "a pointer, symbol or landing pad into the middle of an instruction",
        [ANALYSIS_READ] = "it is read as data",
        [ANALYSIS_OUTSIDE] = "an operand outside the object",
        [ANALYSIS_BASE] = "it computes with its own address (large code model)",
        [ANALYSIS_LABEL_TAKEN] = "the address of a place inside it is taken",
        [ANALYSIS_TAKES_LABEL] = "it takes the address of a place inside a function",
        [ANALYSIS_FALLS] = "it runs on into code that stays",
        [ANALYSIS_SHORT_BRANCH] = "a short branch into code that stays",
        [ANALYSIS_FRAME_ODD] = "its unwinding description cannot be made one of moved code",
        [ANALYSIS_KEPT] = "data keeps a place inside it, such as a return address",
        [ANALYSIS_BOUNDED] = "its section has bounds that code may ask for",
    };

    return reason < ANALYSIS_REASONS ? words[reason] : "unknown";
}
