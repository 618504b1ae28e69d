/* SPDX-License-Identifier: MIT
 *
 * doctor/hugepages.c: tries whether a process gets huge pages, by the methods of
 * rimf/moved/pages.c.
 */
#include "tools/doctor/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mman.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE (2ul << 20)
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* 2 MiB of aligned addresses inside *room, which is twice as large. */
static char *reserve(char **room)
{
    *room = mmap(NULL, 2 * HUGE, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return *room == MAP_FAILED ? NULL : (char *)(((uintptr_t)*room + HUGE - 1) & -HUGE);
}

/* KB of huge pages at `address` by the kernel's count, in memory or in a file. */
static long huge_at(const char *address, int of_file)
{
    FILE *f = fopen("/proc/self/smaps", "r");
    unsigned long start, end;
    int here = 0;
    long kb = 0;
    char line[4096];

    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
            here = (uintptr_t)address >= start && (uintptr_t)address < end;
        else if (here && sscanf(line, of_file ? "FilePmdMapped: %ld kB" : "AnonHugePages: %ld kB",
                                &kb) == 1 && kb)
            break;
        else if (here && of_file && sscanf(line, "ShmemPmdMapped: %ld kB", &kb) == 1 && kb)
            break;
    }
    if (f)
        fclose(f);
    return kb;
}

const char *hugepages_try_thp(void)
{
    char *room, *page = reserve(&room);
    const char *why = NULL;
    int error;

    if (!page)
        return "memory is short";
    madvise(page, HUGE, MADV_HUGEPAGE);
    memset(page, 1, HUGE);
    error = madvise(page, HUGE, MADV_COLLAPSE) ? errno : 0;
    if (error == EINVAL && !huge_at(page, 0))
        why = "the kernel cannot make them of small ones (before Linux 6.1; without transparent "
              "huge pages)";
    else if (error && error != EINVAL)
        why = "no memory for one is free in one piece";
    munmap(room, 2 * HUGE);
    return why;
}

/* As rimf/moved/pages.c does with a snapshot of rimf/store/write_moved.c. */
static const char *try_mapped(int fd, char *bytes, char *place)
{
    memset(bytes, 0xcc, HUGE);
    if (pwrite(fd, bytes, HUGE, 0) != (ssize_t)HUGE)
        return "no room for 2 MB";
    if (mmap(place, HUGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0) != place)
        return "files there cannot be mapped as code (noexec)";
    madvise(place, HUGE, MADV_HUGEPAGE);
    (void)*(volatile char *)place;
    if (!huge_at(place, 1) && madvise(place, HUGE, MADV_COLLAPSE))
        return "its filesystem keeps files in small pages";
    return NULL;
}

const char *hugepages_try_folder(const char *folder)
{
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    char *room, *place = reserve(&room), *bytes = fd < 0 ? NULL : malloc(HUGE);
    const char *why = fd < 0 ? strerror(errno) : "memory is short";

    if (place && bytes)
        why = try_mapped(fd, bytes, place);
    free(bytes);
    if (place)
        munmap(room, 2 * HUGE);
    if (fd >= 0)
        close(fd);
    return why;
}
