/* SPDX-License-Identifier: MIT
 *
 * rimf/analysis/analysis.c: look-ups in an analysis that analysis/open.c has checked; analysis/analysis.h
 * has the format.
 */
#include "rimf/analysis/analysis.h"

#include "rimf/base/base.h"

uint64_t analysis_header_checksum(const struct analysis_header *header)
{
    size_t before = offsetof(struct analysis_header, checksum), after = before + sizeof(uint64_t);
    uint64_t hash = rimf_hash_more(rimf_mix(0, header->header_size), header, before);

    return rimf_hash_more(hash, (const uint8_t *)header + after, header->header_size - after);
}

/* ---- finding -------------------------------------------------------------------- */

size_t analysis_first_from(const void *entries, size_t n, size_t stride, uint32_t address)
{
    return RIMF_BISECT(i, n, *(const uint32_t *)((const uint8_t *)entries + i * stride) < address);
}

uint32_t analysis_first_movable(const struct analysis *s)
{
    size_t i = 0;

    while (i < s->n_units && s->units[i].reason != ANALYSIS_PROVEN)
        i++;
    return i < s->n_units ? s->units[i].start : UINT32_MAX;
}

const struct analysis_unit *analysis_unit_at(const struct analysis *s, uint32_t address)
{
    size_t i = ANALYSIS_FROM(s, units, address);

    if (i < s->n_units && s->units[i].start == address)
        return &s->units[i];
    return i && address - s->units[i - 1].start < s->units[i - 1].size ? &s->units[i - 1] : NULL;
}

int analysis_is_of(const struct analysis *s, const void *build_id, size_t size)
{
    return size && size == s->header->build_id_size &&
           memcmp(build_id, s->header->build_id, size) == 0;
}

/* ---- reasons -----------------------------------------------------------------------------------
 *
 * Reasons as sentences.
 */

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
