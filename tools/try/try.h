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

/* A mount namespace, and the root and working folders in it: entering one alone would lead out of a chroot.
 * mounts -1: those of this process. */
struct try_place {
    int mounts, root, folder;
};
/* measure.c: this process goes there.  0, or -1. */
int try_enter(const struct try_place *);

/* A way to start the program.  The first way is the plain one. */
struct try_way {
    const char *name;
    const char *remedy; /* the command that switches it on, up to the program's name; NULL for plain ways */
    char **argv; /* argv[0] is a path */
    char **environment;
    struct try_place place;
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
