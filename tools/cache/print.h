/* SPDX-License-Identifier: MIT
 *
 * cache/print.h: prints a cache entry as a line or as JSON.
 */
#ifndef CACHE_PRINT_H
#define CACHE_PRINT_H

#include "tools/cache/items.h"
#include "tools/common/tools.h"

const char *cache_state_name(enum cache_state);
double cache_mib(uint64_t bytes);

/* Writes to `j` if it is not NULL; good analyses have no line. */
void cache_print(struct json *j, const struct cache_item *, const struct cached *);
void cache_print_analysis(struct json *j, const struct cache_item *, const struct cached_analysis *);

#define CACHE_STOPPED "a build that was stopped has left it"
/* What a killed build left.  `stays`: why nothing of ours removes it, or NULL. */
void cache_print_unfinished(struct json *, const struct cache_item *, const char *stays);

/* An entry that was removed; `why` may be NULL. */
void cache_print_removed(struct json *, const struct cache_item *, const char *state, const char *why);

#endif
