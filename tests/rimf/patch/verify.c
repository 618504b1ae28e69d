/* SPDX-License-Identifier: MIT
 *
 * A batch applies what verifies and refuses the rest, each patch with its own
 * reason.  A failure here means that the engine writes where it must not, or
 * leaves pages with other protections than it found.
 */
#include "support.h"

static const uint8_t old[16] = {0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3,
                                0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3};
static const uint8_t new[16] = {0x90, 0x91, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97,
                                0x98, 0x99, 0x9a, 0x9b, 0x9c, 0x9d, 0x9e, 0x9f};

static void add(struct mvld_batch *b, const uint8_t *at, size_t length)
{
    CHECK(rimf_patch_add(b, (uintptr_t)at, old, new, length) == 0);
}

static int untouched(const struct patch_text *t)
{
    for (size_t i = 0; i < t->size; i++) {
        if (t->code[i] != 0xc3)
            return 0;
    }
    return 1;
}

static void applies(void)
{
    struct mvld_patch_report report;
    struct patch_text t;
    struct mvld_batch *b;

    patch_text_open(&t, 8);
    b = rimf_patcher_begin(t.patcher);
    add(b, t.code + 5 * PAGE, 16); /* not in order */
    add(b, t.code, 1);
    add(b, t.code + 3 * PAGE - 2, 5); /* across two pages */
    add(b, t.code + 8 * PAGE - 3, 3); /* the very end */
    CHECK(rimf_patch_commit(b, &report) == 0, "(%s)", t.sentence);
    CHECK(report.applied == 4 && report.refused == 0);
    CHECK(rimf_patch_count(b) == 4 && rimf_patch_at(b, 4) == NULL);
    CHECK(rimf_patch_at(b, 1)->address == (uintptr_t)t.code);
    CHECK(!memcmp(t.code + 5 * PAGE, new, 16) && t.code[5 * PAGE + 16] == 0xc3);
    CHECK(t.code[0] == 0x90 && t.code[1] == 0xc3);
    CHECK(!memcmp(t.code + 3 * PAGE - 2, new, 5) && t.code[3 * PAGE + 3] == 0xc3);
    CHECK(!memcmp(t.code + 8 * PAGE - 3, new, 3));
    patch_text_all_rx(&t);
    rimf_patch_end(b);
    patch_text_close(&t);
}

static void refuses(void)
{
    struct mvld_patch_report report;
    struct patch_text t;
    struct mvld_batch *b;
    uint8_t other[16] = {0xc3, 0xcc};
    static const int want[] = {-ESTALE, 0, -EFAULT, -EFAULT, -EFAULT, -EEXIST, -EEXIST, -EEXIST};

    patch_text_open(&t, 4);
    t.segment.end = (uintptr_t)t.code + 3 * PAGE + 8; /* the object ends inside its last page */
    b = rimf_patcher_begin(t.patcher);
    CHECK(rimf_patch_add(b, (uintptr_t)t.code, other, new, 2) == 0);
    add(b, t.code + 64, 4);
    add(b, t.code - 1, 1);              /* before the object */
    add(b, t.code + 3 * PAGE + 8, 4);   /* behind it */
    add(b, t.code + 3 * PAGE + 6, 4);   /* half in it */
    add(b, t.code + 128, 16);           /* one long … */
    add(b, t.code + 130, 2);            /* … over two short ones */
    add(b, t.code + 143, 2);
    CHECK(rimf_patch_commit(b, &report) == 0);
    CHECK(report.applied == 1 && report.refused == 7);
    for (size_t i = 0; i < 8; i++)
        CHECK(rimf_patch_at(b, i)->result == want[i], "(%zu: %d)", i, rimf_patch_at(b, i)->result);
    CHECK(!memcmp(t.code + 64, new, 4));
    CHECK(t.code[128] == 0xc3 && t.code[0] == 0xc3 && t.code[3 * PAGE + 7] == 0xc3);
    patch_text_all_rx(&t);
    rimf_patch_end(b);
    patch_text_close(&t);
}

/* The mappings, not the segment table, have the last word. */
static void distrusts_segments(int prot)
{
    struct patch_text t;
    struct mvld_batch *b;

    patch_text_open(&t, 4);
    CHECK(mprotect(t.code + PAGE, PAGE, prot) == 0);
    b = rimf_patcher_begin(t.patcher);
    add(b, t.code + PAGE + 16, 4);
    add(b, t.code + PAGE - 1, 4);
    add(b, t.code + 2 * PAGE - 1, 4);
    CHECK(rimf_patch_commit(b, NULL) == -EFAULT);
    for (size_t i = 0; i < 3; i++)
        CHECK(rimf_patch_at(b, i)->result == -EFAULT);
    CHECK(mprotect(t.code, t.size, PROT_READ | PROT_EXEC) == 0 && untouched(&t));
    rimf_patch_end(b);
    CHECK(munmap(t.code + PAGE, PAGE) == 0);
    b = rimf_patcher_begin(t.patcher);
    add(b, t.code + PAGE - 2, 4);
    add(b, t.code + PAGE + 8, 4);
    CHECK(rimf_patch_commit(b, NULL) == -EFAULT);
    rimf_patch_end(b);
    patch_text_close(&t);
}

static void rejects_arguments(void)
{
    struct mvld_patch_report report = {7, 7, NULL};
    struct patch_text t;
    struct mvld_batch *b;

    patch_text_open(&t, 1);
    b = rimf_patcher_begin(t.patcher);
    CHECK(rimf_patch_add(b, (uintptr_t)t.code, old, new, 0) == -EINVAL);
    CHECK(rimf_patch_add(b, (uintptr_t)t.code, old, new, 17) == -EINVAL);
    CHECK(rimf_patch_add(b, (uintptr_t)t.code, NULL, new, 1) == -EINVAL);
    CHECK(rimf_patch_add(b, UINTPTR_MAX - 2, old, new, 8) == -EINVAL);
    CHECK(rimf_patch_add(NULL, (uintptr_t)t.code, old, new, 1) == -EINVAL);
    CHECK(rimf_patch_commit(b, &report) == 0 && report.applied == 0 && report.refused == 0);
    t.no_memory = 1;
    CHECK(rimf_patch_add(b, (uintptr_t)t.code, old, new, 1) == -ENOMEM);
    CHECK(rimf_patcher_begin(t.patcher) == NULL);
    t.no_memory = 0;
    rimf_patch_end(b);
    CHECK(rimf_patcher_set_method(t.patcher, "magic") == -EINVAL);
    CHECK(rimf_patcher_set_method(t.patcher, "auto") == 0);
    CHECK(untouched(&t));
    patch_text_close(&t);
}

/* Batches of any order and size: the bytes come out the same. */
static void sorts(void)
{
    enum { N = 3000 };
    struct patch_text t;
    struct mvld_batch *b;
    uint32_t seed = 12345;
    uint16_t index[N];

    patch_text_open(&t, 24);
    for (size_t i = 0; i < N; i++)
        index[i] = (uint16_t)i;
    for (size_t i = N - 1; i; i--) {
        seed = seed * 1664525 + 1013904223;
        size_t j = (seed >> 8) % (i + 1);
        uint16_t kept = index[i];
        index[i] = index[j];
        index[j] = kept;
    }
    b = rimf_patcher_begin(t.patcher);
    for (size_t i = 0; i < N; i++)
        add(b, t.code + 32 * (size_t)index[i], 1 + index[i] % 16);
    CHECK(rimf_patch_commit(b, NULL) == 0, "(%s)", t.sentence);
    for (size_t i = 0; i < t.size; i++) {
        size_t at = i % 32, site = i / 32;
        uint8_t want = site < N && at < 1 + site % 16 ? new[at] : 0xc3;
        CHECK(t.code[i] == want, "(at %zx)", i);
    }
    patch_text_all_rx(&t);
    rimf_patch_end(b);
    patch_text_close(&t);
}

/* Code on hugetlbfs changes by whole huge pages; skipped where there are none. */
static void huge_pages(void)
{
    static const char *const methods[] = {"mprotect", "remap"};
    const size_t huge = 2UL << 20;
    struct patch_text t;

    for (size_t m = 0; m < 2; m++) {
        int fd = memfd_create("code", MFD_HUGETLB);
        struct mvld_patch_report report;
        struct mvld_batch *b;
        uint8_t *fill;
        memset(&t, 0, sizeof(t));
        if (fd < 0 || ftruncate(fd, (off_t)huge) ||
            (fill = mmap(NULL, huge, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED) {
            printf("no huge pages here: not tested\n");
            close(fd);
            return;
        }
        memset(fill, 0xc3, huge);
        munmap(fill, huge);
        t.size = huge;
        t.code = mmap(NULL, huge, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
        CHECK(t.code != MAP_FAILED);
        t.segment = (struct mvld_segment){(uintptr_t)t.code, (uintptr_t)t.code + huge,
                                          PROT_READ | PROT_EXEC};
        patch_text_engine(&t);
        CHECK(rimf_patcher_set_method(t.patcher, methods[m]) == 0);
        b = rimf_patcher_begin(t.patcher);
        add(b, t.code + 100, 5);
        add(b, t.code + huge - 5, 5);
        CHECK(rimf_patch_commit(b, &report) == 0, "(%s)", t.sentence);
        CHECK(report.applied == 2 && !strcmp(report.method, methods[m]), "(%s)", report.method);
        CHECK(!memcmp(t.code + 100, new, 5) && !memcmp(t.code + huge - 5, new, 5));
        CHECK(t.code[0] == 0xc3 && t.code[huge / 2] == 0xc3);
        patch_text_all_rx(&t);
        rimf_patch_end(b);
        rimf_patcher_destroy(t.patcher);
        munmap(t.code, huge);
        close(fd);
    }
}

int main(void)
{
    applies();
    refuses();
    distrusts_segments(PROT_READ | PROT_WRITE | PROT_EXEC);
    distrusts_segments(PROT_READ);
    distrusts_segments(PROT_READ | PROT_WRITE);
    rejects_arguments();
    sorts();
    huge_pages();
    return 0;
}
