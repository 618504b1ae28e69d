/* SPDX-License-Identifier: MIT
 *
 * cache/items.c: see cache/items.h.
 */
#include "tools/cache/items.h"
#include "tools/common/paths.h"
#include "tools/common/tools.h"
#include "tools/run/program.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- what there is ------------------------------------------------------------------------ */

static void add_file(struct cache_item *item, const struct stat *st)
{
    int64_t used = st->st_atime > st->st_mtime ? st->st_atime : st->st_mtime;

    item->size += 512 * (uint64_t)st->st_blocks;
    item->used = used > item->used ? used : item->used;
}

int cache_item_measure(struct cache_item *item)
{
    struct dirent *entry;
    struct stat st;
    DIR *folder;

    if (lstat(item->path, &st) || (item->kind == CACHE_SNAPSHOT ? !S_ISDIR(st.st_mode) : !S_ISREG(st.st_mode)))
        return 0;
    if (item->kind != CACHE_SNAPSHOT) {
        add_file(item, &st);
        return 1;
    }
    folder = opendir(item->path);
    while (folder && (entry = readdir(folder)))
        if (!fstatat(dirfd(folder), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode))
            add_file(item, &st);
    if (folder)
        closedir(folder);
    return 1;
}

static void add_item(struct cache_items *items, const char *folder, const char *name, enum cache_kind kind)
{
    struct cache_item item = {.path = must_print("%s/%s", folder, name), .kind = kind};

    if (!cache_item_measure(&item)) {
        free(item.path);
        return;
    }
    items->at = must_grow(items->at, items->n + 1, sizeof *items->at);
    items->at[items->n++] = item;
}

/* ab of ab/cdef….mvld */
static int is_byte(const char *name)
{
    return isxdigit((unsigned char)name[0]) && isxdigit((unsigned char)name[1]) && !name[2];
}

static void add_analyses(struct cache_items *items, const char *folder, const char *name)
{
    char *path = must_print("%s/%s", folder, name);
    DIR *inner = opendir(path);
    struct dirent *entry;

    while (inner && (entry = readdir(inner))) {
        size_t digits = strspn(entry->d_name, "0123456789abcdef");
        if (digits && !strcmp(entry->d_name + digits, ".mvld"))
            add_item(items, path, entry->d_name, CACHE_ANALYSIS);
    }
    if (inner)
        closedir(inner);
    free(path);
}

#define REST_S 3600 /* nobody writes an analysis for so long */

/* cdef….mvld.XXXXXX, under which rimf/analyze/write.c writes it. */
static int is_rest(int folder, const char *name)
{
    size_t digits = strspn(name, "0123456789abcdef");
    struct stat st;

    return digits && !strncmp(name + digits, ".mvld.", 6) && strlen(name + digits) == 12 &&
           !fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) && st.st_mtime + REST_S < time(NULL);
}

void cache_rests_remove(const char *path)
{
    DIR *folder = opendir(path), *inner;
    struct dirent *entry, *file;

    while (folder && (entry = readdir(folder))) {
        char *byte = is_byte(entry->d_name) ? must_print("%s/%s", path, entry->d_name) : NULL;
        inner = byte ? opendir(byte) : NULL;
        while (inner && (file = readdir(inner)))
            if (is_rest(dirfd(inner), file->d_name))
                unlinkat(dirfd(inner), file->d_name, 0);
        if (inner)
            closedir(inner);
        free(byte);
    }
    if (folder)
        closedir(folder);
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct cache_item *)a)->path, ((const struct cache_item *)b)->path);
}

int cache_items_add(struct cache_items *items, const char *path)
{
    DIR *folder = opendir(path);
    size_t before = items->n;
    struct dirent *entry;

    if (!folder)
        return -1;
    while ((entry = readdir(folder))) {
        if (cached_is_folder(entry->d_name))
            add_item(items, path, entry->d_name, CACHE_SNAPSHOT);
        if (is_byte(entry->d_name))
            add_analyses(items, path, entry->d_name);
    }
    closedir(folder);
    if (items->n > before)
        qsort(items->at + before, items->n - before, sizeof *items->at, by_path);
    return 0;
}

void cache_items_free(struct cache_items *items)
{
    for (size_t i = 0; i < items->n; i++)
        free(items->at[i].path);
    free(items->at);
    *items = (struct cache_items){0};
}

void cache_folders(const char *subcommand, int users, char *to[CACHE_KINDS])
{
    static const char *const system[CACHE_KINDS] = {MANIFEST_SYSTEM_FOLDER, ANALYSIS_SYSTEM_FOLDER};
    static const char *const names[CACHE_KINDS] = {"snapshots", "analysis"};

    for (int i = 0; i < CACHE_KINDS; i++) {
        const char *wrong = NULL;
        char own[4096];

        to[i] = NULL;
        if (!users)
            to[i] = must_print("%s", system[i]);
        else if (path_users_cache(own, sizeof own, names[i], &wrong))
            to[i] = must_print("%s", own);
        else if (wrong && subcommand)
            complain(subcommand, "%s", wrong);
    }
}

void cache_snapshots_add(struct cache_items *items)
{
    for (int users = 0; users < 2; users++) {
        char *folders[CACHE_KINDS];

        cache_folders(NULL, users, folders);
        if (folders[CACHE_SNAPSHOT])
            cache_items_add(items, folders[CACHE_SNAPSHOT]);
        for (int i = 0; i < CACHE_KINDS; i++)
            free(folders[i]);
    }
}

/* ---- analyses ------------------------------------------------------------------------------- */

/* If the analysed file is missing: a sentence to be freed; else NULL. */
static char *other_object(const struct analysis *view)
{
    const char *path = analysis_path_of(view);
    struct program now;

    if (!path)
        return NULL; /* of an mvld that did not record it */
    if (access(path, F_OK))
        return errno == ENOENT || errno == ENOTDIR ? must_print("%s is gone", path) : NULL;
    if (program_open(&now, path) || analysis_is_of(view, now.build_id, now.build_id_size))
        return NULL;
    return must_print("%s is another file now", path);
}

void cached_analysis_open(struct cached_analysis *c, const char *path, const struct cache_uses *uses, int whole)
{
    uint32_t version = 0;
    const char *wrong;

    *c = (struct cached_analysis){.state = CACHE_GOOD};
    if (analysis_map(&c->file, &cache_reader, path, geteuid(), whole ? ANALYSIS_WANT_WHOLE : 0, &wrong)) {
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

        c->state = CACHE_DAMAGED;
        if (fd >= 0 && pread(fd, &version, sizeof version, offsetof(struct analysis_header, version)) ==
                           (ssize_t)sizeof version && version && version != ANALYSIS_VERSION)
            c->state = CACHE_OF_OTHER_MVLD;
        if (fd >= 0)
            close(fd);
        c->why = must_print("%s", wrong);
    } else if (!cache_uses_last(uses, analysis_key(c->file.view.header)) &&
               (c->why = other_object(&c->file.view))) {
        c->state = CACHE_OF_OTHER_FILES;
    }
}

void cached_analysis_close(struct cached_analysis *c)
{
    analysis_unmap(&c->file, &cache_reader);
    free(c->why);
}

/* ---- removing ------------------------------------------------------------------------------- */

int cache_item_remove(const struct cache_item *item, const char **why)
{
    int error = manifest_remove(&rimf_sys_kernel, AT_FDCWD, item->path, geteuid(), why);

    if (!error && item->kind == CACHE_ANALYSIS) { /* also its folder, if it was the last one */
        char *folder = must_print("%.*s", (int)(strrchr(item->path, '/') - item->path), item->path);
        rmdir(folder);
        free(folder);
    }
    return error;
}
