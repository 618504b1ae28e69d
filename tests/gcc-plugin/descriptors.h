/* SPDX-License-Identifier: MIT
 *
 * descriptors.h: a small reader of include/mvld/descriptor.h for the tests of
 * the plugin.  It trusts the descriptors less than the run time does: whatever
 * is not exactly as the plugin promises ends the test.
 */
#ifndef TEST_DESCRIPTORS_H
#define TEST_DESCRIPTORS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

struct found_variant {
    const char *name;
    void *body;
    uint32_t size;
    unsigned n_guards;
};

struct found_function {
    const char *name;
    void *body, *pad;
    void **pointer; /* of a function pointer, else NULL */
    unsigned n_variants, n_sites;
    const void *record; /* inside the object */
};

/* Reads the descriptors of all objects and checks every byte of them: records
 * inside their tables, pads and sites of the documented shape and within one
 * aligned word, sites that lead to their callee. */
void descriptors_read(void);

/* The record whose body or pointer variable is at `address`, or NULL. */
const struct found_function *find_function(const void *address);
/* The same, by the name in the record. */
const struct found_function *find_named(const char *name);
/* The variant for the present values of the switches, the generic if there is
 * none: what a commit would bind. */
void *variant_of(const void *function);
const char *variant_name(const void *function);
struct found_variant variant_at(const struct found_function *, unsigned index);
/* Different bodies among the variants. */
unsigned count_bodies(const struct found_function *);
unsigned count_records(void);
unsigned count_sites(void);
unsigned count_reads(void); /* of constants */
/* The 5 bytes of the inline call of that number, of the function or of all (NULL); or NULL. */
const unsigned char *inline_call(const void *function, unsigned number);
const char *inline_name(unsigned number); /* of all: the function */
/* The switch's records: 0 when there is none. */
int find_switch(const void *address, unsigned *width, unsigned *flags, const char **name);

#define CHECK(what)                                                                               \
    do {                                                                                          \
        if (!(what)) {                                                                            \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #what);                    \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

#ifdef __cplusplus
}
#endif
#endif
