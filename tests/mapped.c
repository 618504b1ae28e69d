/* SPDX-License-Identifier: MIT
 *
 * A program that is linked with this file, or started with it in LD_PRELOAD (mapped.so), reports its code on
 * standard error at its end, where $TELL_MAPPED is set:
 *
 *     mapped: FILE at BASE                    code is mapped from this file, which begins there
 *     changed: N places on M pages of FILE    the mapped code differs from the file
 *
 * A place has up to five bytes, as the operand of a call.  support.py has functions that read this.
 *
 * Programs of the tests that read their mappings name /proc/thread-self/maps, because `mvld analyze` lists no calls of
 * an object that names /proc/self/maps (rimf/analyze/object.c).
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLACE 5u
#define PAGE 4096u

static void compare_code(const char *path, const unsigned char *start, size_t size, off_t offset)
{
    size_t places = 0, pages = 0, last_place = 0, last_page = 0;
    unsigned char page[PAGE];
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    for (size_t at = 0; fd >= 0 && at < size; at += PAGE) {
        ssize_t n = pread(fd, page, PAGE, offset + (off_t)at);

        for (size_t i = at; n > 0 && i < at + (size_t)n; i++) {
            if (start[i] == page[i - at])
                continue;
            if (!places || i - last_place >= PLACE) {
                places++;
                last_place = i;
            }
            if (!pages || i / PAGE != last_page) {
                pages++;
                last_page = i / PAGE;
            }
        }
    }
    if (fd >= 0)
        close(fd);
    if (places)
        fprintf(stderr, "changed: %zu places on %zu pages of %s\n", places, pages, path);
}

__attribute__((destructor)) static void report_code(void)
{
    FILE *maps = getenv("TELL_MAPPED") ? fopen("/proc/thread-self/maps", "r") : NULL;
    char line[4400], path[4300], protection[8];
    unsigned long start, end, offset;

    while (maps && fgets(line, sizeof line, maps)) {
        *path = 0;
        if (sscanf(line, "%lx-%lx %7s %lx %*s %*s %4299[^\n]", &start, &end, protection, &offset, path) < 4 ||
            strcmp(protection, "r-xp"))
            continue;
        if (*path != '/')
            continue;
        fprintf(stderr, "mapped: %s at %lx\n", path, start - offset);
        compare_code(path, (const unsigned char *)start, end - start, (off_t)offset);
    }
    if (maps)
        fclose(maps);
}
