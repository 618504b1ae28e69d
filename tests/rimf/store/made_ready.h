/* SPDX-License-Identifier: MIT
 *
 * tests/rimf/store/made_ready.h: tables of ready code with every kind of entry, to be spoilt.
 */
#ifndef MADE_READY_H
#define MADE_READY_H

#include "rimf/store/ready.h"

#include <string.h>

struct made_ready {
    struct ready_header header;
    struct frozen_text texts[2];
    struct analysis_call rest[3];
    struct ready_slot slots[2];
    char name[24];
};

/* A checksum that fits whatever the tables say now. */
static inline void made_ready_seal(void *bytes, size_t size)
{
    struct ready_header *header = bytes;

    if (size >= sizeof *header)
        header->checksum = frozen_checksum(bytes, size);
}

static inline void made_ready_make(struct made_ready *m)
{
    *m = (struct made_ready){
        .header = {.magic = READY_MAGIC, .version = READY_VERSION,
                   .header_size = sizeof m->header, .size = sizeof *m, .made_by = 7,
                   .build_id = 8, .file = {1, 2, 0x9000, 4, 5}, .self = {1, 6, 0xa000, 4, 0},
                   .n_texts = 2, .n_slots = 2, .n_rest = 3, .name_size = sizeof m->name,
                   .singles = 3},
        .texts = {{.linked = 0x1000, .size = 0x2000, .offset = 0x1000, .hash = 1},
                  {.linked = 0x4000, .size = 0x3000, .offset = 0x6000, .hash = 2}},
        .rest = {{0x1000, 0x8000 | ANALYSIS_CALL_PLT}, {0x1005, ANALYSIS_CALL_SINGLE},
                 {0x4ffe, 0x8010 | ANALYSIS_JMP_SLOT}},
        .slots = {{0x8000, 4, 0x1010}, {0x8008, 1, 0x6fff}},
        .name = "/lib/one.so.6\0/bin/two",
    };
    made_ready_seal(m, sizeof *m);
}

#endif
