/* SPDX-License-Identifier: MIT
 *
 * unwound: unwind tables of code that is displaced: those of functions are read, also where a program of theirs ends in
 * the middle of an instruction; those of trampolines are made.  A failure means that a start hangs, or that a pass gets
 * no code before an instruction where other passes have much.
 */
#include "../../check.h"

#include "rimf/code/code.h"

#include <unistd.h>

static struct reader program(const uint8_t *bytes, size_t size)
{
    return (struct reader){.at = bytes, .end = bytes + size};
}

static void reads(void)
{
    static const uint8_t start[] = {0x0c, 7, 8, 0x90, 1}; /* CFA = %rsp + 8, the return address at CFA - 8 */
    static const uint8_t push[] = {0x41, 0x0e, 16};       /* behind a byte: CFA = %rsp + 16 */
    static const uint8_t damaged[][3] = {{0x04, 0, 0}, {0x0c, 7, 0x80}, {0x83, 0x80, 0x80}};
    struct code_frame frame = {.initial = program(start, sizeof start), .program = program(push, sizeof push)};
    struct code_unwind unwind;

    CHECK(code_unwind_at(&frame, 0, &unwind) == 0 && unwind.base == CODE_UNWIND_RSP && unwind.offset == 8);
    CHECK(code_unwind_at(&frame, 1, &unwind) == 0 && unwind.offset == 16);
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        struct reader cut = program(damaged[i], sizeof damaged[i]);

        frame = (struct code_frame){.initial = program(start, sizeof start), .program = cut};
        CHECK(code_unwind_at(&frame, 1, &unwind) < 0, "(%zu)", i);
        frame = (struct code_frame){.initial = cut, .program = program(push, sizeof push)};
        CHECK(code_unwind_at(&frame, 1, &unwind) < 0, "(%zu)", i);
    }
}

/* The code of so many passes at a place: its frame has no more bytes. */
static void makes(size_t n)
{
    static struct code_spliced codes[4000];
    static const struct mvld_image image;
    struct code_splice splice = {.place = 0x1000, .way = SPLICE_CALL, .length = 5, .old = {0xe8},
                                 .live = MVLD_LIVE_FLAGS, .first = codes};
    uint8_t frame[MVLD_FRAME_MAX];
    const char *why = "";
    size_t frame_size, size;
    struct reader made;

    for (size_t i = 0; i < n; i++)
        codes[i] = (struct code_spliced){.next = i + 1 < n ? &codes[i + 1] : NULL, .is_made = 1};
    size = code_trampoline(&image, &splice, 0x2000, NULL, frame, &frame_size, &why);
    CHECK(!why && size > 22 * n && frame_size < 64, "%zu codes: %zu bytes, frame of %zu (%s)", n, size, frame_size, why);
    made = program(frame, frame_size);
    CHECK(cfa_can_move(&made));
}

int main(void)
{
    alarm(20);
    reads();
    makes(1);
    makes(4000);
    return 0;
}
