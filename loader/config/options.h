/* SPDX-License-Identifier: MIT
 *
 * loader/config/options.h: the settings of a pass, checked against its declaration.
 */
#ifndef LOADER_OPTIONS_H
#define LOADER_OPTIONS_H

#include "loader/config/config.h"

/* The settings of `pass`: every option in the order of declaration, with its default if it is not
 * set (text NULL without a default); the keys of a prefix option in the order of the file.  0, or
 * negative errno with a sentence that names file, line and pass. */
int options_finish(struct rimf_heap *, const struct mvld_pass *, const char *pass_path,
                   const struct config *, struct mvld_setting **settings, size_t *n,
                   const struct why *);

/* 1: it has a value and names a symbol. */
int options_is_symbol(const struct mvld_pass *, const struct mvld_setting *);

#endif
