/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/frames.h: the ranges that .eh_frame describes, and where exceptions
 * land in them.
 */
#ifndef ANALYZE_FRAMES_H
#define ANALYZE_FRAMES_H

#include "object.h"

struct frame { /* an FDE */
    uint32_t start, end;
    uint32_t lsda; /* 0: none */
    uint8_t signal; /* its CIE says S: a signal handler's return */
    uint8_t unread; /* its language data is encoded in a way that is not known */
};

/* struct frame, sorted by start, those of executable segments only.  0, or -1 with the
 * object's error set; no description at all is none of these. */
int frames_read(struct object *, struct vector *frames);

/* Calls `visit` with each landing pad.  `budget` is how many bytes may still be read,
 * of all frames together: a file can point all frames to one large table.  0; -1 when
 * the table cannot be read. */
int frame_landing_pads(const struct object *, const struct frame *, uint64_t *budget,
                       void (*visit)(void *cookie, uint64_t pad), void *cookie);

#endif
