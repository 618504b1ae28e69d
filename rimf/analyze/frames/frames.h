/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/frames/frames.h: the ranges that .eh_frame describes, and where exceptions
 * land in them.
 */
#ifndef ANALYZE_FRAMES_H
#define ANALYZE_FRAMES_H

#include "rimf/analyze/object.h"

struct frame { /* an FDE */
    uint32_t start, end;
    uint32_t lsda; /* 0: none */
    uint32_t fde;  /* its place */
    uint8_t signal; /* its CIE says S: a signal handler's return */
    uint8_t unread; /* its language data is encoded in a way that is not known */
};

/* struct frame, sorted by start, those of executable segments only; *list: where the list
 * of records begins, 0: there is none.  0, or -1 with the object's error set; no
 * description at all is none of these. */
int frames_read(struct object *, struct vector *frames, uint64_t *list);

/* Calls `visit` with each landing pad.  `budget` is how many bytes may still be read,
 * of all frames together: a file can point all frames to one large table.  0; -1 when
 * the table cannot be read. */
int frame_landing_pads(const struct object *, const struct frame *, uint64_t *budget,
                       void (*visit)(void *cookie, uint64_t pad), void *cookie);

/* ---- all records (frames/list.c) ---------------------------------------------------- */

/* Places are 0 when there is no distance to correct. */
struct record {
    uint32_t address;
    uint32_t start;       /* of an FDE's range */
    uint32_t other_at;    /* where the distance to an exception table stands, or that to a
                           * personality, or to the word that holds it */
    uint8_t is_cie, has_table;
    uint8_t distances; /* its addresses are distances of four bytes; an FDE's start is the
                        * one at address + 8 */
    uint8_t odd;       /* it cannot describe moved code, nor can the FDEs of this CIE */
};

struct frame_list {
    uint32_t start, size; /* the end mark included; size 0: none, or damaged */
    struct vector records; /* struct record, by address */
};

/* From the record at `start` to the end mark behind `last`, if there is a list at all.
 * Personalities that are not named through a word become pointers of the object.  0, or -1
 * with the object's error set: there is no memory. */
int frame_list_read(struct object *, uint64_t start, uint64_t last, struct frame_list *);
const struct record *frame_list_at(const struct frame_list *, uint32_t address);

struct reader;
/* cfa.c: 1 when the call frame program that the reader stands at holds for moved code. */
int cfa_can_move(struct reader *);

#endif
