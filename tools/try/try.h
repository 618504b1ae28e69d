/* SPDX-License-Identifier: MIT
 *
 * try.h: what `mvld try` measures of a program, and what follows from it.
 */
#ifndef TRY_H
#define TRY_H

#include <stddef.h>

enum { TRY_WALL, TRY_CPU, TRY_MEMORY, TRY_FIGURES }; /* seconds, seconds, KiB at most resident */

struct sample {
    double figure[TRY_FIGURES];
};

/* A way to start the program.  The first way is the plain one. */
struct try_way {
    const char *name;
    const char *remedy; /* the command that switches it on, up to the program's name; NULL for plain ways */
    char **argv; /* argv[0] is a path */
    char **environment;
    int mounts;             /* the mount namespace in which it is started; -1: this one */
    const char *wrong;      /* why it is no longer measured, or NULL */
    struct sample *samples; /* one for each round */
};

struct try_runs {
    struct try_way *ways;
    size_t n_ways, n_rounds;
    int status; /* the plain program's, as of waitpid */
};

/* measure.c: runs all ways in each round, in a random order, until `seconds` are over or `most` rounds are
 * done.  A way whose status differs from the plain one's gets `wrong`.  NULL, or why nothing can be measured. */
const char *try_measure(struct try_runs *, double seconds, size_t most);

/* The ratios of a way's figure to the plain one's, round by round: their median and its 95 % interval. */
struct ratio {
    double low, median, high;
};
struct ratio try_ratio(const struct try_runs *, size_t way, int figure);
double try_median(const struct try_runs *, size_t way, int figure);

#endif
