/* SPDX-License-Identifier: MIT
 *
 * patch_bytes METHOD FILE: patches every site, then writes what /proc/self/mem
 * holds of the pages into FILE, for patch/bytes.py, which has it disassembled by
 * somebody else.  Prints "start ADDRESS", then "site ADDRESS instruction" lines,
 * as objdump would spell them.
 */
#include "sites.h"

int main(int argc, char **argv)
{
    struct mvld_patch_report report;
    struct patch_text t;
    uint8_t *copy;
    int out, mem = open("/proc/self/mem", O_RDONLY);

    CHECK(argc == 3 && mem >= 0);
    patch_sites_open(&t);
    CHECK(rimf_patcher_set_method(t.patcher, argv[1]) == 0, "(%s)", t.sentence);
    for (int from = 1, to = 2; from != 3; from = to, to = 3) { /* by way of the second state */
        struct mvld_batch *b = patch_sites_batch(t.patcher, from, to);
        CHECK(rimf_patch_commit(b, &report) == 0 && report.applied == PATCH_SITES);
        CHECK(!strcmp(report.method, argv[1]));
        rimf_patch_end(b);
    }
    for (size_t i = 0; i < PATCH_SITES; i += 2) { /* every other one on to the first */
        struct mvld_batch *b = rimf_patcher_begin(t.patcher);
        uint8_t *site = patch_sites_table[i].site, old[5], new[5];
        patch_sites_encode(site, 3, old);
        patch_sites_encode(site, 1, new);
        CHECK(rimf_patch_add(b, (uintptr_t)site, old, new, 5) == 0);
        CHECK(rimf_patch_commit(b, NULL) == 0);
        rimf_patch_end(b);
    }
    copy = malloc(t.size);
    CHECK(copy && pread(mem, copy, t.size, (off_t)(uintptr_t)t.code) == (ssize_t)t.size);
    out = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(out >= 0 && write(out, copy, t.size) == (ssize_t)t.size && close(out) == 0);
    printf("start 0x%lx\n", (unsigned long)t.code);
    for (size_t i = 0; i < PATCH_SITES; i++) {
        if (i % 2)
            printf("site 0x%lx mov $0x3,%%eax\n", (unsigned long)patch_sites_table[i].site);
        else
            printf("site 0x%lx call 0x%lx\n", (unsigned long)patch_sites_table[i].site,
                   (unsigned long)patch_one);
    }
    return 0;
}
