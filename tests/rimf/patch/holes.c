/* SPDX-License-Identifier: MIT
 *
 * patch_holes: pages between patches, which are moved along under threads.  A failure means that a commit takes
 * memory for pages that it does not change, splits the text into many mappings, or loses what others wrote there
 * (a debugger's breakpoints).
 */
#include "support.h"

enum { PAGES = 300, PATCHES = 10, APART = 30 * PAGE, BREAKPOINT = 45 * PAGE };

static struct patch_text t;

static void commit(uint8_t from, uint8_t to)
{
    struct mvld_batch *b = rimf_patcher_begin(t.patcher);
    struct mvld_patch_report report;

    for (size_t i = 0; i < PATCHES; i++)
        CHECK(rimf_patch_add(b, (uintptr_t)t.code + i * APART, &from, &to, 1) == 0);
    CHECK(rimf_patch_commit(b, &report) == 0, "(%s)", t.sentence);
    CHECK(report.applied == PATCHES && !strcmp(report.method, "remap"), "(by %s)", report.method);
    rimf_patch_end(b);
    for (size_t at = 0; at < t.size; at++) {
        uint8_t wanted = at == BREAKPOINT ? 0xcc : at % APART ? 0xc3 : to;

        CHECK(t.code[at] == wanted, "(at %zx)", at);
    }
}

/* The mappings of the text, and the KB of it that are no longer the file's. */
static int mappings(unsigned long *own)
{
    FILE *maps = fopen("/proc/self/smaps", "r");
    unsigned long from, to, kb;
    char line[4400];
    int n = 0, inside = 0;

    for (*own = 0; fgets(line, sizeof(line), maps);) {
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2) {
            inside = from < (uintptr_t)t.code + t.size && to > (uintptr_t)t.code;
            n += inside;
        } else if (inside && sscanf(line, "Anonymous: %lu", &kb) == 1) {
            *own += kb;
        }
    }
    fclose(maps);
    return n;
}

int main(void)
{
    unsigned long own;

    patch_text_open(&t, PAGES);
    patch_park_thread();
    CHECK(mprotect(t.code, t.size, PROT_READ | PROT_WRITE) == 0);
    t.code[BREAKPOINT] = 0xcc;
    CHECK(mprotect(t.code, t.size, PROT_READ | PROT_EXEC) == 0);
    for (int i = 0; i < 10; i++) {
        commit(0xc3, 0x90);
        CHECK(mappings(&own) <= 2 && own == (PATCHES + 1) * PAGE / 1024, "(%d mappings, %lu KB)", mappings(&own), own);
        commit(0x90, 0xc3);
    }
    t.kernel.fail_number = SYS_pread64; /* then all pages between are copied */
    t.kernel.fail_from = 1;
    t.kernel.error = -EPERM;
    commit(0xc3, 0x90);
    CHECK(mappings(&own) <= 2 && own > PATCHES * APART / 1024 * 8 / 10, "(%lu KB)", own);
    patch_text_close(&t);
    return 0;
}
