/* SPDX-License-Identifier: MIT
 *
 * tests/passes/multiverse/check.h: what the C tests of the multiverse pass share.
 */
#ifndef TESTS_PASSES_MULTIVERSE_CHECK_H
#define TESTS_PASSES_MULTIVERSE_CHECK_H

#include <errno.h>
#include <multiverse.h>

#define CHECK_TELL() \
    fprintf(stderr, "error: %s\nreport: %s\n", multiverse_error(), multiverse_report())
#include "../../check.h"

/* The common fixture: part_switch.S, part_function.S, part_sites.S. */
struct caller {
    const char *name;
    int (*call)(void);
    unsigned char *site;
};
extern int mode;
#ifdef VIA_ADDRESS /* hidden in its library, which tells where it is */
int (*decide_address(void))(void);
# define decide (decide_address())
#else
int decide(void);
#endif
extern const struct caller callers[];

/* Every recorded call, and a call through a pointer unless `through` is 0. */
static inline void check_calls(const char *when, int want, int through)
{
    int (*volatile pointer)(void) = decide;

    for (const struct caller *c = callers; c->name; c++) {
        int is = c->call();

        CHECK(is == want, "(%s: %s gives %d, want %d)", when, c->name, is, want);
    }
    if (through)
        CHECK(pointer() == through, "(%s: through a pointer %d, want %d)", when, pointer(),
              through);
}

#endif
