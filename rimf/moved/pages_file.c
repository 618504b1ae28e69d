/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/pages_file.c: the pages of a snapshot's code.
 *
 * It is mapped from a file, in pages that all processes share.  They are large if the page cache has large
 * ones (ext4 since Linux 6.16, XFS, Btrfs; tmpfs with huge=), and address and file offset are equal modulo 2
 * MiB.  The address is the same in each process if the executable is linked for 2 MiB (-z max-page-size), or
 * was started by mvld, run directly; otherwise the kernel chooses the executable's address, and the region
 * has a constant distance from it.  Then each process gets private copies of 2 MiB, from the pool or from the
 * kernel, before anything refers to them.
 */
#include "rimf/moved/pages.h"

#include <fcntl.h> /* numbers only */

/* For the ioctl PAGEMAP_SCAN (Linux 6.7), not in headers of older kernels. */
struct range {
    uint64_t start, end, categories;
};
struct scan {
    uint64_t size, flags, start, end, walked, to, room, most, inverted, mask, any, returned;
};
#define PAGEMAP_SCAN 0xc0606610ul /* _IOWR('f', 16, struct scan) */
#define IS_HUGE (1u << 6)
#define RANGES 32

struct shared {
    int fits; /* the place */
    struct range ranges[RANGES];
    long n;
};

/* Finds large pages of the file itself, which all processes share, if the address fits and the filesystem has
 * them. */
static void find_shared(struct mvld_image *image, struct whole whole, struct shared *out)
{
    struct scan scan = {.size = sizeof scan, .start = whole.start,
                        .end = whole.start + whole.n * HUGE, .to = (uintptr_t)out->ranges,
                        .room = RANGES, .mask = IS_HUGE, .returned = IS_HUGE};
    long fd;

    /* Parts that are not in memory are then read in such pages (ext4, XFS, Btrfs). */
    SYS3(image->sys, SYS_madvise, whole.start, whole.n * HUGE, MADV_HUGEPAGE);
    SYS3(image->sys, SYS_madvise, whole.start, whole.n * HUGE, POPULATE_READ);
    fd = sys_openat(image->sys, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC, 0);
    if (sys_failed(fd))
        return;
    out->n = SYS3(image->sys, SYS_ioctl, fd, PAGEMAP_SCAN, &scan);
    sys_close(image->sys, (int)fd);
}

static int is_shared(struct mvld_image *image, const struct shared *shared, uintptr_t at)
{
    for (long i = 0; i < shared->n; i++)
        if (shared->ranges[i].start <= at && at + HUGE <= shared->ranges[i].end)
            return 1;
    /* tmpfs; others if the kernel was built with READ_ONLY_THP_FOR_FS. */
    return shared->fits && !SYS3(image->sys, SYS_madvise, at, HUGE, COLLAPSE);
}

/* Makes private 2 MiB from the pool.  If a page cannot be moved, the mapping that it should replace is lost:
 * the code is mapped there in small pages. */
static long own_of_pool(struct mvld_image *image, uintptr_t start, const char **why)
{
    long aside = pages_take(image, HUGE, why), error;

    if (sys_failed(aside))
        return aside;
    error = pages_replace(image, start, (uintptr_t)aside);
    if (!error) {
        image->moved->pool_moves = 1;
        pages_note(image->moved, start, 1, 1);
        return 0;
    }
    *why = "the kernel cannot move them (before Linux 5.16)";
    if (!sys_failed(moved_pages_small(image, start, start + HUGE, PROT_READ | PROT_WRITE))) {
        memcpy((void *)start, (const void *)aside, HUGE);
        if (sys_failed(sys_mprotect(image->sys, start, HUGE, PROT_READ | PROT_EXEC)))
            error = -ENOBUFS;
    } else {
        error = -ENOBUFS;
    }
    sys_munmap(image->sys, (uintptr_t)aside, HUGE);
    return error;
}

/* The same, from the kernel.  It must be one large page before it replaces small shared ones (MADV_COLLAPSE
 * tells, Linux 6.1). */
static long own_of_kernel(struct mvld_image *image, uintptr_t start, const char **why)
{
    long room = sys_mmap(image->sys, 0, 2 * HUGE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0), error;
    uintptr_t aside = ((uintptr_t)room + HUGE - 1) & -HUGE;

    if (sys_failed(room)) {
        *why = pages_reason(room);
        return room;
    }
    SYS3(image->sys, SYS_madvise, aside, HUGE, MADV_HUGEPAGE);
    *(volatile char *)aside = 0;
    error = SYS3(image->sys, SYS_madvise, aside, HUGE, COLLAPSE);
    if (!sys_failed(error))
        error = pages_replace(image, start, aside);
    if (sys_failed(error)) {
        sys_munmap(image->sys, (uintptr_t)room, 2 * HUGE);
        *why = pages_reason(error);
        return error;
    }
    if (aside > (uintptr_t)room)
        sys_munmap(image->sys, (uintptr_t)room, aside - (uintptr_t)room);
    sys_munmap(image->sys, aside + HUGE, (uintptr_t)room + HUGE - aside);
    return 0;
}

long moved_pages_of_file(struct mvld_image *image, uintptr_t start, uintptr_t end, uint64_t offset)
{
    struct whole whole = whole_of(start, end);
    size_t of_file = 0, of_pool = 0, of_kernel = 0, wanted = 0;
    struct shared shared = {.fits = (start - offset) % HUGE == 0};
    const char *why = shared.fits ? NULL : "region and file do not fit each other, modulo 2 MiB";
    long pool = pages_want_pool(image->moved) ? 0 : -ENODATA;
    long kernel = image->moved->pages == MVLD_PAGES_POOL ? -ENODATA : 0;

    if (!whole.n || image->moved->pages == MVLD_PAGES_SMALL)
        return 0;
    if (shared.fits)
        find_shared(image, whole, &shared);
    for (size_t i = 0; i < whole.n && pool != -ENOBUFS; i++) {
        uintptr_t at = whole.start + i * HUGE;

        if (is_shared(image, &shared, at)) {
            of_file++;
            continue;
        }
        if (pages_are_cold(image->moved, at))
            continue;
        wanted++;
        if (!pool)
            pool = own_of_pool(image, at, &why);
        if (!pool)
            of_pool++;
        else if (!kernel && !(kernel = own_of_kernel(image, at, &why)))
            of_kernel++;
    }
    rimf_log(image->log, MVLD_LOG_PASSES,
             "huge pages: %zu of %zu of the snapshot's file, %zu from the pool, %zu of the kernel%s%s",
             of_file, of_file + wanted, of_pool, of_kernel, why ? ": " : "", why ? why : "");
    return pool == -ENOBUFS ? -ENOMEM : 0;
}

uint64_t moved_pages_offset(const struct moved_code *moved, uint64_t least)
{
    return moved->pages == MVLD_PAGES_SMALL ? least
                                             : least + (moved->region.code - least) % HUGE;
}
