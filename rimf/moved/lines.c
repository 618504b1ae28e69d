/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/lines.c: where in a line of the caches a hot function that moves begins.
 *
 * A processor reads code line by line, one a cycle; where a run of instructions begins at the end
 * of a line, that one brings little.  A function is entered at its beginning, so that is best at the
 * beginning of a line.  But a short loop that lies across two lines is read at half the speed, each
 * time around: rather than that, the function begins 16, 32 or 48 bytes behind, where fewest of
 * its loops do so.  What lies as the original is among these, so none has more of them than that.
 *
 * Functions that are aligned to less than 16 were placed for size or by hand, and lie as the originals.
 */
#include "rimf/moved/moved.h"

#include "rimf/base/base.h"
#include "rimf/x86/decode.h"
#include "rimf/image/private.h"

#include <sys/mman.h> /* numbers only */

#define PLACES (RIMF_MOVED_LINE / RIMF_MOVED_ALIGN)

/* A loop from `first` to before `end`, by distance from the beginning of the code: at which places
 * of the latter would it lie across? */
static void count_loop(size_t first, size_t end, size_t *across)
{
    for (size_t i = 0; i < PLACES; i++) {
        size_t place = i * RIMF_MOVED_ALIGN;

        across[i] += (place + first) / RIMF_MOVED_LINE != (place + end - 1) / RIMF_MOVED_LINE;
    }
}

/* What is no instruction (a table between two functions) is passed over: nothing depends on it. */
unsigned moved_line_of(const uint8_t *code, size_t size)
{
    size_t across[PLACES] = {0}, best = 0;

    for (size_t at = 0, end; at < size; at = end) {
        struct instruction i;
        unsigned length = decode(code + at, size - at, &i);
        enum flow flow = length ? instruction_flow(&i) : FLOW_NEXT;
        uint64_t target;

        end = at + (length ? length : 1);
        if (flow != FLOW_BRANCH && flow != FLOW_JUMP)
            continue;
        target = branch_target(code + at, at, &i);
        if (target <= at && end - target <= RIMF_MOVED_LINE)
            count_loop(target, end, across);
    }
    for (size_t i = 1; i < PLACES; i++)
        best = across[i] < across[best] ? i : best;
    return (unsigned)best * RIMF_MOVED_ALIGN;
}

unsigned moved_in_line(const struct rimf_object *object, uintptr_t original, size_t size)
{
    if (original % RIMF_MOVED_ALIGN || !elf_holds(&object->view, original, size, PROT_READ | PROT_EXEC))
        return original % RIMF_MOVED_LINE;
    return moved_line_of((const uint8_t *)original, size);
}
