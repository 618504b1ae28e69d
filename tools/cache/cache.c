/* SPDX-License-Identifier: MIT
 *
 * cache.c: `mvld cache`: lists manifests (rimf/store/manifest.h) and analyses, with size and
 * whether a program would use them, and removes unusable ones.
 */
#include "tools/cache/print.h"
#include "tools/common/paths.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "Usage: mvld cache list|verify|prune [OPTION...] [FOLDER...]\n"
    "\n"
    "Snapshots in /var/cache/mvld/snapshots, analyses in /var/cache/mvld/analysis, and the same\n"
    "in the user's cache; or in each FOLDER.\n"
    "\n"
    "  list     a line each: its state, its program or object, how much code, what it takes; of\n"
    "           analyses those that are not good; and the total\n"
    "  verify   the same, and compares every byte of code with what was written\n"
    "  prune    removes those that are damaged or out of date, and what builds left that were killed;\n"
    "           then what was used longest ago, until the cache is within its bound\n"
    "\n"
    "  --json        as JSON: of list and verify all analyses too, of prune what was removed\n"
    "  --other-mvld  prune: also those that another mvld made, which may still be in use\n"
    "  --size SIZE   prune: the bound, such as 500M; else $MVLD_CACHE_SIZE, or 1G\n"
    "  --all         prune: removes all\n"
    "  --help        this text\n"
    "\n"
    "Exit code: 0; 1 when verify found damage, prune could not remove, or a folder cannot\n"
    "be read; 2 for wrong usage.\n";

enum action { LIST, VERIFY, PRUNE };

struct request_of {
    enum action action;
    int others, all, failed;
    const char *size;
    struct json *json;
    unsigned n, of_other_mvld, stale, counts[CACHE_KINDS];
    uint64_t sizes[CACHE_KINDS];
    struct cache_uses uses; /* by snapshots of both caches */
};

/* Whether to remove entries of this state.  An installed mvld and one in a build folder see each
 * other's entries as another mvld's, so these are removed on request only.  Starts use stale ones. */
static int is_pruned(struct request_of *r, enum cache_state state)
{
    r->failed |= r->action == VERIFY && state == CACHE_DAMAGED;
    r->n++;
    r->of_other_mvld += state == CACHE_OF_OTHER_MVLD;
    r->stale += state == CACHE_STALE;
    if (r->action != PRUNE || state == CACHE_GOOD || state == CACHE_STALE)
        return r->action == PRUNE && r->all;
    return state != CACHE_OF_OTHER_MVLD || r->others || r->all;
}

/* Removes a folder, or a file. */
static void prune(struct request_of *r, const struct cache_item *item, const char *state, const char *because)
{
    const char *why;

    if (cache_item_remove(item, &why)) {
        complain("cache", "%s: not removed: %s", item->path, why);
        r->failed = 1;
    } else if (r->json) {
        cache_print_removed(r->json, item, state, because);
    } else {
        printf("%-12s%s removed\n", state, item->path);
    }
}

static void look_at_analysis(struct request_of *r, const struct cache_item *item)
{
    struct cached_analysis c;

    cached_analysis_open(&c, item->path, &r->uses, r->action == VERIFY);
    if (is_pruned(r, c.state))
        prune(r, item, cache_state_name(c.state), c.why);
    else if (r->action != PRUNE || !r->json)
        cache_print_analysis(r->json, item, &c);
    cached_analysis_close(&c);
}

static void look_at(struct request_of *r, const struct cache_item *item)
{
    struct cached c;

    r->counts[item->kind]++;
    r->sizes[item->kind] += item->size;
    if (item->kind == CACHE_ANALYSIS) {
        look_at_analysis(r, item);
        return;
    }
    cached_open(&c, item->path, r->action != LIST);
    if (is_pruned(r, c.state))
        prune(r, item, cache_state_name(c.state), c.why);
    else if (r->action != PRUNE || !r->json)
        cache_print(r->json, item, &c);
    cached_close(&c);
}

/* Handles an incomplete snapshot. */
static void look_at_left_over(struct request_of *r, const char *folder)
{
    const char *stays;
    struct cache_item left = {.path = cache_left_over(folder, &stays)};

    if (left.path && r->action == PRUNE) {
        cache_item_measure(&left);
        prune(r, &left, "unfinished", CACHE_STOPPED);
    } else if (left.path) {
        cache_item_measure(&left);
        cache_print_unfinished(r->json, &left, stays);
    }
    free(left.path);
}

/* `named` on the command line: then it must exist. */
static void look_into(struct request_of *r, const char *path, int named)
{
    int lock = cache_lock_of(path);
    struct cache_items items = {0};

    if (cache_items_add(&items, path)) {
        if (named || errno != ENOENT) {
            complain("cache", "%s: %s", path, strerror(errno));
            r->failed = 1;
        }
    } else if (lock >= 0) {
        look_at_left_over(r, path);
    }
    for (size_t i = 0; i < items.n; i++)
        look_at(r, &items.at[i]);
    cache_items_free(&items);
    if (lock >= 0)
        close(lock);
}

static void look_into_caches(struct request_of *r)
{
    for (int users = 0; users < 2; users++) {
        char *folders[CACHE_KINDS];

        cache_folders("cache", users, folders);
        for (int i = 0; i < CACHE_KINDS; i++) {
            if (folders[i])
                look_into(r, folders[i], 0);
            free(folders[i]);
        }
    }
}

/* ---- the command line --------------------------------------------------------------------- */

static void print_total(const struct request_of *r)
{
    uint64_t size = r->sizes[CACHE_SNAPSHOT] + r->sizes[CACHE_ANALYSIS];

    if (r->n)
        printf("On disk %.1f MiB: %.1f of snapshots (%u), %.1f of analyses (%u)\n", cache_mib(size),
               cache_mib(r->sizes[CACHE_SNAPSHOT]), r->counts[CACHE_SNAPSHOT], cache_mib(r->sizes[CACHE_ANALYSIS]), r->counts[CACHE_ANALYSIS]);
}

static void print_remedies(const struct request_of *r)
{
    if (r->stale && r->action != PRUNE)
        printf("%u stale: starts take them, but calls are missing.  `mvld enable PROGRAM', or `mvld analyze\n"
               "--program PROGRAM' and `mvld build PROGRAM', makes them anew.\n", r->stale);
    if (r->of_other_mvld && !r->others && !r->all)
        printf("Another mvld than %s made %u of %u: programs do not start from these with this one.\n"
               "`mvld build PROGRAM' makes them anew, `mvld cache prune --other-mvld' removes them.\n",
               path_loader(), r->of_other_mvld, r->n);
}

static void list(struct request_of *r, char *const *folders, int n)
{
    struct cache_items snapshots = {0};

    cache_snapshots_add(&snapshots);
    cache_uses_add(&r->uses, &snapshots);
    cache_items_free(&snapshots);
    for (int i = 0; i < n; i++)
        look_into(r, folders[i], 1);
    if (!n)
        look_into_caches(r);
    if (r->json)
        return;
    if (r->action == LIST)
        print_total(r);
    print_remedies(r);
}

static int read_action(const char *word, enum action *out)
{
    static const char *const words[] = {"list", "verify", "prune"};

    for (size_t i = 0; word && i < sizeof words / sizeof *words; i++) {
        if (!strcmp(word, words[i])) {
            *out = (enum action)i;
            return 0;
        }
    }
    return -1;
}

static int wrong_usage(const char *why, const char *what)
{
    complain("cache", "%s%s; see mvld cache --help", why, what);
    return TOOL_USAGE;
}

/* Options of prune are valid for prune only, and the limit is that of a whole cache. */
static int check_options(const struct request_of *r, int folders, uint64_t *bound)
{
    if (r->action != PRUNE)
        return r->all || r->others || r->size ? wrong_usage("--all, --other-mvld and --size are for prune", "") : 0;
    if (r->size && folders)
        return wrong_usage("--size is that of this user's cache, and not of a folder", "");
    return r->size && cache_read_size(r->size, bound) ? wrong_usage("no size such as 500M: --size ", r->size) : 0;
}

int tool_cache(int argc, char **argv)
{
    static const struct option options[] = {{"all", no_argument, NULL, 'a'},
                                            {"other-mvld", no_argument, NULL, 'o'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"size", required_argument, NULL, 's'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct json json = {.to = stdout};
    struct request_of r = {0};
    uint64_t bound = 0;
    int c;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (c) {
        case 'a': r.all = 1; break;
        case 'o': r.others = 1; break;
        case 'j': r.json = &json; break;
        case 's': r.size = optarg; break;
        case 'h': fputs(usage, stdout); return TOOL_OK;
        default: return TOOL_USAGE;
        }
    }
    int folders = argc - optind - 1;
    if (optind == argc) {
        fputs(usage, stderr);
        return TOOL_USAGE;
    }
    if (read_action(argv[optind], &r.action))
        return wrong_usage("list, verify or prune, not ", argv[optind]);
    if ((c = check_options(&r, folders, &bound)))
        return c;
    if (r.json)
        json_begin(r.json, NULL, '[');
    list(&r, argv + optind + 1, folders);
    cache_uses_free(&r.uses);
    if (r.action == PRUNE && !folders &&
        cache_keep_within("cache", r.size ? bound : cache_bound("cache"), INT64_MAX, r.json))
        r.failed = 1;
    if (r.json)
        json_end(r.json, ']');
    return r.failed ? TOOL_FAILED : TOOL_OK;
}
