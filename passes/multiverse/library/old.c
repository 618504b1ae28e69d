/* SPDX-License-Identifier: MIT
 *
 * old.c: addresses of code that commits replaced.
 *
 * Descriptors say where functions begin; unwind tables say where they end.  A compiler may put a part of a function
 * elsewhere (GCC's .text.unlikely), which then has an entry of its own in these tables: a part is what a conditional
 * branch or a jump table leads to; and what a jump leads to, unless it looks like a function, which begins on
 * a multiple of 16 with the stack of one that was just called.  Branches are looked for at each byte: too much
 * may be found, which only means that some thread is waited for.
 */
#include <stdlib.h>
#include <string.h>

#include "passes/multiverse/library/library.h"

#include "rimf/elf/frame_table.h"
#include "rimf/x86/decode.h"

#define RX (PROT_READ | PROT_EXEC)
#define TABLE_MAX 4096u /* entries of a jump table */

/* Where the distance at this address leads, counted from there. */
static uintptr_t lead_of(uintptr_t at, uintptr_t from)
{
    return from + (uintptr_t)distance_at((const void *)at);
}

static int is_readable(const struct mvld_object *object, uintptr_t at, size_t size)
{
    const struct mvld_segment *last = object->segments;

    return object->n_segments && mv_holds(object, &last, at, size, PROT_READ);
}

/* Does the stack look there as behind a call?  First among its instructions is an advance, or they end. */
static int is_like_called(const struct mvld_object *object, uintptr_t fde)
{
    const uint8_t *at = (const uint8_t *)fde + 16;
    uintptr_t end = fde + 4 + (uint32_t)distance_at((const void *)fde);
    uint8_t first;

    if ((uintptr_t)at + 1 + *at >= end || !is_readable(object, fde, end - fde))
        return (uintptr_t)at + 1 + *at == end;
    first = at[1 + *at]; /* behind the augmentation, which is short */
    return !first || first >> 6 == 1 || (first >= 2 && first <= 4);
}

/* The piece of code that has the address.  0, or negative errno. */
static int find_piece(const struct mv_ranges *list, const struct mvld_object *object, uintptr_t address,
                      struct mv_range *out, uintptr_t *fde)
{
    struct elf_frame frame;
    int error = elf_frame_find(object, list->engine->api->object_holds, address, &frame);

    if (!error) {
        *out = (struct mv_range){frame.start, frame.size};
        *fde = frame.fde;
    }
    return error;
}

/* ---- pieces --------------------------------------------------------------------------------------------------- */

static void add_range(struct mv_ranges *list, uintptr_t start, size_t size)
{
    struct mv_range *longer;

    for (size_t i = 0; i < list->n; i++)
        if (list->at[i].start == start)
            return;
    longer = realloc(list->at, (list->n + 1) * sizeof *longer);
    if (!longer) {
        list->error = ENOMEM;
        return;
    }
    list->at = longer;
    longer[list->n++] = (struct mv_range){start, size};
}

/* Does it end in a call, which may never return?  Then the return address is the first byte behind it. */
static size_t ends_in_call(struct mv_range piece)
{
    const uint8_t *end = (const uint8_t *)piece.start + piece.size;

    return piece.size >= 6 && (end[-5] == 0xe8 || (end[-6] == 0xff && end[-5] == 0x15) ||
                               (end[-2] == 0xff && (end[-1] & 0x38) == 0x10));
}

/* A range, and where its code runs if that has moved. */
static void add_piece(struct mv_ranges *list, struct mv_range piece)
{
    uintptr_t moved = 0;

    piece.size += ends_in_call(piece);
    add_range(list, piece.start, piece.size);
    list->engine->api->moved_find(list->engine->image, piece.start, 1, &moved);
    if (moved)
        add_range(list, moved, piece.size);
}

struct piece {
    struct mv_ranges *list;
    const struct mvld_object *object;
    struct mv_range own;
    uintptr_t in_force;
};

/* A branch of `own` leads there. */
static void follow(const struct piece *p, uintptr_t target, int is_jump)
{
    struct mv_range part;
    uintptr_t fde;

    if (target == p->in_force || target - p->own.start < p->own.size || find_piece(p->list, p->object, target, &part, &fde))
        return;
    if (is_jump && part.start == target && target % 16 == 0 && is_like_called(p->object, fde))
        return;
    if (!is_jump || part.start == target)
        add_piece(p->list, part);
}

/* Entries are distances from the table, or of 8 bytes addresses; the first that leads into no code ends it. */
static void follow_table(const struct piece *p, uintptr_t table, size_t width)
{
    const struct mvld_segment *code = p->object->segments;

    for (size_t i = 0; i < TABLE_MAX && is_readable(p->object, table + i * width, width); i++) {
        uintptr_t at = table + i * width, target = lead_of(at, table);

        if (width == sizeof target)
            memcpy(&target, (const void *)at, sizeof target);
        if (!mv_holds(p->object, &code, target, 1, RX) || !(code->prot & PROT_EXEC))
            return;
        follow(p, target, 0);
    }
}

/*     0f 8x rel32            jcc
 *     e9 rel32               jmp
 *     REX 8d /r, rel32       lea table(%rip)
 *     ff 24 SIB disp32       jmp *table(,%reg,8) */
static void follow_branches(const struct piece *p)
{
    const uint8_t *code = (const uint8_t *)p->own.start;

    for (size_t i = 0; i + 7 <= p->own.size; i++) {
        uintptr_t at = p->own.start + i;

        if (code[i] == 0x0f && code[i + 1] >> 4 == 8)
            follow(p, lead_of(at + 2, at + 6), 0);
        else if (code[i] == 0xe9)
            follow(p, lead_of(at + 1, at + 5), 1);
        else if (code[i] >> 4 == 4 && code[i + 1] == 0x8d && (code[i + 2] & 0xc7) == 5)
            follow_table(p, lead_of(at + 3, at + 7), 4);
        else if (code[i] == 0xff && code[i + 1] == 0x24)
            follow_table(p, lead_of(at + 3, 0), 8);
    }
}

void mv_ranges_add_old(void *ranges, const struct mv_old *old)
{
    struct piece p = {.list = ranges, .object = old->object, .in_force = old->in_force};
    uintptr_t fde;

    if (find_piece(ranges, old->object, old->address, &p.own, &fde)) {
        if (old->size)
            add_piece(p.list, (struct mv_range){old->address, old->size});
        else
            p.list->error = p.list->error ? p.list->error : ENOTSUP;
        return;
    }
    add_piece(p.list, p.own);
    if (!old->size) /* else the compiler has left it in one piece */
        follow_branches(&p);
}
