/* SPDX-License-Identifier: MIT
 *
 * patch_full: a process under threads that has nearly as many mappings as it may, in which each move of a
 * page may be the one that is refused.  A failure means that a commit is left half done in such a process.
 */
#include "support.h"

enum { PAGES = 512, PATCHES = 12, ROOM = 64 };

static const uint8_t old[5] = {0xe9, 1, 2, 3, 4}, new[5] = {0xe8, 5, 6, 7, 8};
static struct patch_text t;

static uint8_t *place(size_t i)
{
    return t.code + 40 * i * PAGE + 8; /* a run each */
}

static int commit(const uint8_t *from, const uint8_t *to)
{
    struct mvld_batch *b = rimf_patcher_begin(t.patcher);
    struct mvld_patch_report report;
    int r;

    for (size_t i = 0; i < PATCHES; i++)
        CHECK(rimf_patch_add(b, (uintptr_t)place(i), from, to, 5) == 0);
    r = rimf_patch_commit(b, &report);
    CHECK(report.applied == (r ? 0 : PATCHES), "(%d: %zu applied)", r, report.applied);
    rimf_patch_end(b);
    for (size_t i = 0; i < PATCHES; i++)
        CHECK(!memcmp(place(i), r ? from : to, 5), "(%d: patch %zu)", r, i);
    return r;
}

/* Each page is a mapping, since it differs from the next one. */
static uint8_t *fill(size_t *n)
{
    size_t most = 1 << 20;
    uint8_t *pages = mmap(NULL, most * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    CHECK(pages != MAP_FAILED);
    for (*n = 1; *n < most && !mprotect(pages + *n * PAGE, PAGE, PROT_READ); *n += 2)
        ;
    return pages;
}

int main(void)
{
    size_t n, failed = 0;
    uint8_t *pages;

    patch_text_open(&t, PAGES);
    CHECK(mprotect(t.code, t.size, PROT_READ | PROT_WRITE) == 0);
    for (size_t i = 0; i < PATCHES; i++)
        memcpy(place(i), old, 5);
    CHECK(mprotect(t.code, t.size, PROT_READ | PROT_EXEC) == 0);
    patch_park_thread();
    pages = fill(&n);
    if (n >= 1 << 20) {
        printf("this kernel has no such limit\n");
        return SKIP;
    }
    for (size_t i = 0; i < ROOM && commit(old, new); i++, failed++) /* one mapping more each time */
        CHECK(munmap(pages + i * PAGE, PAGE) == 0);
    printf("%zu commits failed, as a whole\n", failed);
    CHECK(failed > 1 && failed < ROOM);
    patch_text_close(&t);
    return 0;
}
