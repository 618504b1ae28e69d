/* SPDX-License-Identifier: MIT
 *
 * tests/rimf/made_later.h: a list of learnt objects with every kind of entry, to be spoilt.
 */
#ifndef MADE_LATER_H
#define MADE_LATER_H

#include "store/later.h"

#include <string.h>

struct made_later {
    struct later_header header;
    struct later_object objects[3];
    struct manifest_text texts[3];
    struct manifest_word words[3];
    char names[32];
};

/* A checksum that fits whatever the file says now. */
static inline void made_later_seal(void *bytes, size_t size)
{
    struct later_header *header = bytes;

    if (size >= sizeof *header)
        header->checksum = manifest_checksum(bytes, size);
}

static inline void made_later_make(struct made_later *m)
{
    *m = (struct made_later){
        .header = {.magic = LATER_MAGIC, .version = LATER_VERSION,
                   .header_size = sizeof m->header, .size = sizeof *m, .image = 7,
                   .n_start = 4, .n_objects = 3, .n_texts = 3, .n_words = 3,
                   .names_size = sizeof m->names},
        .objects = {{.file = {1, 2, 0x3000, 4, 5}, .copy = {1, 6, 0x3000, 7, 8},
                     .distance = -0x5000, .length = 0x4000, .name = 1, .copy_name = 8,
                     .n_texts = 1, .n_words = 2},
                    {.file = {1, 9, 0x2000, 4, 5}, .distance = -0x9000, .length = 0x2000,
                     .name = 1}, /* nothing in it was changed */
                    {.file = {1, 3, 0x9000, 4, 5}, .copy = {1, 10, 0x9000, 7, 8},
                     .distance = 0x100000, .linked = 0x1000, .length = 0x9000, .name = 14,
                     .copy_name = 21, .n_texts = 2, .n_words = 1}},
        .texts = {{.object = 0, .linked = 0x1000, .size = 0x1000, .offset = 0x1000, .hash = 1},
                  {.object = 2, .linked = 0x1000, .size = 0x2000, .offset = 0x1000, .hash = 2},
                  {.object = 2, .linked = 0x3000, .size = 0x6000, .offset = 0x3000, .hash = 3}},
        .words = {{4, 0x2008, 2, 0x1010}, {6, 0x2010, 0, 0x1001}, {3, 0x9000, 6, 0x1010}},
        .names = "\0/m/one\0" "4-one\0" "/m/two\0" "6-two",
    };
    made_later_seal(m, sizeof *m);
}

#endif
