/* SPDX-License-Identifier: MIT
 *
 * A writer of patches (rimf_patch_add_writer) finds the pages of its words made the process's own,
 * and changes them itself.  A failure means that it is called for pages that are not, or that other
 * pages become private.
 */
#include "support.h"

enum { PAGES = 40 };

static struct patch_text t;
static uint8_t image[PAGES * PAGE]; /* what the file holds */
static long protects;

static void count(struct patch_kernel *k, long nr)
{
    (void)k;
    protects += nr == SYS_mprotect;
}

/* Of whether the pages are the process's own the kernel tells: those of a file that was mapped are not
 * until they are written.  Returns how many are. */
static size_t own_pages(const uint8_t *at, size_t n)
{
    int fd = open("/proc/self/pagemap", O_RDONLY);
    uint64_t entries[PAGES];
    size_t own = 0;

    CHECK(fd >= 0 && pread(fd, entries, n * 8, (off_t)((uintptr_t)at / PAGE * 8)) == (ssize_t)n * 8);
    close(fd);
    for (size_t i = 0; i < n; i++)
        own += entries[i] >> 63 && !(entries[i] >> 61 & 1); /* present; of a file */
    return own;
}

/* What a writer was called for: it changes all words up to the end that it is told. */
static struct {
    const struct mvld_word *words;
    size_t n, next, calls;
    uintptr_t end;
} written;

static void write_up_to(void *cookie, uintptr_t end)
{
    uintptr_t base = (uintptr_t)t.code;

    CHECK(cookie == &written && end > written.end);
    CHECK(!written.calls || base + written.words[written.next].offset == written.end);
    written.end = end;
    written.calls++;
    for (; written.next < written.n && base + written.words[written.next].offset < end; written.next++)
        memset(t.code + written.words[written.next].offset, 0x90, written.words[written.next].length);
}

/* Pages with words of a writer become the process's own, and no others do; then it is called, for
 * one stretch after the other, or not at all. */
static void writer(size_t expected, long calls, size_t stretches)
{
    struct mvld_word where[] = {{64, 5, 0}, {80, 6, 0}, {2 * PAGE - 2, 5, 0}, {9 * PAGE, 6, 0}};
    struct mvld_patch_report report = {9, 9, NULL};
    int file = memfd_create("text", 0);
    uint8_t *wanted = malloc(t.size);
    struct mvld_batch *b;

    CHECK(file >= 0 && write(file, image, t.size) == (ssize_t)t.size);
    CHECK(mmap(t.code, t.size, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, file, 0) == t.code);
    memcpy(wanted, image, t.size);
    for (size_t i = 0; i < 4 && stretches; i++)
        memset(wanted + where[i].offset, 0x90, where[i].length);
    memset(&written, 0, sizeof written);
    written.words = where;
    written.n = 4;
    b = rimf_patcher_begin(t.patcher);
    CHECK(rimf_patch_add_writer(b, (uintptr_t)t.code, where, 4, write_up_to, &written) == 0);
    protects = 0;
    CHECK(rimf_patch_commit(b, &report) == 0 && report.applied == 0 && report.refused == 0);
    rimf_patch_end(b);
    patch_text_all_rx(&t);
    CHECK(protects == calls, "(%ld)", protects);
    CHECK(written.calls == stretches && (!stretches || written.end == UINTPTR_MAX));
    CHECK(own_pages(t.code, PAGES) == expected && !memcmp(t.code, wanted, t.size));
    CHECK(!expected || own_pages(t.code, 3) == 3);
    where[1].offset = 0; /* they do not ascend: nothing is done */
    b = rimf_patcher_begin(t.patcher);
    CHECK(rimf_patch_add_writer(b, (uintptr_t)t.code, where, 4, write_up_to, &written) == 0);
    CHECK(rimf_patch_commit(b, &report) == 0 && rimf_patch_count(b) == 0);
    CHECK(rimf_patch_add_writer(b, (uintptr_t)t.code, NULL, 4, write_up_to, NULL) == -EINVAL);
    CHECK(rimf_patch_add_writer(b, (uintptr_t)t.code, where, 4, NULL, NULL) == -EINVAL);
    rimf_patch_end(b);
    CHECK(written.calls == stretches && own_pages(t.code, PAGES) == expected);
    free(wanted);
    close(file);
}

int main(void)
{
    patch_text_open(&t, PAGES);
    memset(image, 0xc3, sizeof image);
    t.kernel.before = count;
    writer(4, 3, 2);
    t.kernel.fail_number = SYS_madvise; /* an older kernel */
    t.kernel.fail_from = 1;
    t.kernel.error = -EINVAL;
    writer(4, 3, 2);
    t.kernel.fail_from = 0;
    patch_park_thread(); /* then a writer has nothing to do */
    writer(0, 0, 0);
    patch_text_close(&t);
    return 0;
}
