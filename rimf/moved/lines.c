/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/lines.c: aligns hot functions that move to cache lines.
 *
 * A processor reads code line by line, one a cycle; the last bytes of a line give few instructions.  A
 * function is entered at its beginning, which is best at the beginning of a line.  But a short loop across
 * two lines is read at half the speed in each iteration.  To avoid that, the function begins 16, 32 or 48
 * bytes later, where the fewest of its loops cross lines.  The original's alignment is among these, so no
 * choice is worse than the original.
 *
 * Functions that are aligned to less than 16 were placed for size or by hand, and keep the original's
 * alignment.
 */
#include "rimf/moved/moved.h"

#include "rimf/base/base.h"
#include "rimf/x86/decode.h"
#include "rimf/image/private.h"

#include <sys/mman.h> /* numbers only */

#define PLACES (RIMF_MOVED_LINE / RIMF_MOVED_ALIGN)

/* For a loop from `first` to before `end`, as distances from the beginning of the code: counts it for each
 * alignment at which it would cross a line. */
static void count_loop(size_t first, size_t end, size_t *across)
{
    for (size_t i = 0; i < PLACES; i++) {
        size_t place = i * RIMF_MOVED_ALIGN;

        across[i] += (place + first) / RIMF_MOVED_LINE != (place + end - 1) / RIMF_MOVED_LINE;
    }
}

/* Bytes that are no instruction (a table between two functions) are skipped: nothing depends on this. */
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
