/* SPDX-License-Identifier: MIT
 *
 * loader/start/mapped.c: handles the host loader's mmap calls, which jump here (entry.S).  A call for an
 * object goes through the stage `map`, gets an address, and goes through the stage `relocate`.
 */
#include "loader/loader.h"

#include "loader/host/host.h"
#include "loader/manager/pipeline.h"
#include "loader/place/place.h"
#include "loader/process/process.h"
#include "loader/start/start.h"
#include "loader/store/store.h"
#include "rimf/base/cache.h"
#include "rimf/elf/headers.h"
#include "rimf/elf/view.h"
#include "rimf/image/image.h"

#include <errno.h>    /* numbers only */
#include <fcntl.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

/* ---- the file's name ------------------------------------------------------------------------- */

#define NAME_SIZE 4096u

/* The kernel's path; on the heap, or NULL.  A thread may have descriptors of its own. */
static char *path_of(struct loader *l, int fd)
{
    char *name = rimf_heap_alloc(&l->heap, NAME_SIZE), link[40];

    rimf_format(link, sizeof link, "/proc/%s/fd/%d", l->started ? "thread-self" : "self", fd);
    if (name && SYS6(l->sys, SYS_readlinkat, AT_FDCWD, link, name, NAME_SIZE - 1, 0, 0) <= 0)
        rimf_format(name, NAME_SIZE, "a file without a name");
    return name;
}

#define KEPT_WORDS 64u /* words searched in a function's registers and stack */

/* The beginning of glibc's link map. */
struct own_map {
    struct link_map map;
    const struct own_map *real;
    Lmid_t space; /* the namespace */
};

/* The link map lists an object only when all of it is mapped.  So the object's own link map is searched where the
 * function that maps it must have it, in a register or on its stack.  Two facts verify it: it points to itself, and
 * its path, by which the host loader knows the object, is that of the file.  NULL: not found. */
static const struct own_map *find_map(const struct loader *l, const struct mmap_call *c, const struct stat *st)
{
    const uintptr_t *kept = (const uintptr_t *)(c + 1);

    for (const uintptr_t *word = kept; word < kept + KEPT_WORDS; word++) {
        const struct own_map *own = (const struct own_map *)*word;
        struct stat other;

        if (*word >= RIMF_PAGE && *word % 8 == 0 && elf_readable(l->sys, *word, sizeof *own) && own->real == own &&
            !SYS6(l->sys, SYS_newfstatat, AT_FDCWD, own->map.l_name, &other, 0, 0, 0) &&
            other.st_dev == st->st_dev && other.st_ino == st->st_ino)
            return own;
    }
    return NULL;
}

char *mapped_name(struct loader *l, const struct mmap_call *c, int *is_apart)
{
    struct stat st;
    const struct own_map *own = SYS3(l->sys, SYS_fstat, c->fd, &st, 0) ? NULL : find_map(l, c, &st);

    *is_apart = own && own->space != LM_ID_BASE;
    return own ? rimf_heap_copy(&l->heap, own->map.l_name) : path_of(l, (int)c->fd);
}

/* ---- the stage `map` ------------------------------------------------------------------------- */

/* For each file before any of it can run.
 *
 *     the executable     the kernel has mapped it, and nothing of it has run: looked at before
 *                        the host loader starts
 *     every other file   the host loader asks for its first mapping: at the start, and in each dlopen
 *
 * If a pass refuses a file, that mapping fails.  The host loader then reports that the object cannot be
 * mapped, and exits with 127 or fails the dlopen, as for any such file.  If files cannot be seen before
 * they are mapped, a program with such a pass does not start.
 *
 * The host loader itself is not checked: it is trusted as the kernel trusts PT_INTERP.
 */

static int ask(struct loader *l, int fd, const char *name, uint32_t flags, const struct stat *st)
{
    size_t size = (size_t)st->st_size;
    long bytes = size ? sys_mmap(l->sys, 0, size, PROT_READ, MAP_PRIVATE, fd, 0) : 0;
    char *path = path_of(l, fd);
    struct mvld_file file = {.name = name, .path = path ? path : name, .flags = flags,
                             .bytes = (const void *)bytes, .size = size,
                             .address = flags && l->block->phdr ? rimf_page_down(l->block->phdr->a_un.a_val) : 0};
    int error;

    error = sys_failed(bytes) ? rimf_api()->fail(l->image, EACCES, "%s: the file cannot be read", name)
                              : pipeline_map_file(l->pipeline, l->image, &file);
    rimf_heap_release(&l->heap, path);
    if (size && !sys_failed(bytes))
        sys_munmap(l->sys, (uintptr_t)bytes, size);
    return error;
}

static __attribute__((noreturn)) void refuse_start(struct loader *l, const char *why)
{
    char line[600];

    rimf_format(line, sizeof line, "ERROR: mvld: %s: the program is not started\n", why);
    say_and_exit(l->sys, line);
}

static void ask_executable(struct loader *l)
{
    long fd = sys_openat(l->sys, "/proc/self/exe", O_RDONLY | O_CLOEXEC, 0);
    struct stat st;
    int error = sys_failed(fd) ? (int)fd : (int)SYS3(l->sys, SYS_fstat, fd, &st, 0);

    if (error)
        refuse_start(l, "the executable cannot be read, which a pass must look at");
    error = ask(l, (int)fd, l->program ? l->program : "the executable", MVLD_OBJECT_MAIN, &st);
    sys_close(l->sys, (int)fd);
    if (error)
        refuse_start(l, rimf_api()->last_error(l->image));
}

void mapstage_start(struct loader *l)
{
    if (!pipeline_wants_files(l->pipeline))
        return;
    if (l->host->musl)
        refuse_start(l, "files of a program of musl's cannot be seen before they are mapped, "
                        "which a pass must");
    if (objects_create_image(l, &l->image))
        refuse_start(l, "there is no memory for the passes that look at files");
    l->mapstage->wanted = 1;
    if (!l->direct) /* otherwise it is mapped like any other */
        ask_executable(l);
}

void mapstage_require(struct loader *l, size_t mmap_sites)
{
    if (l->mapstage->wanted && !mmap_sites)
        refuse_start(l, "the host loader's mappings cannot be seen, which a pass must");
}

/* Called before the host loader maps this file.  0, or -EACCES: a pass refused it.  Segments of one object are
 * adjacent, and of one file. */
static int look_at_file(struct loader *l, const struct mmap_call *c)
{
    struct file_id identity;
    struct stat st;
    char *name;
    int error, is_apart;

    if (SYS3(l->sys, SYS_fstat, c->fd, &st, 0))
        return -EACCES;
    file_id_of(&identity, &st);
    if (l->mapstage->passed && file_id_same(&identity, &l->mapstage->last))
        return 0;
    name = mapped_name(l, c, &is_apart);
    error = ask(l, (int)c->fd, name ? name : "a file", 0, &st);
    rimf_heap_release(&l->heap, name);
    if (error) /* the host loader only reports that the object cannot be mapped */
        say_error(l, rimf_api()->last_error(l->image));
    l->mapstage->last = identity;
    l->mapstage->passed = !error;
    return error ? -EACCES : 0;
}

/* ---- the calls ------------------------------------------------------------------------ */

/* An object's first mapping: of the whole file, or, if the object wants more than page alignment, a
 * reservation of addresses (glibc since 2.41 passes the flag of the file's mapping there, too).  musl's has
 * no mark, and the whole program maps through the same call: only until the first event all calls are
 * musl's, by one thread. */
static int is_object(const struct loader *l, const struct mmap_call *c)
{
    if (c->address || (c->flags & MAP_FIXED) || !c->length)
        return 0;
    if (l->host->musl)
        return !l->started && (int)c->fd >= 0 && c->flags == MAP_PRIVATE;
    if ((int)c->fd >= 0)
        return (c->flags & MAP_DENYWRITE) != 0;
    return c->prot == PROT_NONE &&
           (c->flags & ~(uintptr_t)MAP_DENYWRITE) == (MAP_PRIVATE | MAP_ANONYMOUS);
}

/* The first mapping of an object's file spans all of it, with or without a reservation before. */
static void note_file(struct loader *l, const struct mmap_call *c, uintptr_t at)
{
    struct files *files = l->files;
    int is_first = is_object(l, c);

    if (is_first) {
        files->segmented = 0;
        files->reserved = (int)c->fd < 0;
    }
    if ((int)c->fd < 0 ||
        !(is_first || ((files->reserved || files->segmented) && c->flags & MAP_DENYWRITE)))
        return;
    files->reserved = 0;
    files_note(l, at, c->length, (int)c->fd);
}

/* Memory of the host loader; or of the program, through musl. */
static int is_memory(const struct mmap_call *c)
{
    return !c->address && (int)c->fd < 0 && c->prot == (PROT_READ | PROT_WRITE);
}

/* An object's data, which relocation writes at once: populating it is cheaper than two faults a page. */
static int is_data(const struct mmap_call *c)
{
    return (c->flags & (MAP_FIXED | MAP_DENYWRITE)) == (MAP_FIXED | MAP_DENYWRITE) &&
           (int)c->fd >= 0 && c->prot == (PROT_READ | PROT_WRITE) && c->length <= POPULATE_MAX;
}

long loader_mmap(struct loader *l, const struct mmap_call *c)
{
    long at;

    if (l->mapstage->wanted && (int)c->fd >= 0 && c->flags & MAP_DENYWRITE && look_at_file(l, c))
        return -EACCES;
    if (l->snapshot->awaited == l->files->n && l->snapshot->awaited && is_memory(c))
        relocations_replace(l);
    at = is_object(l, c) ? place_map(l, c, l->started ? later_place(l, (int)c->fd, c->length) : 0) : -EINVAL;
    if (sys_failed(at))
        at = SYS6(l->sys, SYS_mmap, c->address, c->length, c->prot,
                  c->flags | (is_data(c) ? MAP_POPULATE : 0), c->fd, c->offset);
    if (!sys_failed(at) && !l->host->musl)
        note_file(l, c, (uintptr_t)at);
    if (!sys_failed(at) && l->relocatestage->wanted && (int)c->fd >= 0 && c->flags & MAP_DENYWRITE)
        relocatestage_mapped(l, (uintptr_t)at, c, is_object(l, c));
    return at;
}
