/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/values.h: what registers hold of a table's address while a unit is run through (dispatch.c).
 */
#ifndef RIMF_ANALYZE_VALUES_H
#define RIMF_ANALYZE_VALUES_H

#include "rimf/analyze/analyser.h"

enum held {
    HELD_OTHER,
    HELD_ADDRESS, /* of a table */
    HELD_PARTLY,  /* the same, with another byte written into it */
    HELD_ENTRY,   /* of that table */
    HELD_SUM,     /* of both: where to jump */
    HELD_MANY     /* one of several of these, or of several tables */
};

struct value {
    uint64_t tables; /* table_bit of each that it may be of */
    uint32_t table;  /* of HELD_MANY it is 0 */
    uint8_t held, perhaps; /* perhaps: or anything else */
    uint16_t zero;         /* states are compared by their bytes */
};

/* At one place of a unit. */
struct values {
    struct analyser *a;
    struct unit *u;
    struct value of[16]; /* by the number of the register */
};

/* Where two ways meet. */
struct value value_join(const struct value *, const struct value *);
int value_is_certain(const struct value *, enum held);

/* Does that address lie where a table may? */
int could_be_table(const struct analyser *, uint64_t address);
/* movslq (base,index,4),entry */
int is_read_of_entry(const uint8_t *code, const struct instruction *, unsigned *base, unsigned *index);

/* What the instruction at `at` does to them; tables of which it makes another use are spoiled. */
void values_step(struct values *, const uint8_t *code, uint32_t at, const struct instruction *);

#endif
