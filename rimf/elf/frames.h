/* SPDX-License-Identifier: MIT
 *
 * rimf/elf/frames.h: reads .eh_frame and the data that it points to, in a file or in memory.
 *
 * .eh_frame is a list of records: a length, the distance back to the record's CIE (0: it is a CIE itself), the
 * content:
 *
 *     CIE   version, "zPLR", alignments of code and data, return address, size,
 *           P how + personality, L how, R how, program
 *     FDE   start of the range, its size, size, exception table, program
 */
#ifndef RIMF_ELF_FRAMES_H
#define RIMF_ELF_FRAMES_H

#include <stddef.h>
#include <stdint.h>

/* DW_EH_PE_* */
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

/* The next number: of `size` bytes, ULEB128. */
uint64_t frame_uint(struct reader *, size_t size);
uint64_t frame_uleb128(struct reader *);
/* A value of encoding `how`; 0 stays 0 in every encoding. */
uint64_t frame_encoded(struct reader *, uint8_t how, uint64_t data);
/* The content of the record where the reader is; `id` is its second word. */
struct reader frame_record(struct reader, uint64_t *id);

struct cie {
    uint8_t version;
    uint8_t sized;   /* z: FDEs give the size of their language's data */
    uint8_t signal;  /* S: a signal handler's return, whose range begins before its code */
    uint8_t keyed;   /* B: pointer authentication, elsewhere */
    uint8_t range_how, table_how, personality_how; /* encodings; ENCODING_OMIT: the last two have none */
    uint64_t code_alignment, data_alignment, return_address;
    uint64_t personality_at, personality; /* where it is named, and the address there */
    struct reader program;
    uint8_t whole;   /* the program begins where z says */
};

/* Reads the content of a CIE's record.  0, or -1: its form is unknown. */
int cie_read(struct reader, struct cie *);

/* elf/frames.c: returns 1 if the reader's call frame program is understood, and valid for moved code. */
int cfa_can_move(struct reader *);

#endif
