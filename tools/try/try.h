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

/* A way to start the program.  The first of all is the plain one. */
struct try_way {
    const char *name, *remedy; /* the command that switches it on, up to the program; NULL for plain ones */
    char **argv; /* argv[0] is a path */
    char **environment;
    int mounts; /* the mount namespace in which it is started; -1: this one */
    const char *wrong; /* it is not measured any more, because; or NULL */
    struct sample *samples; /* a round each */
};

struct try_runs {
    struct try_way *ways;
    size_t n_ways, n_rounds;
    int status; /* of the plain program, as waitpid has it */
};

/* measure.c: runs all ways in turns, each round in a random order, for `seconds` or `most` rounds.  A way
 * whose status differs from the plain one's goes wrong.  NULL, or why nothing can be measured. */
const char *try_measure(struct try_runs *, double seconds, size_t most);

/* How a way's figure stands to the plain one's, pair by pair: the median ratio and its 95 % interval. */
struct ratio {
    double low, median, high;
};
struct ratio try_ratio(const struct try_runs *, size_t way, int figure);
double try_median(const struct try_runs *, size_t way, int figure);

#endif
