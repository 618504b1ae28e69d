/* SPDX-License-Identifier: MIT
 *
 * cache/bound.c: keeps a cache below its limit.  Starts never do this: `mvld build', `enable' and
 * `cache prune' do.
 */
#include "rimf/base/cache.h"
#include "rimf/base/sys.h"
#include "tools/cache/items.h"
#include "tools/cache/print.h"
#include "tools/common/tools.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int cache_read_size(const char *text, uint64_t *size)
{
    static const char units[] = "KMGT";
    const char *unit;
    char *end;
    uint64_t n = strtoull(text, &end, 10);
    unsigned shift = 0;

    if (*text < '0' || *text > '9')
        return -1;
    if (*end && (unit = strchr(units, *end))) {
        shift = 10 * (unsigned)(unit - units + 1);
        end++;
    }
    if (*end || n > UINT64_MAX >> shift)
        return -1;
    *size = n << shift;
    return 0;
}

uint64_t cache_bound(const char *subcommand)
{
    const char *text = getenv(CACHE_BOUND_VARIABLE);
    uint64_t bound = CACHE_BOUND;

    if (text && *text && cache_read_size(text, &bound))
        complain(subcommand, CACHE_BOUND_VARIABLE "=%s is no size such as 500M: 1G counts", text);
    return bound;
}

static int by_use(const void *a, const void *b)
{
    const struct cache_item *x = a, *y = b;

    if (x->used != y->used)
        return x->used < y->used ? -1 : 1;
    return x->kind != y->kind ? (int)x->kind - (int)y->kind : strcmp(x->path, y->path);
}

/* An analysis is removed after the snapshots that need it. */
static void share_uses(struct cache_items *items)
{
    struct cache_uses uses = {0};

    cache_uses_add(&uses, items);
    for (size_t i = 0; i < items->n; i++) {
        struct cache_item *item = &items->at[i];
        struct analysis_file file;
        const char *why;
        int64_t used;

        if (item->kind != CACHE_ANALYSIS || analysis_map(&file, &cache_reader, item->path, geteuid(), 0, &why))
            continue;
        used = cache_uses_last(&uses, analysis_key(file.view.header));
        item->used = used > item->used ? used : item->used;
        analysis_unmap(&file, &cache_reader);
    }
    cache_uses_free(&uses);
}

static int remove_oldest(const char *subcommand, struct cache_items *items, uint64_t bound, int64_t since,
                         struct json *json)
{
    uint64_t size = 0;
    int failed = 0;

    for (size_t i = 0; i < items->n; i++)
        size += items->at[i].size;
    if (size > bound) {
        share_uses(items);
        qsort(items->at, items->n, sizeof *items->at, by_use);
    }
    for (size_t i = 0; i < items->n && size > bound; i++) {
        const struct cache_item *item = &items->at[i];
        const time_t used = item->used;
        const char *why;
        char date[32], *reason;

        if (item->used >= since)
            break;
        if (cache_item_remove(item, &why)) {
            complain(subcommand, "%s: not removed: %s", item->path, why);
            failed = -1;
            continue;
        }
        size -= item->size;
        strftime(date, sizeof date, "%F", localtime(&used));
        reason = must_print("last used on %s: the cache is to take %.1f MiB at most (%s)", date,
                            (double)bound / (1 << 20), CACHE_BOUND_VARIABLE);
        if (json)
            cache_print_removed(json, item, "oldest", reason);
        else
            complain(subcommand, "%s removed, %s", item->path, reason);
        free(reason);
    }
    return failed;
}

/* Writers of snapshots hold it; analyses are renamed into place without it.  -1: nobody has written
 * to this cache, or it cannot be locked. */
static int lock_of(char *const folders[CACHE_KINDS])
{
    const char *of = folders[CACHE_SNAPSHOT], *why;
    char *path = of ? must_print("%.*s/" CACHE_LOCK, (int)(strrchr(of, '/') - of), of) : NULL;
    int lock = path && !access(path, F_OK)
                   ? (int)cache_lock(&rimf_sys_kernel, AT_FDCWD, path, geteuid(), 1, &why) : -1;

    free(path);
    return lock < 0 ? -1 : lock;
}

int cache_keep_within(const char *subcommand, uint64_t bound, int64_t since, struct json *json)
{
    struct cache_items items = {0};
    char *folders[CACHE_KINDS];
    int failed, lock;

    cache_folders(NULL, cache_is_own(geteuid(), getenv("XDG_CACHE_HOME")), folders);
    lock = lock_of(folders);
    for (int i = lock < 0 ? CACHE_ANALYSIS : 0; i < CACHE_KINDS; i++)
        if (folders[i])
            cache_items_add(&items, folders[i]);
    if (folders[CACHE_ANALYSIS])
        cache_rests_remove(folders[CACHE_ANALYSIS]);
    failed = remove_oldest(subcommand, &items, bound, since, json);
    cache_items_free(&items);
    for (int i = 0; i < CACHE_KINDS; i++)
        free(folders[i]);
    if (lock >= 0)
        close(lock);
    return failed;
}
