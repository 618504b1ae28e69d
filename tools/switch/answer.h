/* SPDX-License-Identifier: MIT
 *
 * answer.h: parses a process's answer to "list" (passes/multiverse/library/request.c).
 */
#ifndef ANSWER_H
#define ANSWER_H

#include <stddef.h>
#include <stdint.h>

struct live_switch {
    const char *name;
    uint64_t address, value; /* value: extended to 64 bits by its type */
    unsigned width, flags;   /* MULTIVERSE_SWITCH_* */
    int is_bound;
    size_t n_functions;
};

struct live_function {
    const char *name, *object, *kind; /* kind: function, pointer, constant */
    uint64_t address;
    size_t n_variants, n_sites;
    const char *active, *outcome, *why; /* active: the variant in force, or "" */
    const char *asks; /* the switches that its variants read, separated by tabs */
};

struct answer {
    char *text; /* contains the names */
    struct live_switch *switches;
    size_t n_switches;
    struct live_function *functions;
    size_t n_functions;
};

/* Parses the text and owns it.  0, or -1: it is of another build. */
int answer_parse(struct answer *, char *text);
void answer_free(struct answer *);

/* "bool", "int32", …, and the least and greatest value, in decimal. */
void switch_type(const struct live_switch *, char type[16], char low[24], char high[24]);
void switch_value(const struct live_switch *, char to[24]);
/* Reads "3", "-1", "0x10", "true".  0, or -1: no number, or not one that the switch holds. */
int switch_parse(const struct live_switch *, const char *text, uint64_t *value);

#endif
