/* SPDX-License-Identifier: MIT
 *
 * rimf/analysis/private.h: shared by analysis/open.c and analysis/check.c.
 */
#ifndef RIMF_ANALYSIS_PRIVATE_H
#define RIMF_ANALYSIS_PRIVATE_H

#include "rimf/analysis/analysis.h"

/* Checks the view's table of that kind: NULL, or a static sentence.  The tables that it is compared with
 * have been checked: segments before all, units before references, frames and branches, and before calls,
 * if they are opened at all. */
const char *analysis_check(const struct analysis *, uint32_t kind);

#endif
