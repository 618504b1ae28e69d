/* SPDX-License-Identifier: MIT
 *
 * loader/start/mapped_name.c: the name of a file that the host loader maps.
 */
#include "loader/loader.h"

#include "loader/place/place.h"
#include "loader/start/start.h"
#include "rimf/elf/view.h"

#include <fcntl.h> /* numbers only */

#define NAME_SIZE 4096u

char *mapstage_path(struct loader *l, int fd)
{
    char *name = rimf_heap_alloc(&l->heap, NAME_SIZE), link[40];

    rimf_format(link, sizeof link, "/proc/self/fd/%d", fd);
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
    return own ? rimf_heap_copy(&l->heap, own->map.l_name) : mapstage_path(l, (int)c->fd);
}
