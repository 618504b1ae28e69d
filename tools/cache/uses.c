/* SPDX-License-Identifier: MIT
 *
 * cache/uses.c: finds the analyses that snapshots need.
 *
 * No start from a snapshot reads an analysis.  But if a library comes that writes to GOT slots,
 * direct calls are changed back with it (rimf/realise/restore.c).  So an analysis is in use as long
 * as its snapshot is.
 */
#include "tools/cache/items.h"
#include "tools/common/tools.h"

#include <stdlib.h>

static void add(struct cache_uses *uses, const struct manifest *m, int64_t used)
{
    for (uint32_t i = 0; m->header && i < m->header->n_objects; i++) {
        if (m->objects[i].analysis <= ANALYSIS_LACKS)
            continue;
        uses->at = must_grow(uses->at, uses->n + 1, sizeof *uses->at);
        uses->at[uses->n++] = (struct cache_use){m->objects[i].analysis, used};
    }
}

void cache_uses_add(struct cache_uses *uses, const struct cache_items *items)
{
    for (size_t i = 0; i < items->n; i++) {
        struct cached c;

        if (items->at[i].kind != CACHE_SNAPSHOT)
            continue;
        cached_open(&c, items->at[i].path, 0);
        if (c.state <= CACHE_STALE || c.state == CACHE_OF_OTHER_MVLD) { /* which may be in use, or be renewed */
            add(uses, &c.file.view, items->at[i].used);
            add(uses, &c.later.view, items->at[i].used);
        }
        cached_close(&c);
    }
}

int64_t cache_uses_last(const struct cache_uses *uses, uint32_t key)
{
    int64_t last = 0;

    for (size_t i = 0; i < uses->n; i++)
        if (uses->at[i].key == key && uses->at[i].used > last)
            last = uses->at[i].used;
    return last;
}

void cache_uses_free(struct cache_uses *uses)
{
    free(uses->at);
    *uses = (struct cache_uses){0};
}
