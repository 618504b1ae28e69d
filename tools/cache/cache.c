/* SPDX-License-Identifier: MIT
 *
 * cache.c: `mvld cache`: the manifests that there are and the ready code
 * (rimf/store/manifest.h), whether a program would still start from them, and away with what none would take.
 */
#include "rimf/base/cache.h"
#include "tools/cache/state.h"
#include "tools/common/paths.h"
#include "rimf/base/sys.h"
#include "tools/common/tools.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "Usage: mvld cache list|verify|prune [OPTION...] [FOLDER...]\n"
    "\n"
    "Snapshots in /var/cache/mvld/snapshots, ready code of objects in /var/cache/mvld/ready, and\n"
    "the same in the user's cache; or in each FOLDER.\n"
    "\n"
    "  list     a line each: its state, its program or object, how much code\n"
    "  verify   the same, and compares every byte of code with what was written\n"
    "  prune    removes those that are damaged or out of date, and what builds left that were killed\n"
    "\n"
    "  --other-mvld  prune: also those that another mvld made, which may still be in use\n"
    "  --all         prune: removes all\n"
    "  --help        this text\n"
    "\n"
    "Exit code: 0; 1 when verify found damage, prune could not remove, or a folder cannot\n"
    "be read; 2 for wrong usage.\n";

enum action { LIST, VERIFY, PRUNE };

struct request_of {
    enum action action;
    int others, all, failed;
    unsigned n, of_other_mvld;
};

static const char *const states[] = {"good", "out of date", "other mvld", "damaged"};

/* Whether to remove what is in this state.  To the mvld of a build tree what the installed one made is
 * of another mvld, and the other way round: so these go only when that is said. */
static int is_pruned(struct request_of *r, enum cache_state state)
{
    r->failed |= r->action == VERIFY && state == CACHE_DAMAGED;
    r->n++;
    r->of_other_mvld += state == CACHE_OF_OTHER_MVLD;
    if (r->action != PRUNE || state == CACHE_GOOD)
        return r->action == PRUNE && r->all;
    return state != CACHE_OF_OTHER_MVLD || r->others || r->all;
}

/* ---- a line each ------------------------------------------------------------------ */

/* What came by dlopen. */
static void print_later(const struct manifest *later)
{
    uint32_t overlays = 0, gone = 0;

    for (uint32_t i = 0; i < later->header->n_objects; i++) {
        const struct manifest_object *object = &later->objects[i];
        char *why = cached_other_file(later->names + object->name, &object->file);

        overlays += later->names[object->overlay_name] != '\0';
        gone += why != NULL;
        free(why);
    }
    printf(", %u files of dlopen, code of %u", later->header->n_objects, overlays);
    if (gone)
        printf(", %u out of date", gone);
}

static void print_start(const struct cached *c, double size)
{
    const struct manifest *m = &c->file.view;
    uint32_t overlays = 0;

    for (uint32_t i = 0; i < m->header->n_objects; i++)
        overlays += m->names[m->objects[i].overlay_name] != '\0';
    printf("  %.1f MiB of code of %u of %u files, %u calls relied on", size, overlays, m->header->n_objects,
           m->header->n_words);
    if (m->region)
        printf(", %.1f MiB moved in %u fragments",
               (double)m->region->pieces[MANIFEST_CODE].size / (1 << 20), m->header->n_fragments);
    if (c->later.map)
        print_later(&c->later.view);
    if (m->names[m->header->launch_key]) {
        fputs(", of starts with ", stdout);
        print_name(stdout, m->names + m->header->launch_key);
    }
}

static void print(const struct cached *c)
{
    const struct manifest *m = &c->file.view;
    uint64_t bytes = 0;

    printf("%-12s", states[c->state]);
    if (!c->file.map) {
        printf("%s: %s\n", c->path, c->why);
        return;
    }
    for (uint32_t i = 0; i < m->header->n_texts; i++)
        bytes += m->texts[i].size;
    print_name(stdout, m->names + m->objects[0].name);
    if (c->alone)
        printf("  ready code, %s, %.1f MiB, %u calls through %u slots", overlay_reach_name(m->header->n_reads != 0),
               (double)bytes / (1 << 20), m->objects[0].n_calls, m->header->n_words);
    else
        print_start(c, (double)bytes / (1 << 20));
    if (c->why) {
        fputs("; ", stdout);
        print_name(stdout, c->why);
    }
    putchar('\n');
}

/* A folder, or a file. */
static void prune(struct request_of *r, const char *path, const char *state)
{
    const char *why;

    if (manifest_remove(&rimf_sys_kernel, AT_FDCWD, path, geteuid(), &why)) {
        complain("cache", "%s: not removed: %s", path, why);
        r->failed = 1;
    } else {
        printf("%-12s%s removed\n", state, path);
    }
}

static void look_at(struct request_of *r, const char *path, int alone)
{
    struct cached c;

    cached_open(&c, path, alone, r->action != LIST);
    if (is_pruned(r, c.state))
        prune(r, path, states[c.state]);
    else
        print(&c);
    cached_close(&c);
}

/* ---- a folder of snapshots ------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int is_file(int at, const char *name)
{
    struct stat st;

    return !fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode);
}

/* Half a snapshot, or half a file of ready code. */
static void look_at_left_over(struct request_of *r, const char *folder)
{
    const char *stays;
    char *path = cache_left_over(folder, &stays);

    if (path && r->action != PRUNE)
        printf("%-12s%s: %s\n", "unfinished", path, stays ? stays : "a build that was stopped has left it");
    else if (path)
        prune(r, path, "unfinished");
    free(path);
}

/* `named` on the command line: else it need not be there. */
static void look_into(struct request_of *r, const char *path, int named)
{
    int lock = cache_lock_of(path);
    DIR *folder = opendir(path);
    struct dirent *entry;
    char **images = NULL;
    size_t n = 0;

    if (!folder) {
        if (named || errno != ENOENT) {
            complain("cache", "%s: %s", path, strerror(errno));
            r->failed = 1;
        }
        return; /* nor is there a lock */
    }
    if (lock >= 0)
        look_at_left_over(r, path);
    while ((entry = readdir(folder))) {
        if (!cached_is_folder(entry->d_name) &&
            !(cached_is_overlay(entry->d_name) && is_file(dirfd(folder), entry->d_name)))
            continue;
        images = must_grow(images, n + 1, sizeof *images);
        images[n++] = must_print("%s/%s", path, entry->d_name);
    }
    closedir(folder);
    qsort(images, n, sizeof *images, by_name);
    for (size_t i = 0; i < n; i++) {
        look_at(r, images[i], is_file(AT_FDCWD, images[i]));
        free(images[i]);
    }
    free(images);
    if (lock >= 0)
        close(lock);
}

static void look_into_users(struct request_of *r, const char *what)
{
    char own[4096];
    const char *wrong;

    if (path_users_cache(own, sizeof own, what, &wrong))
        look_into(r, own, 0);
    else if (wrong)
        complain("cache", "%s", wrong);
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

int tool_cache(int argc, char **argv)
{
    static const struct option options[] = {{"all", no_argument, NULL, 'a'},
                                            {"other-mvld", no_argument, NULL, 'o'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct request_of r = {0};
    int c;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (c) {
        case 'a': r.all = 1; break;
        case 'o': r.others = 1; break;
        case 'h': fputs(usage, stdout); return TOOL_OK;
        default: return TOOL_USAGE;
        }
    }
    if (read_action(argv[optind], &r.action) || ((r.all || r.others) && r.action != PRUNE)) {
        fputs(usage, stderr);
        return TOOL_USAGE;
    }
    for (int i = optind + 1; i < argc; i++)
        look_into(&r, argv[i], 1);
    if (optind + 1 == argc) {
        look_into(&r, MANIFEST_SYSTEM_FOLDER, 0);
        look_into(&r, OVERLAY_SYSTEM_FOLDER, 0);
        look_into_users(&r, "snapshots");
        look_into_users(&r, OVERLAY_FOLDER);
    }
    if (r.of_other_mvld && !r.others && !r.all)
        printf("Another mvld than %s made %u of %u: programs do not start from these with this one.\n"
               "`mvld build PROGRAM' makes them anew, `mvld cache prune --other-mvld' removes them.\n",
               path_loader(), r.of_other_mvld, r.n);
    return r.failed ? TOOL_FAILED : TOOL_OK;
}
