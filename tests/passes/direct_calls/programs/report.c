/* SPDX-License-Identifier: MIT
 *
 * At its end a program reports on standard error what was done to its objects, a line each: whether code in
 * memory is that of the file; then where place() runs.  Files may be others by then, of any kind.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void *place(void);

/* What is mapped there: the library, or a file of the cache, whatever its name is by now. */
static const char *mapped_at(unsigned long address)
{
    static char line[4400];
    FILE *maps = fopen("/proc/thread-self/maps", "r");
    unsigned long start, end;
    const char *found = "nothing", *name;

    while (maps && fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx", &start, &end) != 2 || address < start || address >= end)
            continue;
        line[strcspn(line, "\n")] = 0;
        name = strrchr(line, '/');
        found = !name ? "no file" : strcmp(name, "/libplace.so") ? "another file" : "libplace.so";
        break;
    }
    if (maps)
        fclose(maps);
    return found;
}

static int is_as_in_file(const char *path, const struct dl_phdr_info *info,
                         const ElfW(Phdr) *segment)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), same;
    struct stat st;
    char *file;

    if (fd < 0 || fstat(fd, &st) || segment->p_offset + segment->p_filesz > (size_t)st.st_size) {
        close(fd);
        return -1;
    }
    file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (file == MAP_FAILED)
        return -1;
    same = !memcmp(file + segment->p_offset, (void *)(info->dlpi_addr + segment->p_vaddr),
                   segment->p_filesz);
    munmap(file, (size_t)st.st_size);
    return same;
}

static int report(struct dl_phdr_info *info, size_t size, void *n)
{
    const char *path = (*(int *)n)++ ? info->dlpi_name : "/proc/self/exe";

    (void)size;
    for (int i = 0; path[0] == '/' && !strstr(path, "/ld-") && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

        if (segment->p_type == PT_LOAD && segment->p_flags & PF_X)
            fprintf(stderr, "%s: %s\n", strrchr(path, '/') + 1,
                    is_as_in_file(path, info, segment) == 1 ? "as in the file" : "changed");
    }
    return 0;
}

__attribute__((destructor)) static void report_all(void)
{
    int n = 0;

    dl_iterate_phdr(report, &n);
    fprintf(stderr, "place() is in %s\n", mapped_at((unsigned long)place()));
}
