/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/frames/frames.h: the ranges that .eh_frame describes, and their landing pads.
 */
#ifndef ANALYZE_FRAMES_H
#define ANALYZE_FRAMES_H

#include "rimf/analyze/object.h"
#include "rimf/elf/frames.h"

/* Reads the file at an address, to the end of its segment. */
static inline struct reader reader_at(const struct object *o, uint64_t address)
{
    const uint8_t *at = object_at(o, address, 0);
    size_t room = object_room(o, address);

    return (struct reader){at, at + room, address, !room};
}

struct frame { /* an FDE */
    uint32_t start, end;
    uint32_t lsda; /* 0: none */
    uint32_t fde;  /* its place */
    uint8_t signal; /* its CIE says S: a signal handler's return */
    uint8_t unread; /* its language data has an unknown encoding */
};

/* Reads struct frame, sorted by start, those of executable segments only; *list: the address of the first
 * record, 0: there is none.  Returns 0, or -1 with the object's error set; a missing description is no
 * error. */
int frames_read(struct object *, struct vector *frames, uint64_t *list);

/* Calls `visit` with each landing pad.  `budget` limits the bytes read for all frames together: a file can
 * point all frames to one large table.  0; -1 if the table cannot be read. */
int frame_landing_pads(const struct object *, const struct frame *, uint64_t *budget,
                       void (*visit)(void *cookie, uint64_t pad), void *cookie);

/* ---- all records (frames/frames.c) ---------------------------------------------------- */

/* An offset is 0 if there is no distance to correct. */
struct record {
    uint32_t address;
    uint32_t start;       /* of an FDE's range */
    uint32_t other_at;    /* offset of the distance to an exception table, or to a personality or the word
                           * with its address */
    uint8_t is_cie, has_table;
    uint8_t distances; /* its addresses are distances of four bytes; an FDE's start is the
                        * one at address + 8 */
    uint8_t odd;       /* it cannot describe moved code, nor can the FDEs of this CIE */
};

struct frame_list {
    uint32_t start, size; /* with the end mark; size 0: none, or damaged */
    struct vector records; /* struct record, by address */
};

/* Reads from the record at `start` to the end mark behind `last`, if there is a list.  Personalities that
 * are named directly become pointers of the object.  0, or -1 with the object's error set: no memory. */
int frame_list_read(struct object *, uint64_t start, uint64_t last, struct frame_list *);
const struct record *frame_list_at(const struct frame_list *, uint64_t address);

#endif
