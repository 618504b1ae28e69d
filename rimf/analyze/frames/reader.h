/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/frames/reader.h: reads .eh_frame and the data that it points to.
 */
#ifndef ANALYZE_FRAME_READER_H
#define ANALYZE_FRAME_READER_H

#include "rimf/analyze/object.h"

#define ENCODING_OMIT 0xff
#define ENCODING_PCREL_SDATA4 0x1b
#define ENCODING_DATAREL_SDATA4 0x3b
#define ENCODING_INDIRECT 0x80

/* Reads bytes at an address; past the end they are 0 and `bad` is set. */
struct reader {
    const uint8_t *at, *end;
    uint64_t address;
    int bad;
};

struct reader reader_at(const struct object *, uint64_t address, uint64_t most);
/* The content of the record (CIE, FDE) at `address`; `id` is its second word. */
struct reader reader_of_record(const struct object *, uint64_t address, uint64_t *id);

uint64_t take(struct reader *, size_t size);
uint64_t take_uleb(struct reader *);
uint64_t take_sleb(struct reader *);
/* A value of encoding `how` (DW_EH_PE_*); 0 stays 0 in every encoding. */
uint64_t take_encoded(struct reader *, uint8_t how, uint64_t data);

#endif
