/* SPDX-License-Identifier: MIT
 *
 * options.h: what the configuration says about switches.
 */
#ifndef MULTIVERSE_OPTIONS_H
#define MULTIVERSE_OPTIONS_H

#include "passes/multiverse/engine/engine.h"

/* "set.NAME" and "bind.NAME" for the switches that have come since the last
 * time.  What cannot be done is reported and left out. */
void mv_configure(struct mv_engine *, const struct mvld_setting *settings, size_t n);

/* The number in `text` as a value of `width` bytes: 0, -EINVAL, or -ERANGE. */
int mv_parse_value(const char *text, unsigned width, unsigned flags, uint64_t *out);

#endif
