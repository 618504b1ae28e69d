/* SPDX-License-Identifier: MIT
 *
 * patch/moved.c: code that does not run at its mapped address, as mvld in the process reports it
 * (loader/start/outside.h).
 */
#include "tools/patch/patch.h"

#include "loader/start/outside.h"
#include "rimf/elf/headers.h"
#include "rimf/x86/decode.h"

#include <string.h>

#define STAGE0_NOTE 1 /* loader/start/entry.S */

/* Reads the notes of an ELF file that is mapped from `base` on. */
static void read_notes(const struct attach *a, uint64_t base, struct moved *m)
{
    _Alignas(8) uint8_t head[4096];
    const uint8_t *desc;
    int32_t distance;
    size_t n;

    if (attach_read(a, base, head, sizeof head))
        return;
    m->is_under_mvld = elf_head_note(head, sizeof head, "mvld", STAGE0_NOTE, &n) != NULL;
    desc = elf_head_note(head, sizeof head, "mvld", OUTSIDE_NOTE, &n);
    if (!desc || n != sizeof distance)
        return;
    memcpy(&distance, desc, sizeof distance);
    m->function = base + (uint64_t)(desc - head) + (uint64_t)(int64_t)distance;
}

uint64_t moved_loader(const struct attach *a)
{
    uint64_t base = attach_auxiliary(a, AT_BASE);

    /* Run as a program, it is what the kernel's auxv describes. */
    return base ? base : attach_auxiliary(a, AT_PHDR) & ~UINT64_C(4095);
}

int moved_find_loader(struct attach *a, struct moved *m)
{
    uint64_t base = moved_loader(a);

    *m = (struct moved){0};
    read_notes(a, base, m);
    m->base = m->is_under_mvld ? base : 0;
    return m->is_under_mvld && !m->function
               ? attach_fail(a, "process %d: its mvld is another build than this one", a->pid)
               : 0;
}

/* Whether a jump to the copy is among these bytes, or overlaps them.  -1: they are gone. */
static int leads_to(const struct attach *a, uint64_t at, uint64_t copy)
{
    uint8_t code[3 * PATCH_JUMP - 2];

    if (attach_read(a, at - (PATCH_JUMP - 1), code, sizeof code))
        return -1;
    for (size_t i = 0; i + PATCH_JUMP <= sizeof code; i++)
        if (code[i] == 0xe9 && distance_at(code + i + 1) == (int64_t)(copy - at) - PATCH_JUMP)
            return 1;
    return 0;
}

int moved_places(struct attach *a, const struct moved *m, uint64_t at, uint64_t *copy)
{
    uint64_t room, where, result;
    int leads = 0;
    size_t n;

    *copy = 0;
    if (!m->function)
        return 1;
    room = attach_room(a, &n);
    where = n < 8 ? 0 : room;
    if (!where || attach_call(a, m->function, (uint64_t[]){at, PATCH_JUMP, where}, 3, &result) ||
        attach_read(a, where, copy, sizeof *copy))
        return -1;
    if (*copy)
        leads = leads_to(a, at, *copy);
    return leads < 0 ? attach_fail(a, "process %d: its code cannot be read", a->pid) : !leads;
}
