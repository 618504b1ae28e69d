/* SPDX-License-Identifier: MIT
 *
 * patch_sparse METHOD [threads]: random batches over a large text, compared with
 * a model byte for byte after each.  A failure means that a method loses or
 * spoils bytes between the patches, or uses up the process's mappings.
 */
#include <pthread.h>

#include "support.h"

enum { PAGES = 1024, PER_PAGE = 3, COMMITS = 60, MAPPINGS = 400 };

static struct patch_text t;
static uint8_t model[PAGES * 4096];
static uint8_t now[PAGES][PER_PAGE];
static uint32_t seed = 2024;

static uint32_t roll(uint32_t sides)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 12) % sides;
}

/* In the page, across words, and across to the next page. */
static size_t place(size_t page, size_t site)
{
    static const size_t offsets[PER_PAGE] = {16, 2045, 4094};

    return page * PAGE + offsets[site];
}

static void encode(uint8_t out[5], uint8_t value)
{
    out[0] = value & 1 ? 0xe8 : 0xe9;
    memset(out + 1, value, 4);
}

static void commit(const char *method, uint32_t one_in)
{
    struct mvld_batch *b = rimf_patcher_begin(t.patcher);
    struct mvld_patch_report report;
    size_t n = 0;

    for (size_t page = 0; page < PAGES; page++) {
        for (size_t site = 0; site < PER_PAGE; site++) {
            uint8_t old[5], new[5], value = (uint8_t)roll(256);
            size_t at = place(page, site);
            if (roll(one_in) || at + 5 > t.size)
                continue;
            encode(old, now[page][site]);
            encode(new, value);
            CHECK(rimf_patch_add(b, (uintptr_t)t.code + at, old, new, 5) == 0);
            now[page][site] = value;
            memcpy(model + at, new, 5);
            n++;
        }
    }
    CHECK(rimf_patch_commit(b, &report) == 0, "(%s)", t.sentence);
    CHECK(report.applied == n && report.refused == 0);
    CHECK(n == 0 || !strcmp(report.method, method), "(by %s)", report.method);
    rimf_patch_end(b);
    CHECK(!memcmp(t.code, model, t.size));
}

static int mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4400];
    int n = 0;

    while (fgets(line, sizeof(line), maps))
        n++;
    fclose(maps);
    return n;
}

int main(int argc, char **argv)
{
    static const uint32_t densities[] = {2, 10, 40, 400};
    uint8_t first[5];

    patch_text_open(&t, PAGES);
    encode(first, 0);
    memset(model, 0xc3, sizeof(model));
    for (size_t page = 0; page < PAGES; page++) {
        for (size_t site = 0; site < PER_PAGE; site++) {
            if (place(page, site) + 5 <= t.size)
                memcpy(model + place(page, site), first, 5);
        }
    }
    CHECK(mprotect(t.code, t.size, PROT_READ | PROT_WRITE) == 0);
    memcpy(t.code, model, t.size);
    CHECK(mprotect(t.code, t.size, PROT_READ | PROT_EXEC) == 0);
    if (argc > 2) {
        patch_park_thread();
    }
    CHECK(rimf_patcher_set_method(t.patcher, argv[1]) == 0);
    for (int i = 0; i < COMMITS; i++)
        commit(argv[1], densities[i % 4]);
    patch_text_all_rx(&t);
    printf("%d mappings\n", mappings());
    CHECK(mappings() < MAPPINGS);
    patch_text_close(&t);
    return 0;
}
