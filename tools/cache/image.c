/* SPDX-License-Identifier: MIT
 *
 * cache/image.c: see cache/image.h.
 */
#include "tools/cache/image.h"
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

/* ---- whether a program would start from it ---------------------------------------- */

char *image_other_file(const char *name, const struct file_id *file)
{
    struct stat st;

    if (stat(name, &st))
        return must_print("%s is gone", name);
    return file_id_is(file, &st) ? NULL : must_print("%s is another file now", name);
}

static char *other_file(const struct frozen *f)
{
    for (uint32_t i = 0; i < f->header->n_objects; i++) {
        const struct frozen_object *object = &f->objects[i];
        char *why = object->file.inode /* not the vDSO's */
                        ? image_other_file(f->names + object->name, &object->file) : NULL;

        if (why)
            return why;
    }
    return NULL;
}

char *image_other_maker(uint64_t made_by)
{
    struct program loader;

    if (program_open(&loader, path_loader()) || !loader.build_id_size ||
        made_by == rimf_hash(loader.build_id, loader.build_id_size))
        return NULL;
    return must_print("it was made by another build of mvld than %s", loader.path);
}

/* The folder is named after the pipeline (KEY-KEY), and the header holds that together with
 * the build-id of the loader that made the image (loader/store/frozen.c). */
static char *other_maker(const struct frozen *f, const char *folder)
{
    const char *name = strrchr(folder, '/');
    const char *key = strchr(name ? name : folder, '-');

    return key ? image_other_maker(f->header->pipeline ^ strtoull(key + 1, NULL, 16)) : NULL;
}

/* The file that a start would take for a pass of that name, to be freed; or NULL. */
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

/* The name of the folder holds the files of the passes, too: with others no start looks there.  Of a
 * pass that is not found nothing is said: it may be in the MVLD_PASS_PATH of others. */
static char *other_pass(const struct frozen *f)
{
    for (uint32_t i = 0; i < f->header->n_passes; i++) {
        const struct frozen_pass *pass = &f->header->passes[i];
        struct file_id now;
        struct stat st;
        char *why = NULL, *path = find_pass(f->names + pass->name, &st);

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

static int is_of_other_version(const char *folder)
{
    char *path = must_print("%s/image", folder);
    struct frozen_header header;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : pread(fd, &header, sizeof header, 0);

    if (fd >= 0)
        close(fd);
    free(path);
    return n == (ssize_t)sizeof header && header.version != FROZEN_VERSION &&
           !memcmp(header.magic, FROZEN_MAGIC, sizeof header.magic);
}

enum image_state image_look(const char *folder, struct frozen_file *file, char **why)
{
    const char *wrong;

    if (frozen_map(file, &rimf_sys_kernel, folder, geteuid(), &wrong)) {
        *why = must_print("%s", wrong);
        return is_of_other_version(folder) ? IMAGE_OF_OTHER_MVLD : IMAGE_DAMAGED;
    }
    *why = other_file(&file->view);
    wrong = frozen_other_read(&file->view, &rimf_sys_kernel);
    if (!*why && wrong)
        *why = must_print("%s, which a pass read, is another file now", wrong);
    if (*why)
        return IMAGE_OF_OTHER_FILES;
    *why = other_maker(&file->view, folder);
    if (!*why)
        *why = other_pass(&file->view);
    return *why ? IMAGE_OF_OTHER_MVLD : IMAGE_GOOD;
}

int cache_lock_of(const char *folder)
{
    char *path = must_print("%s/../" CACHE_LOCK, folder);
    const char *why;
    int lock = access(path, F_OK) ? -1 : (int)cache_lock(&rimf_sys_kernel, AT_FDCWD, path, geteuid(), 0, &why);

    free(path);
    return lock < 0 ? -1 : lock;
}

char *cache_left_over(const char *folder)
{
    char *path = must_print("%s/" CACHE_UNFINISHED, folder);

    if (!faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW))
        return path;
    free(path);
    return NULL;
}

/* KEY-KEY, KEY-KEY-direct. */
int image_is_named(const char *name)
{
    static const char hex[] = "0123456789abcdef";
    const char *rest = name + 33;

    if (strspn(name, hex) != 16 || name[16] != '-' || strspn(name + 17, hex) != 16)
        return 0;
    if (!strncmp(rest, "-direct", 7))
        rest += 7;
    return !*rest;
}

/* ---- what it holds ---------------------------------------------------------------- */

char *image_compare_pages(int fd, uint64_t size, uint64_t offset, uint64_t hash, const char *name)
{
    char *bytes = must_alloc(size, 1), *why = NULL;

    /* Behind the end of the file a mapping has zeros. */
    if (pread(fd, bytes, size, (off_t)offset) < 0)
        why = must_print("%s cannot be read", name);
    else if (rimf_hash(bytes, size) != hash)
        why = must_print("%s is not what was written", name);
    free(bytes);
    return why;
}

/* Copies of code. */
static char *compare_region(const struct frozen_region *region, int fd)
{
    uint64_t hashes[FROZEN_PIECES];

    for (int i = 0; i < FROZEN_PIECES; i++) {
        const struct frozen_piece *piece = &region->pieces[i];
        char *bytes = must_alloc(piece->size, 1);
        ssize_t got = pread(fd, bytes, piece->size, (off_t)piece->offset);

        hashes[i] = rimf_hash(bytes, piece->size);
        free(bytes);
        if (got != (ssize_t)piece->size)
            return must_print(FROZEN_COPIES " cannot be read");
    }
    if (rimf_hash(hashes, sizeof hashes) != region->hash)
        return must_print(FROZEN_COPIES " is not what was written");
    return NULL;
}

/* The file of that name, when it is the one that was written; -1 with the reason. */
static int open_written(const struct frozen_file *file, const char *name,
                        const struct file_id *written, char **why)
{
    const char *wrong;
    struct stat st;
    long fd = cache_open(&rimf_sys_kernel, file->folder, name, S_IFREG, file->user, &st, &wrong);

    if (fd < 0) {
        *why = must_print("%s: %s", name, wrong);
        return -1;
    }
    if (file_id_is_own(written, &st))
        return (int)fd;
    *why = must_print("%s was changed after it was written", name);
    close((int)fd);
    return -1;
}

/* Tables of relocations. */
static char *compare_relocations(const struct frozen_file *file)
{
    const struct frozen *f = &file->view;
    const char *name = frozen_tables_name(f);
    char *why = NULL;
    int fd = open_written(file, name, &f->header->relocations, &why);

    if (fd < 0)
        return why;
    for (uint32_t i = 0; i < f->header->n_relocations && !why; i++) {
        const struct frozen_relocations *r = &f->relocations[i];

        why = image_compare_pages(fd, r->size, r->offset, r->hash, name);
    }
    close(fd);
    return why;
}

char *image_damaged(const struct frozen_file *file)
{
    const struct frozen *f = &file->view;
    char *why = NULL;
    int fd;

    for (uint32_t i = 0; i < f->header->n_texts && !why; i++) {
        const struct frozen_object *object = &f->objects[f->texts[i].object];
        const char *name = f->names + object->copy_name;

        fd = open_written(file, name, &object->copy, &why);
        if (fd < 0)
            return why;
        why = image_compare_pages(fd, f->texts[i].size, f->texts[i].offset, f->texts[i].hash, name);
        close(fd);
    }
    if (!why && f->header->n_relocations)
        why = compare_relocations(file);
    if (why || !f->region)
        return why;
    fd = open_written(file, FROZEN_COPIES, &f->region->file, &why);
    if (fd < 0)
        return why;
    why = compare_region(f->region, fd);
    close(fd);
    return why;
}

/* ---- what came by dlopen --------------------------------------------------------- */

char *image_open_later(const struct frozen_file *file, struct later_file *later)
{
    const char *wrong;
    int error = later_map(later, &rimf_sys_kernel, file->folder, file->user, &wrong);

    if (error && error != -ENOENT)
        return must_print(LATER_FILE ": %s", wrong);
    return NULL;
}

/* The pages of code, and behind them those of its frames. */
static char *compare_code(const struct later_code *code, int fd, const char *name)
{
    uint64_t size = rimf_page_up(code->at + code->size) - rimf_page_down(code->at);
    uint64_t frames = rimf_page_up(code->frames_size);
    char *bytes = must_alloc(size + frames, 1), *why = NULL;

    if (pread(fd, bytes, size + frames, (off_t)code->offset) != (ssize_t)(size + frames))
        why = must_print("%s cannot be read", name);
    else if (rimf_mix(rimf_hash(bytes, size), rimf_hash(bytes + size, frames)) !=
             code->hash)
        why = must_print("%s is not what was written", name);
    free(bytes);
    return why;
}

/* Copies of code. */
static char *damaged_code(const struct frozen_file *file, const struct later *later)
{
    const struct later_table *table = &later->header->table;
    const char *name = later->names + table->name;
    char *why = NULL;
    int fd;

    for (uint32_t i = 0; i < later->header->n_objects && !why; i++) {
        const struct later_code *code = &later->objects[i].code;

        if (file_id_is_none(&code->file))
            continue;
        fd = open_written(file, later->names + code->name, &code->file, &why);
        if (fd < 0)
            return why;
        why = compare_code(code, fd, later->names + code->name);
        close(fd);
    }
    if (why || file_id_is_none(&table->file))
        return why;
    fd = open_written(file, name, &table->file, &why);
    if (fd < 0)
        return why;
    why = image_compare_pages(fd, table->file.size, 0, table->hash, name);
    close(fd);
    return why;
}

char *image_damaged_later(const struct frozen_file *file, const struct later *later)
{
    for (uint32_t i = 0; i < later->header->n_texts; i++) {
        const struct frozen_text *text = &later->texts[i];
        const struct later_object *object = &later->objects[text->object];
        const char *name = later->names + object->copy_name;
        char *why = NULL;
        int fd = open_written(file, name, &object->copy, &why);

        if (fd < 0)
            return why;
        why = image_compare_pages(fd, text->size, text->offset, text->hash, name);
        close(fd);
        if (why)
            return why;
    }
    return damaged_code(file, later);
}
