/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/pages.c: the pages of moved code (enum mvld_pages).
 *
 * Only 2 MiB that code fills completely get one page; the code before and behind them is in small ones.
 * There are three methods; each falls back to the next one, and the log has the reason:
 *
 *     hugetlb   pages of the machine's pool.  Memory is mapped aside, which reserves them;
 *               then all of them are taken (MADV_POPULATE_WRITE, Linux 5.14): a limit of a
 *               cgroup, or a policy that forbids the node where they are, shows here as an
 *               error, and not as SIGBUS when code runs.  Then they are moved into place.
 *     thp       small memory, of which the kernel is asked to make large pages at the first
 *               touch (MADV_HUGEPAGE), where the machine's setting lets it; what did not
 *               come about so is joined when it is filled (MADV_COLLAPSE, Linux 6.1), which
 *               asks for no setting.
 *     small
 *
 * POOL falls back from the first to the last.
 *
 * QUICK is the cheapest at a start: memory that the kernel gives in one large page takes a fifth of the time
 * of small ones (0.4 against 2.1 us for each 4 KiB, measured).  So it is thp at the first touch only, also
 * for a last page that is half filled; other pages stay small.
 *
 * moved/pages_file.c is for snapshots.
 *
 * A PAGE OF THE POOL IS NEVER WRITTEN once its code runs.  After a fork a write would need another one, and
 * if the pool is empty, the kernel takes it from the child, which then dies of SIGBUS.  Nor can 4 KiB of it
 * get another protection.  So a change of code there first softens the page: its 2 MiB are copied to small
 * pages, which are moved over it in one step, under running threads.
 */
#include "rimf/moved/pages.h"

#define HUGE_2MB (21 << 26) /* MAP_HUGE_2MB, whatever the machine's default */

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

/* ---- which are of the pool ------------------------------------------------------------- */

/* Patching threads read it while the loading one adds. */
static uint64_t *word_of(struct moved_code *moved, uintptr_t address, uint64_t *bit)
{
    size_t i = (address - (moved->region.code & -HUGE)) / HUGE;

    if (address < moved->region.code || i >= 64 * RIMF_COUNT(moved->of_pool))
        return NULL;
    *bit = 1ul << i % 64;
    return &moved->of_pool[i / 64];
}

static int is_of_pool(const struct moved_code *moved, uintptr_t address)
{
    uint64_t bit;
    const uint64_t *word = word_of((struct moved_code *)moved, address, &bit);

    return word && __atomic_load_n(word, __ATOMIC_ACQUIRE) & bit;
}

void pages_note(struct moved_code *moved, uintptr_t start, size_t n, int of_pool)
{
    uint64_t bit;

    for (size_t i = 0; i < n; i++) {
        uint64_t *word = word_of(moved, start + i * HUGE, &bit);

        if (word && of_pool)
            __atomic_or_fetch(word, bit, __ATOMIC_RELEASE);
        else if (word)
            __atomic_and_fetch(word, ~bit, __ATOMIC_RELEASE);
    }
}

uintptr_t moved_pages_next(const struct moved_code *moved, uintptr_t address, uintptr_t end)
{
    for (uintptr_t at = (address & -HUGE) + HUGE; at < end; at += HUGE)
        if (is_of_pool(moved, at))
            return at;
    return end;
}

/* ---- the pool ----------------------------------------------------------------------------- */

long pages_take(struct mvld_image *image, size_t size, const char **why)
{
    long at = sys_mmap(image->sys, 0, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | HUGE_2MB, -1, 0), error;

    if (sys_failed(at)) {
        *why = at == -ENOMEM ? "no more are free in the pool (mvld doctor)"
                             : "the kernel has no pool of huge pages";
        return at;
    }
    error = SYS3(image->sys, SYS_madvise, at, size, POPULATE_WRITE);
    if (sys_failed(error)) {
        *why = error == -EINVAL ? "the kernel cannot promise them (before Linux 5.14)"
                                : "the pool has them, and this process may not take them (cgroup, "
                                  "memory policy)";
        sys_munmap(image->sys, (uintptr_t)at, size);
        return error;
    }
    return at;
}

/* Moves them over the present mapping.  If the kernel cannot move them, nothing is mapped there any more: so
 * this is first tried before the program has a thread that could map something in between. */
static long put_of_pool(struct mvld_image *image, uintptr_t start, size_t n, const char **why)
{
    long at = pages_take(image, n * HUGE, why), moved;

    if (sys_failed(at))
        return at;
    moved = SYS6(image->sys, SYS_mremap, at, n * HUGE, n * HUGE, MREMAP_MAYMOVE | MREMAP_FIXED,
                 start, 0);
    if (!sys_failed(moved)) {
        image->moved->pool_moves = 1;
        pages_note(image->moved, start, n, 1);
        return 0;
    }
    *why = "the kernel cannot move them (before Linux 5.16)";
    sys_munmap(image->sys, (uintptr_t)at, n * HUGE);
    at = moved_pages_small(image, start, start + n * HUGE, PROT_READ | PROT_WRITE);
    return sys_failed(at) ? -ENOBUFS : moved; /* the previous mapping is lost */
}

/* All at once, or as many as there are. */
static long put_all(struct mvld_image *image, struct whole whole)
{
    const char *why = "nothing has shown that the kernel can move them";
    size_t done = 0;
    long error = -ENOSYS;

    if (image->moved->pool_moves || !image->moved->n)
        error = put_of_pool(image, whole.start, whole.n, &why);
    if (!error)
        done = whole.n;
    while ((error == -ENOMEM || error == -EFAULT) && done + 1 < whole.n) {
        error = put_of_pool(image, whole.start + done * HUGE, 1, &why);
        if (error)
            break;
        error = -ENOMEM; /* for all */
        done++;
    }
    rimf_log(image->log, MVLD_LOG_PASSES, "huge pages: %zu of %zu from the pool%s%s", done, whole.n,
             done < whole.n ? ": " : "", done < whole.n ? why : "");
    return error == -ENOBUFS ? -ENOMEM : 0;
}

long pages_replace(struct mvld_image *image, uintptr_t start, uintptr_t aside)
{
    long error;

    memcpy((void *)aside, (const void *)start, HUGE);
    error = sys_mprotect(image->sys, aside, HUGE, PROT_READ | PROT_EXEC);
    if (!sys_failed(error))
        error = SYS6(image->sys, SYS_mremap, aside, HUGE, HUGE, MREMAP_MAYMOVE | MREMAP_FIXED,
                     start, 0);
    return sys_failed(error) ? error : 0;
}

int moved_pages_soften(struct mvld_image *image, uintptr_t address)
{
    uintptr_t start = address & -HUGE;
    long aside, error;

    if (!is_of_pool(image->moved, start))
        return 0;
    aside = sys_mmap(image->sys, 0, HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                     0);
    if (sys_failed(aside))
        return (int)aside;
    error = pages_replace(image, start, (uintptr_t)aside);
    if (error)
        sys_munmap(image->sys, (uintptr_t)aside, HUGE);
    else
        pages_note(image->moved, start, 1, 0);
    return (int)error;
}

/* ---- transparent huge pages ------------------------------------------------------------------ */

const char *pages_reason(long error)
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

    if (image->moved->pages != MVLD_PAGES_THP && image->moved->pages != MVLD_PAGES_HUGETLB)
        return;
    for (size_t i = 0; i < whole.n; i++) {
        uintptr_t at = whole.start + i * HUGE;
        long r = is_of_pool(image->moved, at) || pages_are_cold(image->moved, at)
                     ? 1
                     : SYS3(image->sys, SYS_madvise, at, HUGE, COLLAPSE);

        wanted += r != 1;
        made += r == 0;
        error = sys_failed(r) ? r : error;
    }
    if (wanted || image->moved->pages == MVLD_PAGES_THP)
        rimf_log(image->log, MVLD_LOG_PASSES, "huge pages: %zu of %zu put together by the kernel%s%s",
                 made, wanted, made < wanted ? ": " : "", made < wanted ? pages_reason(error) : "");
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

    if (sys_failed(error) || !whole.n || image->moved->pages == MVLD_PAGES_SMALL)
        return error;
    if (pages_want_pool(image->moved))
        error = put_all(image, whole);
    for (; whole.n && is_of_pool(image->moved, whole.start); whole.n--)
        whole.start += HUGE;
    /* If the machine's setting forbids it, they are joined later. */
    if (whole.n && !sys_failed(error) && image->moved->pages != MVLD_PAGES_POOL)
        SYS3(image->sys, SYS_madvise, whole.start, whole.n * HUGE, MADV_HUGEPAGE);
    return sys_failed(error) ? error : 0;
}

/* Restores the region's reservation.  A page of the pool cannot be freed in part. */
void moved_pages_give_back(struct mvld_image *image, uintptr_t start, uintptr_t end)
{
    if (is_of_pool(image->moved, start & -HUGE))
        start = (start + HUGE - 1) & -HUGE;
    if (is_of_pool(image->moved, end & -HUGE))
        end &= -HUGE;
    if (start >= end || sys_failed(moved_pages_small(image, start, end, PROT_NONE)))
        return;
    for (struct whole whole = whole_of(start, end); whole.n; whole.n--)
        pages_note(image->moved, whole.start + (whole.n - 1) * HUGE, 1, 0);
}
