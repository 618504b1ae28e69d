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

/* The path by which the host loader knows the object that it maps; the link map lists it only when all of
 * it is mapped.  So the object's own link map is searched where the function that maps it must have it, in
 * a register or on its stack.  Two facts verify it: it points to itself (l_real), and its path is that of
 * the file. */
static const char *link_name(const struct loader *l, const struct mmap_call *c, const struct stat *st)
{
    const uintptr_t *kept = (const uintptr_t *)(c + 1);

    for (const uintptr_t *word = kept; word < kept + KEPT_WORDS; word++) {
        const struct link_map *map = (const struct link_map *)*word;
        const uintptr_t *real = (const uintptr_t *)(map + 1);
        struct stat other;

        if (*word >= RIMF_PAGE && *word % 8 == 0 && elf_readable(l->sys, *word, sizeof *map + sizeof *real) &&
            *real == *word && !SYS6(l->sys, SYS_newfstatat, AT_FDCWD, map->l_name, &other, 0, 0, 0) &&
            other.st_dev == st->st_dev && other.st_ino == st->st_ino)
            return map->l_name;
    }
    return NULL;
}

char *mapped_name(struct loader *l, const struct mmap_call *c)
{
    struct stat st;
    const char *name = SYS3(l->sys, SYS_fstat, c->fd, &st, 0) ? NULL : link_name(l, c, &st);

    return name ? rimf_heap_copy(&l->heap, name) : mapstage_path(l, (int)c->fd);
}
