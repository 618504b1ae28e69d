/* SPDX-License-Identifier: MIT
 *
 * cache/state.c: see cache/state.h.
 */
#include "tools/cache/state.h"
#include "rimf/base/base.h"
#include "rimf/base/cache.h"
#include "tools/common/paths.h"
#include "tools/run/program.h"
#include "rimf/base/sys.h"
#include "tools/common/tools.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long read_quietly(const struct rimf_sys *sys, long nr, long a, long b, long c, long d, long e, long f)
{
    long result = -EPERM; /* the file belongs to another user */

    (void)sys;
    if (nr == SYS_openat && !(c & O_CREAT))
        result = rimf_syscall(nr, a, b, c | O_NOATIME, d, e, f);
    return result == -EPERM ? rimf_syscall(nr, a, b, c, d, e, f) : result;
}

const struct rimf_sys cache_reader = {read_quietly};

/* ---- whether a program would start from it ---------------------------------------- */

/* Where it is depends on the mounts of who made the snapshot: a unit's (tools/enable/unit.c), or those of
 * `mvld run --children'. */
static int is_host_loader(const char *name, const struct file_id *file)
{
    static const char *const names[] = {MVLD_HOST_LOADER, MVLD_HOST_LOADER_DIVERTED, MVLD_HOST_LOADER_MOUNTED};
    int named = 0, is = 0;
    struct stat st;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        named |= !strcmp(name, names[i]);
        is |= !stat(names[i], &st) && file_id_is(file, &st);
    }
    return named && is;
}

char *cached_other_file(const char *name, const struct file_id *file)
{
    struct stat st;

    if (is_host_loader(name, file))
        return NULL;
    if (stat(name, &st))
        return must_print("%s is gone", name);
    return file_id_is(file, &st) ? NULL : must_print("%s is another file now", name);
}

static char *other_file(const struct manifest *m)
{
    const char *read;

    for (uint32_t i = 0; i < m->header->n_objects; i++) {
        const struct manifest_object *object = &m->objects[i];
        char *why = object->file.inode /* not the vDSO's */
                        ? cached_other_file(m->names + object->name, &object->file) : NULL;

        if (why)
            return why;
    }
    read = manifest_other_read(m, &cache_reader);
    return read ? must_print("%s, which a pass read, is another file now", read) : NULL;
}

/* The folder's name contains a hash of the pipeline (KEY-KEY), and the header contains this
 * together with the build-id of the loader that made it (loader/store/folder.c). */
static char *other_maker(const struct cached *c)
{
    const char *name = strrchr(c->path, '/');
    const char *key = strchr(name ? name : c->path, '-');
    uint64_t made_by = c->file.view.header->made_by;
    struct program loader;

    if (!key)
        return NULL;
    made_by ^= strtoull(key + 1, NULL, 16);
    if (program_open(&loader, path_loader()) || !loader.build_id_size ||
        made_by == rimf_hash(loader.build_id, loader.build_id_size))
        return NULL;
    return must_print("it was made by another build of mvld than %s", loader.path);
}

/* The file that a start would use as the pass of that name, to be freed; or NULL. */
static char *find_pass(const char *name, struct stat *st)
{
    const char *end, *folders = path_passes();

    for (; *folders; folders = *end ? end + 1 : end) {
        end = strchrnul(folders, ':');
        char *path = must_print("%.*s/%s.so", (int)(end - folders), folders, name);

        if (end > folders && !stat(path, st))
            return path;
        free(path);
    }
    return NULL;
}

/* The folder's name also depends on the files of the passes: with others no start looks there.  A
 * pass that is not found is not reported: it may be in another MVLD_PASS_PATH. */
static char *other_pass(const struct manifest *m)
{
    for (uint32_t i = 0; i < m->header->n_passes; i++) {
        const struct manifest_pass *pass = &m->header->passes[i];
        struct file_id now;
        struct stat st;
        char *why = NULL, *path = find_pass(m->names + pass->name, &st);

        if (!path)
            continue;
        file_id_of(&now, &st);
        if ((uint32_t)file_id_key(&now) != pass->file)
            why = must_print("it was made by another pass than %s", path);
        free(path);
        if (why)
            return why;
    }
    return NULL;
}

/* ---- names ------------------------------------------------------------------------ */

int cache_lock_of(const char *folder)
{
    char *path = must_print("%s/../" CACHE_LOCK, folder);
    const char *why;
    int lock = access(path, F_OK) ? -1 : (int)cache_lock(&rimf_sys_kernel, AT_FDCWD, path, geteuid(), 0, &why);

    free(path);
    return lock < 0 ? -1 : lock;
}

char *cache_left_over(const char *folder, const char **stays)
{
    char *path = must_print("%s/" CACHE_UNFINISHED, folder);
    int error = manifest_may_remove(&rimf_sys_kernel, AT_FDCWD, path, geteuid(), stays);

    *stays = error && error != -ENOENT ? *stays : NULL;
    if (error != -ENOENT)
        return path;
    free(path);
    return NULL;
}

static int is_key(const char *name)
{
    return strspn(name, "0123456789abcdef") == 16;
}

/* KEY-KEY, KEY-KEY-direct. */
int cached_is_folder(const char *name)
{
    return is_key(name) && name[16] == '-' && is_key(name + 17) && (!name[33] || !strcmp(name + 33, "-direct"));
}

/* ---- what it holds ---------------------------------------------------------------- */

static char *compare_pages(int fd, uint64_t size, uint64_t offset, uint64_t hash, const char *name)
{
    char *bytes = must_alloc(size, 1), *why = NULL;

    /* Behind the end of the file a mapping contains zeros. */
    if (pread(fd, bytes, size, (off_t)offset) < 0)
        why = must_print("%s cannot be read", name);
    else if (rimf_hash(bytes, size) != hash)
        why = must_print("%s is not what was written", name);
    free(bytes);
    return why;
}

/* Moved code. */
static char *compare_region(const struct manifest_region *region, int fd)
{
    uint64_t hashes[MANIFEST_PIECES];

    for (int i = 0; i < MANIFEST_PIECES; i++) {
        const struct manifest_piece *piece = &region->pieces[i];
        char *bytes = must_alloc(piece->size, 1);
        ssize_t got = pread(fd, bytes, piece->size, (off_t)piece->offset);

        hashes[i] = rimf_hash(bytes, piece->size);
        free(bytes);
        if (got != (ssize_t)piece->size)
            return must_print(MOVED_FILE " cannot be read");
    }
    if (rimf_hash(hashes, sizeof hashes) != region->hash)
        return must_print(MOVED_FILE " is not what was written");
    return NULL;
}

/* Opens the file of that name if it is the one that was written; -1 with the reason. */
static int open_written(const struct manifest_file *file, const char *name,
                        const struct file_id *written, char **why)
{
    const char *wrong;
    long fd = manifest_open_part(file, &cache_reader, name, written, &wrong);

    if (fd < 0)
        *why = must_print("%s: %s", name, wrong);
    return fd < 0 ? -1 : (int)fd;
}

static char *compare_overlay(const struct manifest_file *file, uint32_t number, int fd, const char *name)
{
    char *why = NULL;
    uint32_t n;

    for (const struct manifest_text *text = manifest_texts_of(&file->view, number, &n); n-- && !why; text++)
        why = compare_pages(fd, text->size, text->offset, text->hash, name);
    return why;
}

/* Whether they are the files that were written; and their code, if `bytes`. */
static char *compare_overlays(const struct manifest_file *file, int bytes)
{
    const struct manifest_header *h = file->view.header;
    char *why = NULL;

    for (uint32_t i = h->n_base; i < h->n_base + h->n_objects && !why; i++) {
        const struct manifest_object *object = manifest_object(&file->view, i);
        const char *name = file->view.names + object->overlay_name;
        int fd = *name ? open_written(file, name, &object->overlay, &why) : -1;

        if (fd < 0)
            continue;
        why = bytes ? compare_overlay(file, i, fd, name) : NULL;
        close(fd);
    }
    return why;
}

/* Compares moved code, and tables of relocations. */
static char *compare_rest(const struct manifest_file *file, int bytes)
{
    const struct manifest *m = &file->view;
    const char *name = manifest_tables_name(m);
    char *why = NULL;
    int fd = open_written(file, name, &m->header->tables, &why);

    if (fd < 0)
        return why;
    for (uint32_t i = 0; bytes && i < m->header->n_relocations && !why; i++)
        why = compare_pages(fd, m->relocations[i].size, m->relocations[i].offset, m->relocations[i].hash, name);
    if (bytes && !why && m->region)
        why = compare_region(m->region, fd);
    close(fd);
    return why;
}

static char *damage(const struct cached *c, int bytes)
{
    char *why = compare_overlays(&c->file, bytes);

    if (!why && (c->file.view.region || c->file.view.header->n_relocations))
        why = compare_rest(&c->file, bytes);
    return why || !c->later.map ? why : compare_overlays(&c->later, bytes);
}

/* ---- opening ---------------------------------------------------------------------- */

static int is_of_other_version(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct manifest_header header;
    ssize_t n = fd < 0 ? -1 : pread(fd, &header, sizeof header, 0);

    if (fd >= 0)
        close(fd);
    return n == (ssize_t)sizeof header && header.version != MANIFEST_VERSION &&
           !memcmp(header.magic, MANIFEST_MAGIC, sizeof header.magic);
}

/* NULL, or a sentence (static). */
static const char *map_folder(struct cached *c)
{
    const char *wrong = NULL;
    char *name = must_print("%s/" MANIFEST_FILE, c->path);

    if (manifest_map_start(&c->file, &cache_reader, c->path, geteuid(), &wrong))
        c->state = is_of_other_version(name) ? CACHE_OF_OTHER_MVLD : CACHE_DAMAGED;
    else
        wrong = NULL;
    free(name);
    return wrong;
}

/* Opens the manifest of objects of dlopen, if there is one. */
static char *open_later(struct cached *c)
{
    const char *wrong;
    int error = manifest_map(&c->later, &cache_reader, c->file.folder, MANIFEST_LATER, geteuid(), &wrong);

    return error && error != -ENOENT ? must_print(MANIFEST_LATER ": %s", wrong) : NULL;
}

void cached_open(struct cached *c, const char *path, int compare)
{
    const char *wrong;

    *c = (struct cached){.path = path, .file.folder = -1, .later.folder = -1};
    wrong = map_folder(c);
    if (wrong) {
        c->why = must_print("%s", wrong);
        return;
    }
    c->state = CACHE_OF_OTHER_FILES;
    if ((c->why = other_file(&c->file.view)))
        return;
    c->state = CACHE_OF_OTHER_MVLD;
    if ((c->why = other_maker(c)) || (c->why = other_pass(&c->file.view)))
        return;
    c->why = open_later(c);
    if (!c->why)
        c->why = damage(c, compare);
    c->state = CACHE_DAMAGED;
    if (c->why)
        return;
    c->why = cached_other_analysis(c, &c->file.view);
    if (!c->why && c->later.map)
        c->why = cached_other_analysis(c, &c->later.view);
    c->state = c->why ? CACHE_STALE : CACHE_GOOD;
}

void cached_close(struct cached *c)
{
    c->later.folder = -1; /* owned by the other one */
    manifest_unmap(&c->later, &cache_reader);
    manifest_unmap(&c->file, &cache_reader);
    free(c->why);
}
