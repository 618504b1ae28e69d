/* SPDX-License-Identifier: MIT
 *
 * tests/rimf/store/made_later.h: a list of learnt objects with every kind of entry, to be spoilt.
 */
#ifndef MADE_LATER_H
#define MADE_LATER_H

#include "rimf/store/later.h"

#include <string.h>

struct made_later {
    struct later_header header;
    struct later_object objects[3];
    struct frozen_text texts[3];
    struct frozen_word words[3];
    struct analysis_home homes[3];
    char names[80];
};

/* A checksum that fits whatever the file says now. */
static inline void made_later_seal(void *bytes, size_t size)
{
    struct later_header *header = bytes;

    if (size >= sizeof *header)
        header->checksum = frozen_checksum(bytes, size);
}

static inline void made_later_make(struct made_later *m)
{
    *m = (struct made_later){
        .header = {.magic = LATER_MAGIC, .version = LATER_VERSION,
                   .header_size = sizeof m->header, .size = sizeof *m, .image = 7,
                   .n_start = 4, .n_objects = 3, .n_texts = 3, .n_words = 3, .n_homes = 3,
                   .names_size = sizeof m->names,
                   .table = {.file = {1, 11, 0x2000, 4, 5}, .code = 0x4000, .frames = 0x10000,
                             .code_end = 0x9000, .frames_end = 0x13000, .n_start = 100, .n = 600,
                             .name = 27}},
        .objects = {{.file = {1, 2, 0x3000, 4, 5}, .copy = {1, 6, 0x3000, 7, 8},
                     .distance = -0x5000, .length = 0x4000, .name = 1, .copy_name = 8,
                     .n_texts = 1, .n_words = 2,
                     .code = {.file = {1, 12, 0x5000, 4, 5}, .at = 0x5010, .frames = 0x11000,
                              .offset = 0x2000, .original = 0x1010, .code = 0x800, .size = 0x801,
                              .frames_size = 0x1100, .flags = FROZEN_MOVED, .n_homes = 1,
                              .name = 41}},
                    {.file = {1, 9, 0x2000, 4, 5}, .distance = -0x9000, .length = 0x2000,
                     .name = 1}, /* nothing in it was changed */
                    {.file = {1, 3, 0x9000, 4, 5}, .copy = {1, 10, 0x9000, 7, 8},
                     .distance = 0x100000, .linked = 0x1000, .length = 0x9000, .name = 14,
                     .copy_name = 21, .n_texts = 2, .n_words = 1,
                     .code = {.file = {1, 13, 0x5000, 4, 5}, .at = 0x7000, .frames = 0x10000,
                              .offset = 0x1000, .original = 0x1000, .code = 0x1000, .size = 0x1f00,
                              .frames_size = 0x100, .n_homes = 2, .name = 52}}},
        .texts = {{.object = 0, .linked = 0x1000, .size = 0x1000, .offset = 0x1000, .hash = 1},
                  {.object = 2, .linked = 0x1000, .size = 0x2000, .offset = 0x1000, .hash = 2},
                  {.object = 2, .linked = 0x3000, .size = 0x6000, .offset = 0x3000, .hash = 3}},
        .words = {{4, 0x2008, 2, 0x1010}, {6, 0x2010, 0, 0x1001}, {3, 0x9000, 6, 0x1010}},
        .homes = {{0x10, 0x7f0}, {0, 0x10}, {0x20, 0xfe0}},
        .names = "\0/m/one\0" "4-one\0" "/m/two\0" "6-two\0" "later-table-2\0" "4-one.code\0"
                 "6-two.code",
    };
    made_later_seal(m, sizeof *m);
}

#endif
