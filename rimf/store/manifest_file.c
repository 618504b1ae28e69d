/* SPDX-License-Identifier: MIT
 *
 * rimf/store/manifest_file.c: opens manifests and overlays, and removes those of a start.
 */
#include "rimf/store/manifest.h"

#include "rimf/base/base.h"
#include "rimf/base/cache.h"
#include "rimf/base/sys.h"
#include "rimf/elf/headers.h"

#include <errno.h> /* numbers only */
#include <fcntl.h> /* numbers only */
#include <sys/mman.h> /* numbers only */

int manifest_map(struct manifest_file *file, const struct rimf_sys *sys, int folder, const char *name,
                 uint32_t user, const char **why)
{
    int error;

    *file = (struct manifest_file){.folder = folder, .user = user};
    error = cache_map(sys, folder, name, user, sizeof(struct manifest_header), MANIFEST_SIZE_MAX, &file->map,
                      &file->size, why);
    if (error)
        return error;
    error = manifest_open(&file->view, file->map, file->size, why);
    if (error) {
        sys_munmap(sys, (uintptr_t)file->map, file->size);
        file->map = NULL;
    }
    return error;
}

int manifest_map_start(struct manifest_file *file, const struct rimf_sys *sys, const char *folder,
                       uint32_t user, const char **why)
{
    struct stat st;
    long fd = cache_open(sys, AT_FDCWD, folder, S_IFDIR, user, &st, why);
    int error;

    *file = (struct manifest_file){.folder = -1, .user = user};
    if (sys_failed(fd))
        return (int)fd;
    error = manifest_map(file, sys, (int)fd, MANIFEST_FILE, user, why);
    if (!error && file->view.header->n_base) {
        *why = "it is of no start";
        error = -EINVAL;
    }
    if (error)
        manifest_unmap(file, sys);
    return error;
}

uintptr_t manifest_tables_at(const struct manifest_file *file, const struct manifest_relocations *r)
{
    return file->early.tables + (r->offset - file->view.relocations->offset);
}

const struct manifest_relocations *manifest_tables_of(const struct manifest_file *file, uintptr_t bias)
{
    const struct manifest *f = &file->view;

    for (uint32_t i = 0; file->early.tables && i < f->header->n_relocations; i++)
        if (file->early.biases[f->relocations[i].object] == bias)
            return &f->relocations[i];
    return NULL;
}

/* ---- files of a manifest ----------------------------------------------------------- */

long manifest_open_part(const struct manifest_file *file, const struct rimf_sys *sys, const char *name,
                        const struct file_id *written, const char **why)
{
    struct stat st;
    long fd = cache_open(sys, file->folder, name, S_IFREG, file->user, &st, why);

    if (sys_failed(fd) || file_id_is_own(written, &st))
        return fd;
    sys_close(sys, (int)fd);
    *why = "its overlay was changed after it was written";
    return -ESTALE;
}

int manifest_read_of(const struct rimf_sys *sys, const char *path, struct file_id *file)
{
    struct stat st;
    long error = SYS6(sys, SYS_newfstatat, AT_FDCWD, path, &st, 0, 0, 0);

    *file = (struct file_id){.inode = 0};
    if (!error)
        file_id_of(file, &st);
    return !error || error == -ENOENT || error == -ENOTDIR;
}

const char *manifest_other_read(const struct manifest *m, const struct rimf_sys *sys)
{
    struct file_id now;

    for (uint32_t i = 0; i < m->header->n_reads; i++) {
        const struct manifest_read *read = &m->header->reads[i];

        if (manifest_read_of(sys, m->names + read->name, &now) && !file_id_same(&now, &read->file))
            return m->names + read->name;
    }
    return NULL;
}

/* Maps it over that of the object with this bias; returns its address, or negative errno. */
static long overlay_map_text(const struct rimf_sys *sys, uintptr_t bias, const struct manifest_text *text, int fd)
{
    return sys_mmap(sys, bias + text->linked, text->size, PROT_READ | PROT_EXEC,
                    MAP_PRIVATE | MAP_FIXED, fd, text->offset);
}

/* Files are written in large pieces of memory.  What the kernel had to let go of comes back in single pages
 * for good, at 150 us for each start of bash, unless the first to touch it wants huge ones: so it reads
 * 2 MiB at once.  Of much code only a part may be wanted. */
#define LARGE_MIN (64ul << 10)
#define LARGE_MAX (8ul << 20)

void overlay_want_large(const struct rimf_sys *sys, int filtered, uintptr_t at, size_t size)
{
    if (!filtered && size >= LARGE_MIN && size <= LARGE_MAX)
        SYS3(sys, SYS_madvise, at, size, MADV_HUGEPAGE);
}

void manifest_unmap(struct manifest_file *file, const struct rimf_sys *sys)
{
    if (file->map)
        sys_munmap(sys, (uintptr_t)file->map, file->size);
    if (file->folder >= 0)
        sys_close(sys, file->folder);
    *file = (struct manifest_file){.folder = -1};
}

/* ---- removing ------------------------------------------------------------------------ */

/* Whether the name is one of a file that we write there. */
static int is_part(const void *unused, const char *name)
{
    const char *rest = name;

    (void)unused;
    while (*rest >= '0' && *rest <= '9')
        rest++;
    return (rest > name && *rest == '-') || rimf_after(name, MANIFEST_LATER) ||
           rimf_streq(name, MOVED_FILE) || rimf_streq(name, RELOCATIONS_FILE) ||
           rimf_streq(name, MANIFEST_FILE);
}

struct noting {
    const struct rimf_sys *sys;
    int folder, *others;
};

/* Removes nothing: counts files that are not ours. */
static int note_others(const void *cookie, const char *name)
{
    const struct noting *n = cookie;
    struct stat st;

    if (!rimf_streq(name, ".") && !rimf_streq(name, ".."))
        *n->others += !is_part(NULL, name) ||
                      (!SYS6(n->sys, SYS_newfstatat, n->folder, name, &st, AT_SYMLINK_NOFOLLOW, 0, 0) &&
                       S_ISDIR(st.st_mode));
    return 0;
}

/* Opens the folder if it contains only the parts of a manifest. */
static long open_removable(const struct rimf_sys *sys, int at, const char *folder, uint32_t user, const char **why)
{
    struct stat st;
    long fd = cache_open(sys, at, folder, S_IFDIR, user, &st, why);
    int others = 0;

    if (sys_failed(fd))
        return fd;
    cache_sweep(sys, (int)fd, note_others, &(struct noting){sys, (int)fd, &others});
    if (!others)
        return fd;
    sys_close(sys, (int)fd);
    *why = "something is in it that is not of mvld";
    return -ENOTEMPTY;
}

int manifest_may_remove(const struct rimf_sys *sys, int at, const char *folder, uint32_t user, const char **why)
{
    struct stat st;
    long fd = open_removable(sys, at, folder, user, why);

    if (!sys_failed(fd))
        sys_close(sys, (int)fd);
    else if (SYS6(sys, SYS_newfstatat, at, folder, &st, AT_SYMLINK_NOFOLLOW, 0, 0) || S_ISDIR(st.st_mode))
        return (int)fd;
    return 0;
}

int manifest_remove(const struct rimf_sys *sys, int at, const char *folder, uint32_t user, const char **why)
{
    long fd = open_removable(sys, at, folder, user, why), error;

    if (sys_failed(fd)) /* the kernel unlinks no folder, and follows no link */
        return SYS3(sys, SYS_unlinkat, at, folder, 0) ? (int)fd : 0;
    SYS3(sys, SYS_unlinkat, fd, MANIFEST_FILE, 0); /* first, so that the rest is not taken for a complete one */
    cache_sweep(sys, (int)fd, is_part, NULL);
    sys_close(sys, (int)fd);
    error = SYS3(sys, SYS_unlinkat, at, folder, AT_REMOVEDIR);
    if (error)
        *why = "its folder cannot be removed";
    return (int)error;
}

/* ---- texts before relocation -------------------------------------------------------------------
 *
 * Maps texts of a manifest over those of the files before anything is relocated
 * (manifest.h, BEFORE RELOCATION).
 */

int overlay_is_text(const Elf64_Phdr *ph, size_t n, const struct manifest_text *text)
{
    for (size_t i = 0; i < n; i++)
        if (ph[i].p_type == PT_LOAD && ph[i].p_flags == (PF_R | PF_X) &&
            ph[i].p_filesz == ph[i].p_memsz && rimf_page_down(ph[i].p_vaddr) == text->linked &&
            rimf_page_up(ph[i].p_vaddr + ph[i].p_memsz) == text->linked + text->size &&
            rimf_page_down(ph[i].p_offset) == text->offset)
            return 1;
    return 0;
}

static int fits(const struct manifest_file *file, const struct manifest_text *text)
{
    size_t n;
    uintptr_t start = file->early.biases[text->object] + file->view.objects[text->object].first;
    const Elf64_Phdr *ph = elf_headers((const void *)start, RIMF_PAGE, &n);

    return overlay_is_text(ph, n, text);
}

int manifest_map_texts(const struct manifest_file *file, const struct rimf_sys *sys, uintptr_t bias,
                      const struct manifest_text *text, uint32_t n, int fd, uint32_t *mapped)
{
    for (; n--; text++) {
        uint32_t index = (uint32_t)(text - file->view.texts);
        long at;

        if (index >= file->early.first_text && index < file->early.end_text)
            continue;
        at = overlay_map_text(sys, bias, text, fd);
        if (sys_failed(at))
            return (int)at;
        overlay_want_large(sys, file->filtered, (uintptr_t)at, text->size);
        ++*mapped;
    }
    return 0;
}

/* The next, and all of the same object behind it. */
static void map_object(struct manifest_file *file, const struct rimf_sys *sys)
{
    const struct manifest *f = &file->view;
    const struct manifest_text *text = &f->texts[file->early.end_text];
    const struct manifest_object *object = &f->objects[text->object];
    uint32_t n = 0, left = f->header->n_texts - file->early.end_text, mapped = 0;
    const char *why;
    long fd = manifest_open_part(file, sys, f->names + object->overlay_name, &object->overlay, &why);

    if (sys_failed(fd))
        return;
    while (n < left && text[n].object == text->object && fits(file, &text[n]))
        n++;
    manifest_map_texts(file, sys, file->early.biases[text->object], text, n, (int)fd, &mapped);
    file->early.end_text += mapped;
    sys_close(sys, (int)fd);
}

/* The first failing one is tried again at the hook, which reports the reason. */
void manifest_map_texts_early(struct manifest_file *file, const struct rimf_sys *sys)
{
    uint32_t before = 0;

    while (before < file->view.header->n_texts && file->view.texts[before].object == 0)
        before++;
    file->early.first_text = file->early.end_text = before;
    do {
        before = file->early.end_text;
        if (before < file->view.header->n_texts)
            map_object(file, sys);
    } while (file->early.end_text > before);
}

int manifest_take_text_back(struct manifest_file *file, const struct rimf_sys *sys, int fd)
{
    const struct manifest_text *text = &file->view.texts[file->early.end_text - 1];
    struct stat st;
    long error = SYS3(sys, SYS_fstat, fd, &st, 0);

    if (error)
        return (int)error;
    if (!file_id_is(&file->view.objects[text->object].file, &st))
        return -ESTALE;
    error = overlay_map_text(sys, file->early.biases[text->object], text, fd);
    if (sys_failed(error))
        return (int)error;
    file->early.end_text--;
    return 0;
}
