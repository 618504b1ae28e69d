/* SPDX-License-Identifier: MIT
 *
 * try.h: measurements of `mvld try`, and conclusions.
 */
#ifndef TRY_H
#define TRY_H

#include <stddef.h>

enum { TRY_WALL, TRY_CPU, TRY_MEMORY, TRY_FIGURES }; /* seconds, seconds, KiB of maximum resident
                                                      * memory */

struct sample {
    double figure[TRY_FIGURES];
};

/* A mount namespace, and root and working folder in it: entering only the namespace would leave a
 * chroot.  mounts -1: this process's. */
struct try_place {
    int mounts, root, folder;
};
/* measure.c: enters it.  0, or -1. */
int try_enter(const struct try_place *);

/* A method to start the program.  The first is the plain one. */
struct try_way {
    const char *name;
    const char *remedy; /* the command that enables it; NULL for plain methods */
    char **argv; /* argv[0] is a path */
    char **environment;
    struct try_place place;
    const char *wrong;      /* why it is not measured any more, or NULL */
    struct sample *samples; /* one for each round */
};

struct try_runs {
    struct try_way *ways;
    size_t n_ways, n_rounds;
    int status; /* the plain program's, from waitpid */
    double first; /* seconds of its first run */
};

/* measure.c.  First: runs the plain program once, for its status.  NULL, or why nothing can be measured: it does not
 * end. */
const char *try_plainly(struct try_runs *);

/* Then: runs all methods in each round, in random order, until `seconds` are over or `most`
 * rounds are done.  A method whose status differs from the plain one's gets `wrong`.  NULL, or why
 * nothing can be measured. */
const char *try_measure(struct try_runs *, double seconds, size_t most);

/* The ratios of a method's figure to the plain one's, for each round: their median and its 95 %
 * interval. */
struct ratio {
    double low, median, high;
};
struct ratio try_ratio(const struct try_runs *, size_t way, int figure);
double try_median(const struct try_runs *, size_t way, int figure);

#endif
