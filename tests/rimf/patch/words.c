/* SPDX-License-Identifier: MIT
 *
 * Patches that are given as whole arrays are judged and applied as if each had been
 * added alone.  A failure means that a commit writes what it did not verify, refuses
 * what it should not, or reports one for the other.
 */
#include "support.h"

enum { PAGES = 40, MOST = 64, ZEROS = 37 * PAGE };

static struct patch_text t;
static uint8_t image[PAGES * PAGE]; /* what the text holds between batches */

struct batch {
    size_t n;
    struct mvld_word where[MOST];
    uint64_t before[MOST], after[MOST];
};

static long protects;

static void count(struct patch_kernel *k, long nr)
{
    (void)k;
    protects += nr == SYS_mprotect;
}

static void reset(void)
{
    CHECK(mprotect(t.code, t.size, PROT_READ | PROT_WRITE) == 0);
    memcpy(t.code, image, t.size);
    CHECK(mprotect(t.code, t.size, PROT_READ | PROT_EXEC) == 0);
}

static void put(struct batch *a, size_t offset, unsigned length, uint64_t before, uint64_t after)
{
    a->where[a->n] = (struct mvld_word){(uint32_t)offset, (uint16_t)length, 0};
    a->before[a->n] = before;
    a->after[a->n++] = after;
}

/* One that verifies. */
static void put_good(struct batch *a, size_t offset, unsigned length, uint64_t after)
{
    uint64_t before = 0;

    memcpy(&before, image + offset, length);
    put(a, offset, length, before, after & UINT64_MAX >> (64 - 8 * length));
}

static int commit(struct batch *a, struct mvld_batch **out, struct mvld_patch_report *report)
{
    struct mvld_batch *b = rimf_patcher_begin(t.patcher);
    size_t half = a->n / 2;
    int r;

    CHECK(b);
    CHECK(rimf_patch_add_words(b, (uintptr_t)t.code, a->where, a->before, a->after, half) == 0);
    CHECK(rimf_patch_add_words(b, (uintptr_t)t.code, a->where + half, a->before + half,
                               a->after + half, a->n - half) == 0);
    protects = 0;
    r = rimf_patch_commit(b, report);
    patch_text_all_rx(&t);
    *out = b;
    return r;
}

static void check_bytes(const struct batch *a)
{
    for (size_t i = 0; i < a->n; i++)
        CHECK(!memcmp(t.code + a->where[i].offset, &a->after[i], a->where[i].length), "(%zu)", i);
}

/* Every length, across words and pages; the usual way is two changes of protection and
 * the question whether they are allowed. */
static void all_lengths(void)
{
    struct mvld_patch_report report;
    struct mvld_batch *b;
    struct batch a = {.n = 0};

    for (unsigned length = 4; length <= 8; length++)
        for (size_t at = 0; at < 4; at++)
            put_good(&a, length * PAGE - 5 * 8 + at * 17, length, 0x1112131415161718 * (at + 1));
    put(&a, 20 * PAGE, 5, 0x77, 0x77); /* changes nothing, and is not looked at */
    CHECK(commit(&a, &b, &report) == 0 && report.applied == a.n - 1 && report.refused == 0);
    CHECK(!strcmp(report.method, "mprotect") && protects == 3, "(%ld)", protects);
    CHECK(rimf_patch_count(b) == 0);
    a.n--;
    check_bytes(&a);
    rimf_patch_end(b);
    reset();
    CHECK(!memcmp(t.code, image, t.size));
}

static void nothing_to_do(void)
{
    struct mvld_patch_report report;
    struct mvld_batch *b;
    struct batch a = {.n = 0};

    put(&a, 64, 5, 1, 1);
    put(&a, 96, 5, 2, 2);
    CHECK(commit(&a, &b, &report) == 0 && report.applied == 0 && report.refused == 0);
    CHECK(protects == 0 && !memcmp(t.code, image, t.size));
    rimf_patch_end(b);
}

/* Two words of one instruction, of which one, the other or both change: as one patch where each is
 * judged alone. */
static void joined(void)
{
    struct mvld_patch_report report;
    struct mvld_batch *b;
    struct batch a = {.n = 0};
    uint64_t before = 0;

    put_good(&a, 16, 5, 1); /* two more, or commit() would part two that are joined */
    put_good(&a, 32, 5, 1);
    for (size_t i = 0; i < 3; i++) {
        memcpy(&before, image + 64 + 3 * PAGE * i, 4);
        put(&a, 64 + 3 * PAGE * i, 4, before, before ^ (i != 1));
        a.where[a.n - 1].joined = 1;
        before = 0;
        memcpy(&before, image + 68 + 3 * PAGE * i, 6);
        put(&a, 68 + 3 * PAGE * i, 6, before, before ^ (i != 2 ? 0x1000u : 0));
    }
    CHECK(commit(&a, &b, &report) == 0 && report.refused == 0 && !strcmp(report.method, "mprotect"));
    check_bytes(&a);
    rimf_patch_end(b);
    reset();
    put_good(&a, 20 * PAGE, 5, 1);
    a.before[a.n - 1] ^= 1; /* not what is there: each is judged alone */
    CHECK(commit(&a, &b, &report) == 0 && report.applied == 5 && report.refused == 1);
    CHECK(rimf_patch_count(b) == 6 && rimf_patch_at(b, 3)->length == 10);
    CHECK(rimf_patch_at(b, 5)->result == -ESTALE);
    a.n--;
    check_bytes(&a);
    rimf_patch_end(b);
    reset();
}

/* Pages between are not opened. */
static void far_apart(void)
{
    struct mvld_patch_report report;
    struct mvld_batch *b;
    struct batch a = {.n = 0};

    put_good(&a, 64, 5, 1);
    put_good(&a, 39 * PAGE, 5, 1);
    CHECK(commit(&a, &b, &report) == 0 && report.applied == 2 && protects == 5);
    check_bytes(&a);
    rimf_patch_end(b);
    reset();
}

/* A segment need not end with its page. */
static void end_of_segment(void)
{
    struct mvld_patch_report report;
    struct mvld_batch *b;
    struct batch a = {.n = 0};

    t.segment.end -= 100;
    put_good(&a, 39 * PAGE, 5, 1);
    put_good(&a, PAGES * PAGE - 105, 5, 1);
    put_good(&a, PAGES * PAGE - 98, 5, 1);
    CHECK(commit(&a, &b, &report) == 0 && report.applied == 2);
    CHECK(rimf_patch_at(b, 2)->result == -EFAULT);
    a.n--;
    check_bytes(&a);
    rimf_patch_end(b);
    t.segment.end += 100;
    reset();
}

/* One is refused, and the others are not; they are listed in their order. */
static void one_refused(size_t which, uintptr_t address, unsigned length, int result)
{
    struct mvld_patch_report report;
    struct mvld_batch *b;
    struct batch a = {.n = 0};

    for (size_t i = 0; i < 9; i++)
        put_good(&a, 64 + i * 3 * PAGE, 5, 0xa1a2a3a4a5 + i);
    if (address)
        a.where[which].offset = (uint32_t)address;
    a.where[which].length = (uint16_t)length;
    if (result == -ESTALE)
        a.before[which] ^= 1ul << (8 * length - 1);
    CHECK(commit(&a, &b, &report) == 0 && report.applied == 8 && report.refused == 1);
    CHECK(rimf_patch_count(b) == 9);
    for (size_t i = 0; i < 9; i++) {
        const struct mvld_patch *patch = rimf_patch_at(b, i);

        CHECK(patch->address == (uintptr_t)t.code + a.where[i].offset);
        CHECK(patch->result == (i == which ? result : 0), "(%zu: %d)", i, patch->result);
        CHECK(i == which || !memcmp(t.code + a.where[i].offset, &a.after[i], 5));
    }
    rimf_patch_end(b);
    reset();
}

static void refused(void)
{
    for (size_t i = 0; i < 9; i++)
        for (unsigned length = 4; length <= 8; length++)
            one_refused(i, 0, length, -ESTALE);
    one_refused(8, PAGES * PAGE - 3, 5, -EFAULT); /* runs out of the segment */
    one_refused(8, PAGES * PAGE + 64, 5, -EFAULT);
    CHECK(mprotect(t.code + 12 * PAGE, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
    struct mvld_patch_report report;
    struct mvld_batch *b = rimf_patcher_begin(t.patcher);
    struct batch a = {.n = 0};

    put_good(&a, 11 * PAGE, 5, 1);
    put_good(&a, 12 * PAGE, 5, 1);
    put_good(&a, 13 * PAGE, 5, 1);
    CHECK(rimf_patch_add_words(b, (uintptr_t)t.code, a.where, a.before, a.after, a.n) == 0);
    CHECK(rimf_patch_commit(b, &report) == 0 && report.refused == 1);
    CHECK(rimf_patch_at(b, 1)->result == -EFAULT && t.code[12 * PAGE] == 0xc3);
    CHECK(t.code[11 * PAGE] == 1 && t.code[13 * PAGE] == 1);
    rimf_patch_end(b);
    reset();
}

static void bad_lengths(void)
{
    static const uint16_t lengths[] = {0, 1, 3, 9, 16, 17, 65535};

    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        struct mvld_patch_report report;
        struct mvld_batch *b;
        struct batch a = {.n = 0};

        put_good(&a, ZEROS + 64, 5, 1);
        put_good(&a, ZEROS + 128, 5, 1);
        a.where[1].length = lengths[i];
        CHECK(commit(&a, &b, &report) == -EINVAL && report.applied == 0);
        CHECK(!memcmp(t.code, image, t.size));
        rimf_patch_end(b);
    }
    struct mvld_batch *b = rimf_patcher_begin(t.patcher);
    uint64_t word = 0;
    struct mvld_word where = {0, 5, 0};

    CHECK(rimf_patch_add_words(NULL, 0, &where, &word, &word, 1) == -EINVAL);
    CHECK(rimf_patch_add_words(b, 0, NULL, &word, &word, 1) == -EINVAL);
    CHECK(rimf_patch_add_words(b, 0, &where, NULL, &word, 1) == -EINVAL);
    CHECK(rimf_patch_add_words(b, 0, &where, &word, NULL, 1) == -EINVAL);
    CHECK(rimf_patch_add_words(b, ~0ul - 100, &where, &word, &word, 1) == -EINVAL);
    rimf_patch_end(b);
}

static uint32_t random_state = 1;

static uint32_t any(uint32_t below)
{
    random_state = random_state * 1664525 + 1013904223;
    return (random_state >> 8) % below;
}

/* Some out of order, some overlapping, some with other bytes, some outside. */
static void make(struct batch *a)
{
    size_t at = any(PAGE), kind = any(4);

    a->n = 0;
    for (size_t n = 1 + any(MOST - 1); a->n < n;) {
        unsigned length = 4 + any(5);
        if (at + length > t.size)
            at = kind == 1 ? any(PAGE) : t.size - 4;
        put_good(a, at, length, (uint64_t)any(1 << 24) * any(1 << 24));
        if (kind == 2 && any(8) == 0)
            a->before[a->n - 1] ^= 1ul << any(8 * length);
        if (any(16) == 0)
            a->after[a->n - 1] = a->before[a->n - 1];
        at += kind == 3 ? any(10) : length + any(any(8) ? 40 : 9 * PAGE);
    }
}

static void as_if_added_alone(void)
{
    static struct batch a;
    static uint8_t seen[PAGES * PAGE];

    for (int round = 0; round < 3000; round++) {
        struct mvld_patch_report report, want;
        struct mvld_batch *b, *each = rimf_patcher_begin(t.patcher);
        int r, r2, results[MOST];
        size_t n = 0;

        make(&a);
        r = commit(&a, &b, &report);
        memcpy(seen, t.code, t.size);
        for (size_t i = 0; i < rimf_patch_count(b); i++)
            results[n++] = rimf_patch_at(b, i)->result;
        rimf_patch_end(b);
        reset();
        for (size_t i = 0; i < a.n; i++)
            if (a.before[i] != a.after[i])
                CHECK(rimf_patch_add(each, (uintptr_t)t.code + a.where[i].offset, &a.before[i],
                                     &a.after[i], a.where[i].length) == 0);
        r2 = rimf_patch_commit(each, &want);
        CHECK(r == r2, "(round %d: %d, %d)", round, r, r2);
        CHECK(!memcmp(seen, t.code, t.size), "(round %d)", round);
        CHECK(report.applied == want.applied && report.refused == want.refused);
        CHECK(n == 0 ? report.refused == 0 : n == rimf_patch_count(each));
        for (size_t i = 0; i < n; i++)
            CHECK(results[i] == rimf_patch_at(each, i)->result);
        rimf_patch_end(each);
        reset();
    }
}

/* Beside others, by another method, from lines, while a thread runs. */
static void other_ways(const char *method)
{
    struct mvld_patch_report report;
    struct mvld_batch *b = rimf_patcher_begin(t.patcher);
    struct batch a = {.n = 0};

    for (size_t i = 0; i < 9; i++)
        put_good(&a, 64 + i * 3 * PAGE, 5, 0xe8);
    CHECK(rimf_patch_add_words(b, (uintptr_t)t.code, a.where, a.before, a.after, a.n) == 0);
    CHECK(rimf_patch_add(b, (uintptr_t)t.code + 8, image + 8, "\xc2", 1) == 0);
    CHECK(rimf_patch_commit(b, &report) == 0 && report.applied == 10, "(%s)", t.sentence);
    CHECK_STR(report.method, method);
    check_bytes(&a);
    CHECK(t.code[8] == 0xc2);
    rimf_patch_end(b);
    a.n = 0;
    for (size_t i = 0; i < 9; i++)
        put(&a, 64 + i * 3 * PAGE, 5, 0xe8, 0xe9);
    CHECK(commit(&a, &b, &report) == 0 && report.applied == 9);
    CHECK_STR(report.method, method);
    check_bytes(&a);
    rimf_patch_end(b);
    patch_text_all_rx(&t);
    reset();
}

int main(void)
{
    patch_text_open(&t, PAGES);
    memset(image, 0xc3, sizeof image);
    /* jmp rel32: one instruction, which may be changed under threads */
    for (size_t i = 0; i < 9; i++)
        memcpy(image + 64 + i * 3 * PAGE, "\xe9\1\2\3\4", 5);
    memset(image + ZEROS, 0, PAGE);
    reset();
    t.kernel.before = count;
    joined();
    far_apart();
    end_of_segment();
    all_lengths();
    nothing_to_do();
    refused();
    bad_lengths();
    as_if_added_alone();
    other_ways("mprotect");
    t.kernel.fail_number = SYS_ioctl;
    t.kernel.fail_from = 1;
    t.kernel.error = -ENOTTY;
    other_ways("mprotect");
    as_if_added_alone();
    t.kernel.fail_from = 0;
    CHECK(rimf_patcher_set_method(t.patcher, "selfmem") == 0);
    other_ways("selfmem");
    CHECK(rimf_patcher_set_method(t.patcher, "auto") == 0);
    patch_park_thread();
    other_ways("remap");
    patch_text_close(&t);
    return 0;
}
