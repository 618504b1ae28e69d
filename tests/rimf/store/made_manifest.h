/* SPDX-License-Identifier: MIT
 *
 * tests/rimf/store/made_manifest.h: manifests of the two kinds, together with every kind of entry, to be spoilt.
 */
#ifndef MADE_MANIFEST_H
#define MADE_MANIFEST_H

#include "rimf/store/manifest.h"

#include <string.h>

struct made_manifest {
    struct manifest_header header;
    struct manifest_object objects[3];
    struct manifest_text texts[3];
    struct manifest_word words[4];
    struct manifest_relocations relocations[2];
    struct manifest_shift shifts[3];
    struct manifest_region region;
    struct manifest_fragment fragments[3];
    struct analysis_fixed fixed[3];
    struct manifest_pointer pointers[3];
    struct manifest_kept kept[2];
    char names[40];
};

/* A checksum that fits whatever the file says now. */
static inline void made_manifest_seal(void *bytes, size_t size)
{
    struct manifest_header *header = bytes;

    if (size >= sizeof *header)
        header->checksum = manifest_checksum(bytes, size);
}

static inline void made_manifest_make(struct made_manifest *m)
{
    *m = (struct made_manifest){
        .header = {.magic = MANIFEST_MAGIC, .version = MANIFEST_VERSION,
                   .header_size = sizeof m->header, .size = sizeof *m, .made_by = 7,
                   .n_objects = 3, .n_texts = 3, .n_words = 4, .n_regions = 1,
                   .n_fragments = 3, .names_size = sizeof m->names, .n_relocations = 2,
                   .n_kept = 2, .n_fixed = 3, .n_pointers = 3, .n_passes = 2,
                   .n_reads = 1, .n_shifts = 3, .reads = {{.name = 1, .file = {.inode = 3}}},
                   .passes = {{.name = 10, .flags = MANIFEST_IDLE}, {.name = 12, .library = 1}},
                   .tables = {1, 11, 0xa000, 4, 5}},
        .objects = {{.file = {1, 2, 0x3000, 4, 5}, .overlay = {1, 6, 0x3000, 7, 8},
                     .name = 1, .overlay_name = 10, .length = 0x8000, .n_words = 2},
                    {.name = 0, .overlay_name = 0, .flags = MANIFEST_UNPLACED}, /* the vDSO */
                    {.file = {1, 9, 0x9000, 4, 5}, .overlay = {1, 10, 0x9000, 7, 8},
                     .distance = -0x100000, .name = 17, .overlay_name = 26, .first = 0x1000, .length = 0x9000}},
        .texts = {{.object = 0, .linked = 0x1000, .size = 0x1000, .offset = 0x1000, .hash = 1},
                  {.object = 2, .linked = 0x1000, .size = 0x2000, .offset = 0x1000, .hash = 2},
                  {.object = 2, .linked = 0x3000, .size = 0x6000, .offset = 0x3000, .hash = 3}},
        .words = {{0, 0x2008, 2, 0x1010}, {0, 0x2010, 0, 0x1001}, {2, 0x9000, 2, 0x1010},
                  {2, 0x9008, 0, 0x1001}},
        .relocations = {{.object = 0, .n = 40, .linked = 0, .size = 0x1000, .offset = 0x6000,
                         .hash = 4},
                        {.object = 2, .n = 50, .linked = 0x1000, .size = 0x3000,
                         .offset = 0x7000, .hash = 5}},
        .shifts = {{.at = 0x40, .to_object = 2}, {.at = 0x1ff8, .to_object = 0}, {.at = 0x1010, .to_object = 0}},
        .region = {.code = 0x100000, .code_size = 0x10000,
                   .frames = 0x40000, .frames_size = 0x8000,
                   .pieces = {{0x100000, 0x2000, 0x1000}, {0x40000, 0x1000, 0x3000},
                              {0x42000, 0x2000, 0x4000}},
                   .object = 2, .n_frames = 9},
        .fragments = {{.object = 0, .flags = MANIFEST_MOVED, .original = 0x1040, .n_fixed = 2,
                    .at = 0x100040, .code = 0x100, .size = 0x110,
                    .sorted = 1},
                   {.object = 0, .original = 0x1020, .at = 0x100200, .code = 0x10, .size = 0x41},
                   {.object = 2, .flags = MANIFEST_MOVED, .original = 0x1000, .n_fixed = 1,
                    .at = 0x101000, .code = 0x1000, .size = 0x1000, .sorted = 2}},
        .fixed = {{0x10, 0x20}, {0x30, 0xd0}, {0, 0x1000}},
        .pointers = {{0, 0x3002, 0, 0}, {0, 0x300a, 2, 0xfff}, {1, 0x10, 0, 0xff}},
        .kept = {{.object = 2, .number = 1, .linked = 0x1010, .size = 9},
                 {.object = 1, .number = 7, .linked = 0x1000, .size = 1}},
        .names = "\0/bin/one\0" "0-one\0\0" "/lib/two\0" "2-two",
    };
    /* "" at 0, "/bin/one" at 1, "0-one" at 10, "/lib/two" at 17, "2-two" at 26 */
    made_manifest_seal(m, sizeof *m);
}

/* What came by dlopen, to a start with four objects. */
struct made_later {
    struct manifest_header header;
    struct manifest_object objects[3];
    struct manifest_text texts[3];
    struct manifest_word words[3];
    char names[32];
};

static inline void made_later_make(struct made_later *m)
{
    *m = (struct made_later){
        .header = {.magic = MANIFEST_MAGIC, .version = MANIFEST_VERSION,
                   .header_size = sizeof m->header, .size = sizeof *m, .base = 7,
                   .n_base = 4, .n_objects = 3, .n_texts = 3, .n_words = 3,
                   .names_size = sizeof m->names},
        .objects = {{.file = {1, 2, 0x3000, 4, 5}, .overlay = {1, 6, 0x3000, 7, 8},
                     .distance = -0x5000, .length = 0x4000, .name = 1, .overlay_name = 8,
                     .n_words = 2},
                    {.file = {1, 9, 0x2000, 4, 5}, .distance = -0x9000, .length = 0x2000,
                     .name = 1}, /* nothing in it was changed */
                    {.file = {1, 3, 0x9000, 4, 5}, .overlay = {1, 10, 0x9000, 7, 8},
                     .distance = 0x100000, .first = 0x1000, .length = 0x9000, .name = 14,
                     .overlay_name = 21, .n_words = 1}},
        .texts = {{.object = 4, .linked = 0x1000, .size = 0x1000, .offset = 0x1000, .hash = 1},
                  {.object = 6, .linked = 0x1000, .size = 0x2000, .offset = 0x1000, .hash = 2},
                  {.object = 6, .linked = 0x3000, .size = 0x6000, .offset = 0x3000, .hash = 3}},
        .words = {{4, 0x2008, 2, 0x1010}, {6, 0x2010, 0, 0x1001}, {3, 0x9000, 6, 0x1010}},
        .names = "\0/m/one\0" "4-one\0" "/m/two\0" "6-two",
    };
    made_manifest_seal(m, sizeof *m);
}

#endif
