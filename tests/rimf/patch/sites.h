/* SPDX-License-Identifier: MIT
 *
 * tests/rimf/patch/sites.h: the callers of patch/sites.S and what may stand at
 * their sites.
 */
#ifndef TESTS_RIMF_PATCH_SITES_H
#define TESTS_RIMF_PATCH_SITES_H

#include "support.h"

struct patch_site {
    int (*caller)(void);
    uint8_t *site;
};
extern const struct patch_site patch_sites_table[], patch_sites_table_end[];
extern uint8_t patch_sites_start[], patch_sites_end[];
int patch_one(void), patch_two(void);

#define PATCH_SITES ((size_t)(patch_sites_table_end - patch_sites_table))
#define PATCH_STATES 3 /* a caller returns the number of its state: 1, 2, 3 */

/* 1: call patch_one   e8 rel32
 * 2: call patch_two   e8 rel32
 * 3: mov $3, %eax     b8 03 00 00 00 */
static inline void patch_sites_encode(const uint8_t *site, int state, uint8_t out[5])
{
    intptr_t to = state == 1 ? (intptr_t)patch_one : (intptr_t)patch_two;
    int32_t operand = state == 3 ? 3 : (int32_t)(to - ((intptr_t)site + 5));

    out[0] = state == 3 ? 0xb8 : 0xe8;
    memcpy(out + 1, &operand, 4);
}

/* A batch that takes every site from one state to another. */
static inline struct mvld_batch *patch_sites_batch(struct rimf_patcher *patcher, int from, int to)
{
    struct mvld_batch *b = rimf_patcher_begin(patcher);
    uint8_t old[5], new[5];

    CHECK(b);
    for (size_t i = 0; i < PATCH_SITES; i++) {
        uint8_t *site = patch_sites_table[i].site;
        patch_sites_encode(site, from, old);
        patch_sites_encode(site, to, new);
        CHECK(rimf_patch_add(b, (uintptr_t)site, old, new, 5) == 0);
    }
    return b;
}

/* Takes every site to the next state, or to none: then they all stay in *state. */
static inline int patch_sites_commit(struct rimf_patcher *patcher, int *state,
                                     struct mvld_patch_report *report)
{
    int next = *state % PATCH_STATES + 1;
    struct mvld_batch *b = patch_sites_batch(patcher, *state, next);
    int r = rimf_patch_commit(b, report);

    rimf_patch_end(b);
    *state = r == 0 ? next : *state;
    for (size_t i = 0; i < PATCH_SITES; i++)
        CHECK(patch_sites_table[i].caller() == *state, "(after %d)", r);
    return r;
}

/* The engine over these pages of the test's own text. */
static inline void patch_sites_open(struct patch_text *t)
{
    memset(t, 0, sizeof(*t));
    t->code = patch_sites_start;
    t->size = (size_t)(patch_sites_end - patch_sites_start);
    t->segment = (struct mvld_segment){(uintptr_t)patch_sites_start, (uintptr_t)patch_sites_end,
                                       PROT_READ | PROT_EXEC};
    patch_text_engine(t);
}

#endif
