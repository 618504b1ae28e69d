/* SPDX-License-Identifier: MIT
 *
 * rimf/analysis/private.h: what analysis/open.c and analysis/check.c share.
 */
#ifndef RIMF_ANALYSIS_PRIVATE_H
#define RIMF_ANALYSIS_PRIVATE_H

#include "rimf/analysis/analysis.h"

/* Of the table of that kind, to which the view points: NULL, or a sentence (static).  Those
 * that it is compared with have been checked: segments before all, units before
 * references, frames and branches, and before calls, if they are opened at all. */
const char *analysis_check(const struct analysis *, uint32_t kind);

#endif
