/* SPDX-License-Identifier: MIT
 *
 * tests/rimf/analysis/made_analysis.h: an analysis with every kind of entry, to be spoilt.
 */
#ifndef MADE_ANALYSIS_H
#define MADE_ANALYSIS_H

#include "rimf/analysis/analysis.h"

#include <string.h>

#define MADE_TABLES 10
#define MADE_PATH "/lib/made.so"
#define MADE_BUILD_ID "\xab\xcd\xef\x01"

struct made_analysis {
    struct analysis_header header;
    struct analysis_table tables[MADE_TABLES];
    struct analysis_segment segments[2];
    struct analysis_unit units[5]; /* 60 bytes, padded to 64 */
    uint32_t padding;
    struct analysis_call calls[5];
    struct analysis_reference references[3];
    struct analysis_jump_table jump_tables[2];
    struct analysis_frame frames[3];
    struct analysis_frame_fix frame_fixes[6];
    struct analysis_branch branches[4];
    struct analysis_fixed fixed[2];
    char path[16]; /* 13 bytes, padded */
};

/* Checksums that fit whatever the file says now; bounds are `room`'s. */
static inline void made_seal(void *bytes, size_t room)
{
    struct analysis_header *header = bytes;

    if (room < sizeof *header)
        return;
    for (uint32_t i = 0; i < header->n_tables && i < ANALYSIS_TABLES_MAX; i++) {
        struct analysis_table *table = (struct analysis_table *)(header + 1) + i;
        uint64_t size;

        if ((uint8_t *)(table + 1) > (uint8_t *)bytes + room)
            return;
        size = (table->count * table->entry_size + 7) & ~7ul;
        if (table->offset <= room && size <= room - table->offset)
            table->checksum = rimf_hash((uint8_t *)bytes + table->offset, size);
    }
    if (header->header_size <= room && header->header_size >= sizeof *header)
        header->checksum = analysis_header_checksum(header);
}

static inline void made_analysis(struct made_analysis *made)
{
    static const struct {
        uint32_t kind, entry_size, count;
        size_t offset;
    } tables[MADE_TABLES] = {
        {ANALYSIS_SEGMENTS, 16, 2, offsetof(struct made_analysis, segments)},
        {ANALYSIS_UNITS, 12, 5, offsetof(struct made_analysis, units)},
        {ANALYSIS_CALLS, 8, 5, offsetof(struct made_analysis, calls)},
        {ANALYSIS_REFERENCES, 8, 3, offsetof(struct made_analysis, references)},
        {ANALYSIS_JUMP_TABLES, 8, 2, offsetof(struct made_analysis, jump_tables)},
        {ANALYSIS_FRAMES, 8, 3, offsetof(struct made_analysis, frames)},
        {ANALYSIS_FRAME_FIXES, 8, 6, offsetof(struct made_analysis, frame_fixes)},
        {ANALYSIS_BRANCHES, 4, 4, offsetof(struct made_analysis, branches)},
        {ANALYSIS_FIXED_CODE, 8, 2, offsetof(struct made_analysis, fixed)},
        {ANALYSIS_PATH, 1, sizeof MADE_PATH, offsetof(struct made_analysis, path)},
    };

    *made = (struct made_analysis){
        .header = {.magic = "", .version = ANALYSIS_VERSION,
                   .header_size = sizeof made->header + sizeof made->tables,
                   .size = sizeof *made, .analyser = ANALYSER_VERSION, .build_id_size = 4,
                   .identity = {1, 2, 3, 4, 5}, .n_tables = MADE_TABLES,
                   .frames_start = 0x6000, .frames_size = 0x90, .constants_hash = 9},
        .segments = {{0x1000, 0x1000, 7}, {0x3000, 0x800, 8}},
        .units = {{0x1000, 0x100, ANALYSIS_PROVEN,
                   ANALYSIS_DECODED | ANALYSIS_REACHED | ANALYSIS_HEAD, 0},
                  {0x1100, 0x20, ANALYSIS_UNDECODABLE, ANALYSIS_JOINED, 0},
                  {0x1120, 0x10, ANALYSIS_FALLS, ANALYSIS_DECODED, 0},
                  {0x1f00, 0x100, ANALYSIS_PROVEN,
                   ANALYSIS_DECODED | ANALYSIS_REACHED | ANALYSIS_JOINED, 0},
                  {0x3000, 0x800, ANALYSIS_PROVEN, ANALYSIS_DECODED, 0}},
        .calls = {{0x1000, 0x5000 | ANALYSIS_CALL_PLT},
                  {0x1005, 0x5008 | ANALYSIS_CALL_SLOT},
                  {0x1120, 0x5010 | ANALYSIS_JMP_PLT},
                  {0x1ffa, 0x5018 | ANALYSIS_JMP_SLOT},
                  {0x37fa, 0x5000 | ANALYSIS_JCC_PLT}},
        .references = {{0x1010, ANALYSIS_TO_DATA, 0, 0},
                       {0x10f8, ANALYSIS_TO_JUMP_TABLE, 4, 0},
                       {0x1f10, ANALYSIS_TO_CODE, 0, 0}},
        .jump_tables = {{0x4000, 4}, {0x4010, 1}},
        .frames = {{0x1000, 0x6070}, {0x1f00, 0x6020}, {0x3000, 0x6048}},
        .frame_fixes = {{0x6011, ANALYSIS_FRAME_OTHER, {0}}, {0x6028, ANALYSIS_FRAME_CODE, {0}},
                        {0x6031, ANALYSIS_FRAME_OTHER, {0}}, {0x6050, ANALYSIS_FRAME_CODE, {0}},
                        {0x6078, ANALYSIS_FRAME_CODE, {0}}, {0x608c, ANALYSIS_FRAME_OTHER, {0}}},
        .branches = {{0x1080}, {0x10fc}, {0x1f80}, {0x37f0}},
        .fixed = {{0x1100, 0x30}, {0x3000, 0x800}},
        .path = MADE_PATH,
    };
    memcpy(made->header.magic, ANALYSIS_MAGIC, sizeof made->header.magic);
    memcpy(made->header.build_id, MADE_BUILD_ID, 4);
    for (size_t i = 0; i < MADE_TABLES; i++)
        made->tables[i] = (struct analysis_table){
            tables[i].kind, tables[i].entry_size, tables[i].offset, tables[i].count, 0};
    made_seal(made, sizeof *made);
}

#endif
