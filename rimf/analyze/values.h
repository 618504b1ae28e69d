/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/values.h: registers with tables' addresses, while a unit is interpreted (dispatch.c).
 */
#ifndef RIMF_ANALYZE_VALUES_H
#define RIMF_ANALYZE_VALUES_H

#include "rimf/analyze/analyser.h"

enum held {
    HELD_OTHER,
    HELD_ADDRESS, /* of a table */
    HELD_PARTLY,  /* the same, with one byte overwritten */
    HELD_ENTRY,   /* of that table */
    HELD_SUM,     /* the sum of both: the jump target */
    HELD_MANY     /* one of several of these, or of several tables */
};

struct value {
    uint64_t tables; /* table_bit of each possible table */
    uint32_t table;  /* 0 for HELD_MANY */
    uint8_t held, perhaps; /* perhaps: or anything else */
    uint16_t zero;         /* states are compared by their bytes */
};

/* The state at one place of a unit. */
struct values {
    struct analyser *a;
    struct unit *u;
    struct value of[16]; /* by register number */
};

/* Joins the values of two paths. */
struct value value_join(const struct value *, const struct value *);
int value_is_certain(const struct value *, enum held);

/* Whether a table may be at that address. */
int could_be_table(const struct analyser *, uint64_t address);
/* movslq (base,index,4),entry */
int is_read_of_entry(const uint8_t *code, const struct instruction *, unsigned *base, unsigned *index);

/* Applies the instruction at `at`; spoils tables of which it makes another use. */
void values_step(struct values *, const uint8_t *code, uint32_t at, const struct instruction *);

#endif
