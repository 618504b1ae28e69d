/* SPDX-License-Identifier: MIT
 *
 * options.h: the configuration of switches.
 */
#ifndef MULTIVERSE_OPTIONS_H
#define MULTIVERSE_OPTIONS_H

#include "passes/multiverse/engine/engine.h"

/* Applies "set.NAME" and "bind.NAME" to the switches that are new since the last call.  Reports and
 * skips what cannot be done. */
void mv_configure(struct mv_engine *, const struct mvld_setting *settings, size_t n);

/* Parses `text` as a value of `width` bytes: 0, -EINVAL, or -ERANGE. */
int mv_parse_value(const char *text, unsigned width, unsigned flags, uint64_t *out);

#endif
