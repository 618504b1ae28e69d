/* SPDX-License-Identifier: MIT
 *
 * prepare.h: prepares the methods of `mvld try`, in a scratch folder.
 */
#ifndef PREPARE_H
#define PREPARE_H

#include "tools/try/try.h"

/* Fills in the methods to start `argv`, of which the first two are plain, and makes their snapshots
 * below `scratch`.  NULL, or why the program cannot run under mvld, or not be measured. */
const char *prepare_ways(struct try_runs *, const char *scratch, char **argv);

#endif
