/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/pages.c: the pages of moved code (enum mvld_pages).
 *
 * Only 2 MiB that code fills completely get one page; the code before and behind them is in small ones.
 * There are two methods; the first falls back to the second, and the log has the reason:
 *
 *     thp       small memory, of which the kernel is asked to make large pages at the first
 *               touch (MADV_HUGEPAGE), where the machine's setting lets it; what did not
 *               come about so is joined when it is filled (MADV_COLLAPSE, Linux 6.1), which
 *               asks for no setting.
 *     small
 *
 * QUICK is the cheapest at a start: memory that the kernel gives in one large page takes a fifth of the time
 * of small ones (0.4 against 2.1 us for each 4 KiB, measured).  So it is thp at the first touch only, also
 * for a last page that is half filled; other pages stay small.
 *
 * A SNAPSHOT'S CODE is mapped from a file, in pages that all processes share.  They are large if the page cache
 * has large ones (ext4 since Linux 6.16, XFS, Btrfs; tmpfs with huge=), and address and file offset are equal
 * modulo 2 MiB.  The address is the same in each process if the executable is linked for 2 MiB (-z
 * max-page-size), or was started by mvld, run directly; otherwise the kernel chooses the executable's address,
 * and the region has a constant distance from it.  Then each process gets private copies of 2 MiB from the
 * kernel, before anything refers to them.
 */
#include "rimf/moved/moved.h"

#include "rimf/base/base.h"
#include "rimf/image/private.h"

#include <errno.h>      /* numbers only */
#include <fcntl.h>      /* numbers only */
#include <linux/mman.h> /* numbers only */
#include <sys/mman.h>   /* numbers only */

#define HUGE (2ul << 20)
#define COLLAPSE 25

/* The complete 2 MiB pages in [start, end). */
struct whole {
    uintptr_t start;
    size_t n;
};

static struct whole whole_of(uintptr_t start, uintptr_t end)
{
    uintptr_t first = (start + HUGE - 1) & -HUGE, last = end & -HUGE;

    return (struct whole){first, first < last ? (last - first) / HUGE : 0};
}

/* Whether a huge page there is not worth its cost. */
static int is_cold(const struct moved_code *moved, uintptr_t start)
{
    return moved->hot_end && start >= moved->hot_end;
}

/* With pages of 2 MiB, code begins on one. */
void moved_pages_wanted(struct mvld_image *image, enum mvld_pages pages)
{
    struct moved_code *moved = image->moved;
    uintptr_t first = (moved->region.code + HUGE - 1) & -HUGE;

    moved->hot_wanted = pages == MVLD_PAGES_HOT;
    if (pages == MVLD_PAGES_HOT)
        pages = MVLD_PAGES_THP;
    if (pages == MVLD_PAGES_QUICK && image->watch)
        pages = MVLD_PAGES_SMALL; /* a file needs no zeros before its code */
    moved->pages = pages;
    if (pages == MVLD_PAGES_SMALL || moved->region.code_size < 2 * HUGE)
        return;
    moved->first = first;
    if (pages == MVLD_PAGES_QUICK && moved->code_end < first)
        moved->code_end = first;
}

static long map(const struct mvld_image *image, uintptr_t start, uintptr_t end, int prot, int flags)
{
    return start == end ? 0
                        : sys_mmap(image->sys, start, end - start, prot,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | flags, -1, 0);
}

long moved_pages_small(const struct mvld_image *image, uintptr_t start, uintptr_t end, int prot)
{
    return map(image, start, end, prot, prot & PROT_WRITE ? 0 : MAP_NORESERVE);
}

/* ---- transparent huge pages ------------------------------------------------------------------ */

/* Why the kernel did not make a large page of small ones. */
static const char *reason(long error)
{
    switch (error) {
    case -EINVAL:
        return "the kernel cannot make them of these (before Linux 6.1; without transparent huge "
               "pages)";
    case -ENOMEM:
    case -EAGAIN:
    case -EBUSY:
        return "no memory for them is free in one fragment";
    default:
        return "the kernel refuses";
    }
}

void moved_pages_join(struct mvld_image *image, uintptr_t start, uintptr_t end)
{
    struct whole whole = whole_of(start, end);
    size_t made = 0, wanted = 0;
    long error = 0;

    if (image->moved->pages != MVLD_PAGES_THP)
        return;
    for (size_t i = 0; i < whole.n; i++) {
        uintptr_t at = whole.start + i * HUGE;
        long r = is_cold(image->moved, at) ? 1 : SYS3(image->sys, SYS_madvise, at, HUGE, COLLAPSE);

        wanted += r != 1;
        made += r == 0;
        error = sys_failed(r) ? r : error;
    }
    rimf_log(image->log, MVLD_LOG_PASSES, "huge pages: %zu of %zu put together by the kernel%s%s",
             made, wanted, made < wanted ? ": " : "", made < wanted ? reason(error) : "");
}

/* ---- unwind tables --------------------------------------------------------------------------- */

long moved_pages_fill(struct mvld_image *image, uintptr_t start, uintptr_t end)
{
    int huge = image->moved->pages == MVLD_PAGES_QUICK && end - start >= 2 * HUGE;
    long error = map(image, start, end, PROT_READ | PROT_WRITE, huge ? 0 : MAP_POPULATE);

    if (huge && !sys_failed(error))
        SYS3(image->sys, SYS_madvise, start, end - start, MADV_HUGEPAGE);
    return error;
}

/* ---- memory ------------------------------------------------------------------------------------ */

uintptr_t moved_pages_end(const struct moved_code *moved, uintptr_t start, uintptr_t end)
{
    uintptr_t last = (end - 1) & -HUGE;

    return moved->pages == MVLD_PAGES_QUICK && last >= start && end - last >= HUGE / 2 &&
                   last + HUGE <= moved->region.code + moved->region.code_size
               ? last + HUGE
               : rimf_page_up(end);
}

long moved_pages_open(struct mvld_image *image, uintptr_t start, uintptr_t end)
{
    struct whole whole = whole_of(start, end);
    long error = moved_pages_small(image, start, end, PROT_READ | PROT_WRITE);

    /* If the machine's setting forbids it, they are joined later. */
    if (!sys_failed(error) && whole.n && image->moved->pages != MVLD_PAGES_SMALL)
        SYS3(image->sys, SYS_madvise, whole.start, whole.n * HUGE, MADV_HUGEPAGE);
    return sys_failed(error) ? error : 0;
}

/* ---- a snapshot's ------------------------------------------------------------------------------ */

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

/* Copies the content at `start` into 2 MiB of writable memory elsewhere, and moves that over it.  0, or
 * negative errno: nothing was moved. */
static long replace(struct mvld_image *image, uintptr_t start, uintptr_t aside)
{
    long error;

    memcpy((void *)aside, (const void *)start, HUGE);
    error = sys_mprotect(image->sys, aside, HUGE, PROT_READ | PROT_EXEC);
    if (!sys_failed(error))
        error = SYS6(image->sys, SYS_mremap, aside, HUGE, HUGE, MREMAP_MAYMOVE | MREMAP_FIXED,
                     start, 0);
    return sys_failed(error) ? error : 0;
}

/* Makes private 2 MiB.  It must be one large page before it replaces small shared ones (MADV_COLLAPSE tells,
 * Linux 6.1). */
static long make_own(struct mvld_image *image, uintptr_t start)
{
    long room = sys_mmap(image->sys, 0, 2 * HUGE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0), error;
    uintptr_t aside = ((uintptr_t)room + HUGE - 1) & -HUGE;

    if (sys_failed(room))
        return room;
    SYS3(image->sys, SYS_madvise, aside, HUGE, MADV_HUGEPAGE);
    *(volatile char *)aside = 0;
    error = SYS3(image->sys, SYS_madvise, aside, HUGE, COLLAPSE);
    if (!sys_failed(error))
        error = replace(image, start, aside);
    if (sys_failed(error)) {
        sys_munmap(image->sys, (uintptr_t)room, 2 * HUGE);
        return error;
    }
    if (aside > (uintptr_t)room)
        sys_munmap(image->sys, (uintptr_t)room, aside - (uintptr_t)room);
    sys_munmap(image->sys, aside + HUGE, (uintptr_t)room + HUGE - aside);
    return 0;
}

void moved_pages_of_file(struct mvld_image *image, uintptr_t start, uintptr_t end, uint64_t offset)
{
    struct whole whole = whole_of(start, end);
    size_t of_file = 0, own = 0, wanted = 0;
    struct shared shared = {.fits = (start - offset) % HUGE == 0};
    const char *why = shared.fits ? NULL : "region and file do not fit each other, modulo 2 MiB";
    long error = 0;

    if (!whole.n || image->moved->pages == MVLD_PAGES_SMALL)
        return;
    if (shared.fits)
        find_shared(image, whole, &shared);
    for (size_t i = 0; i < whole.n; i++) {
        uintptr_t at = whole.start + i * HUGE;

        if (is_shared(image, &shared, at)) {
            of_file++;
            continue;
        }
        if (is_cold(image->moved, at))
            continue;
        wanted++;
        if (!error)
            error = make_own(image, at);
        own += !error;
    }
    if (error)
        why = reason(error);
    rimf_log(image->log, MVLD_LOG_PASSES, "huge pages: %zu of %zu of the snapshot's file, %zu of the kernel%s%s",
             of_file, of_file + wanted, own, why ? ": " : "", why ? why : "");
}

uint64_t moved_pages_offset(const struct moved_code *moved, uint64_t least)
{
    return moved->pages == MVLD_PAGES_SMALL ? least
                                             : least + (moved->region.code - least) % HUGE;
}
