/* SPDX-License-Identifier: MIT
 *
 * loader/process/paths.c: the real path of the file that is mapped at an address.
 *
 * If something is configured by path or name, every program looks up its own.  So it is read from
 * /proc/self/maps, with calls that the host loader makes, and not by readlink(2), for which a
 * sandbox may kill.  The first access to /proc/self costs a process 20 us, so this is done only if
 * the name by which the program was called is not enough.  Once passes are known to be configured
 * for the program, and no filter is in force, readlink(2) is cheaper.  (A newline in a path is
 * written "\012" there.  No configuration can name such a path.)
 */
#include "loader/loader.h"

#include "loader/process/process.h"

#include <errno.h>    /* numbers only */
#include <fcntl.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

#define LINE (4096 + 128) /* a path and the fields before it */
#define STEP 512          /* the program is in one of the first lines: the kernel need not write
                           * more */

static uintptr_t hexadecimal(const char **p)
{
    uintptr_t value = 0;

    for (; rimf_digit(**p) < 16; ++*p)
        value = value * 16 + rimf_digit(**p);
    return value;
}

/* Returns 1 if `path`, by which the program was called, is no link and no script: it begins with
 * the program's bytes in memory. */
int path_is_programs(struct loader *l, const char *path)
{
    const char *header = (const char *)l->block->phdr->a_un.a_val - sizeof(Elf64_Ehdr);
    Elf64_Ehdr first;
    long fd, n;

    if ((uintptr_t)header % RIMF_PAGE) /* it is mapped elsewhere: unknown */
        return 0;
    fd = sys_openat(l->sys, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
    if (sys_failed(fd))
        return 0;
    n = sys_read(l->sys, (int)fd, &first, sizeof first);
    sys_close(l->sys, (int)fd);
    return n == (long)sizeof first && memcmp(&first, header, sizeof first) == 0;
}

/* "START-END PERMISSIONS OFFSET DEVICE INODE   PATH" */
static int holds(const char *line, uintptr_t address)
{
    uintptr_t start = hexadecimal(&line);

    line += *line == '-';
    return start <= address && address < hexadecimal(&line);
}

static size_t line_length(const char *line, size_t n)
{
    size_t i = 0;

    while (i < n && line[i] != '\n')
        i++;
    return i;
}

/* Reads until `line` (of `size` bytes) begins with the line for the address, without its end.  0,
 * or negative errno. */
static int find_line(const struct rimf_sys *sys, int fd, char *line, size_t size, uintptr_t address)
{
    size_t have = 0;

    for (;;) {
        size_t n = line_length(line, have);

        if (n < have) {
            line[n] = '\0';
            if (holds(line, address))
                return 0;
            have -= n + 1;
            memmove(line, line + n + 1, have);
            continue;
        }
        size_t room = size - have < STEP ? size - have : STEP;
        long got = room ? sys_read(sys, fd, line + have, room) : -ENAMETOOLONG;
        if (got <= 0)
            return got < 0 ? (int)got : -ENOENT;
        have += (size_t)got;
    }
}

static char *path_mapped_at(struct loader *l, uintptr_t address)
{
    long fd = sys_openat(l->sys, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
    char *line = sys_failed(fd) ? NULL : rimf_heap_alloc(&l->heap, LINE), *path;
    const char *name = line && !find_line(l->sys, (int)fd, line, LINE, address) ? line : "";

    if (!sys_failed(fd))
        sys_close(l->sys, (int)fd);
    while (*name && *name != '/')
        name++;
    path = *name ? rimf_heap_copy(&l->heap, name) : NULL;
    rimf_heap_release(&l->heap, line);
    return path;
}

/* The path of the executable, if the kernel mapped it: in one call, if no filter is in force. */
char *path_of_program(struct loader *l)
{
    char path[1024];
    long n = 0;

    if (l->filtered->untraced && !l->filtered->on)
        n = SYS6(l->sys, SYS_readlinkat, AT_FDCWD, "/proc/self/exe", path, sizeof path, 0, 0);
    if (n <= 0 || n == (long)sizeof path || *path != '/')
        return path_mapped_at(l, l->block->entry->a_un.a_val);
    path[n] = '\0';
    return rimf_heap_copy(&l->heap, path);
}

char *path_of_file(struct loader *l, int fd)
{
    long at = sys_mmap(l->sys, 0, RIMF_PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
    char *path = sys_failed(at) ? NULL : path_mapped_at(l, (uintptr_t)at);

    if (!sys_failed(at))
        sys_munmap(l->sys, (uintptr_t)at, RIMF_PAGE);
    return path;
}
