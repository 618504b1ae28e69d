/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/frames.c: unwind tables of moved code (moved/moved.h).
 *
 * An .eh_frame contains distances from its own addresses:
 *
 *     FDE   length, distance to its CIE, distance to the code, size of the code,
 *           distance to the language's own data (LSDA), instructions
 *     CIE   length, 0, version, augmentation, distance to the personality or to a word
 *           that holds it, instructions
 *
 * So its copy is right once the distances to code are changed to moved code and all others to the originals;
 * the analysis has their positions.  The LSDA needs no copy: it counts from the start of the function that
 * the FDE names.
 *
 * The region has one .eh_frame_hdr, the table that unwinders search:
 *
 *     01 1b 03 3b                 version; distance to an .eh_frame; how many; the table:
 *     distance to the first .eh_frame, four bytes from here
 *     how many
 *     { code - here, FDE - here } ascending by code
 *
 * It grows at its end, behind the count, which is changed last: other threads may be searching it.
 */
#include "rimf/moved/moved.h"

#include "rimf/base/base.h"
#include "rimf/x86/decode.h"
#include "rimf/image/private.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

#define SEARCHED_SHARE 4 /* of the frames: space for the table */

struct searched {
    int32_t code, fde;
};

struct search {
    uint8_t version, frames_encoding, count_encoding, table_encoding;
    int32_t frames;
    uint32_t count;
    struct searched table[];
};
_Static_assert(sizeof(struct search) == MOVED_FRAMES_HEAD &&
               sizeof(struct searched) == MOVED_FRAMES_ENTRY, "LSB, Eh Frame Header");

size_t moved_frames_table(const struct rimf_region *region)
{
    return rimf_page_down(region->frames_size / SEARCHED_SHARE);
}

size_t moved_frames_size(const struct moving *c)
{
    return (c->analysis->header->frames_size + 7u) & ~(size_t)7;
}

int moved_frames_sorted(struct moving *c)
{
    const struct analysis *s = c->analysis;
    struct moved_code *moved = c->image->moved;
    struct search *search = (struct search *)moved->region.frames;
    uintptr_t base = (uintptr_t)search;
    uint32_t start = (uint32_t)(c->fragment->original - c->bias);

    for (size_t i = ANALYSIS_FROM(s, frames, start);
         i < s->n_frames && s->frames[i].start - start < c->fragment->code; i++) {
        int64_t code = (int64_t)(c->bias + s->frames[i].start + (uintptr_t)c->distance - base);
        int64_t fde = (int64_t)(c->object->frames + s->frames[i].fde - s->header->frames_start - base);

        if (code != (int32_t)code || fde != (int32_t)fde)
            return moving_refuse(c, "its unwind table is farther than 2 GiB from the region");
        search->table[moved->n_frames++] = (struct searched){(int32_t)code, (int32_t)fde};
    }
    return 0;
}

/* Corrects a distance from its own address, in bytes that were copied over `distance`. */
static int fix(struct moving *c, const struct analysis_frame_fix *fix, intptr_t distance)
{
    uintptr_t from = c->bias + fix->address, to = from + (uintptr_t)distance;
    uintptr_t target = from + (uintptr_t)distance_at((const void *)from);

    if (fix->kind == ANALYSIS_FRAME_CODE && moving_at(c, target))
        target += (uintptr_t)c->distance;
    return moving_target(c, (uint8_t *)to, to, target);
}

int moved_frames(struct moving *c, uintptr_t to)
{
    const struct analysis *s = c->analysis;
    uintptr_t from = c->bias + s->header->frames_start;
    intptr_t distance = (intptr_t)(to - from);
    int error = 0;

    if (!s->header->frames_size)
        return 0;
    if (!elf_holds(&c->object->view, from, s->header->frames_size, PROT_READ))
        return moving_refuse(c, "its unwind table lies outside it");
    memcpy((void *)to, (const void *)from, s->header->frames_size);
    for (size_t i = 0; i < s->n_frame_fixes && !error; i++)
        error = fix(c, &s->frame_fixes[i], distance);
    return error;
}

/* ---- what no object describes ------------------------------------------------------- */

/* "zR": distances of four bytes; at a function's start the CFA is 8 bytes above %rsp and the return address
 * just below it. */
static const uint8_t cie[24] = {20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b,
                                0x0c, 7, 8, 0x90, 1};

struct fde {
    uint32_t length, cie;
    int32_t code;
    uint32_t size;
    uint8_t data_size, frame[]; /* zeros, without effect, to the end */
};

static size_t fde_size(const struct rimf_described *described)
{
    return (offsetof(struct fde, frame) + described->frame_size + 7u) & ~(size_t)7;
}

size_t moved_frames_described_size(const struct rimf_described *list, size_t n)
{
    size_t size = n ? sizeof cie : 0;

    for (size_t i = 0; i < n; i++)
        size += fde_size(&list[i]);
    return size;
}

/* All of it is in one library, so distances fit. */
uintptr_t moved_frames_described(struct moved_code *moved, const struct rimf_described *list, size_t n, uintptr_t to)
{
    struct search *search = (struct search *)moved->region.frames;
    uintptr_t at = to + sizeof cie, base = (uintptr_t)search;

    if (n)
        memcpy((void *)to, cie, sizeof cie);
    for (size_t i = 0; i < n; i++) {
        const struct rimf_described *described = &list[i];
        struct fde *fde = (struct fde *)at;

        fde->length = (uint32_t)(fde_size(described) - sizeof fde->length);
        fde->cie = (uint32_t)((uintptr_t)&fde->cie - to);
        fde->code = (int32_t)(described->start - (uintptr_t)&fde->code);
        fde->size = described->size;
        memcpy(fde->frame, described->frame, described->frame_size);
        search->table[moved->n_frames++] =
            (struct searched){(int32_t)(described->start - base), (int32_t)(at - base)};
        at += fde_size(described);
    }
    return n ? at : to;
}

/* ---- searching ------------------------------------------------------------------------ */

/* The end of the code that the FDE describes: its start is at fde + 8, a four-byte distance from there; its
 * length follows. */
static uintptr_t end_of(uintptr_t base, const struct searched *entry)
{
    return base + (uintptr_t)(intptr_t)entry->code +
           *(const uint32_t *)(base + (uintptr_t)(intptr_t)entry->fde + 12);
}

uintptr_t moved_frames_start(const struct moved_code *moved, uintptr_t at, size_t length)
{
    const struct search *search = (const struct search *)moved->region.frames;
    uintptr_t base = (uintptr_t)search;
    intptr_t wanted = (intptr_t)(at - base);
    size_t begun = RIMF_BISECT(i, __atomic_load_n(&search->count, __ATOMIC_ACQUIRE),
                               search->table[i].code <= wanted);

    if (!begun || end_of(base, &search->table[begun - 1]) < at + length)
        return 0;
    return base + (uintptr_t)(intptr_t)search->table[begun - 1].code;
}

/* ---- for files ------------------------------------------------------------------------- */

void moved_frames_publish(struct moved_code *moved)
{
    static const uint8_t encodings[4] = {1, 0x1b, 0x03, 0x3b};
    struct search *search = (struct search *)moved->region.frames;

    if (!search->version) {
        search->frames = (int32_t)(moved_frames_table(&moved->region) - 4);
        memcpy(search, encodings, sizeof encodings);
    }
    __atomic_store_n(&search->count, (uint32_t)moved->n_frames, __ATOMIC_RELEASE);
}
