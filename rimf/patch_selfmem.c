/* SPDX-License-Identifier: MIT
 *
 * rimf/patch_selfmem.c: writes through /proc/self/mem, which needs no change of
 * protections: the kernel copies the page if it is shared with the file, and
 * writes the copy.
 *
 * Alone, the bytes are simply written.  With threads, patch_int3.c does it, or,
 * by the method "word", one aligned 8-byte store for each site that lies inside
 * one aligned word, and breakpoints for the others.
 *
 * Is that one store?  The kernel copies with memcpy; for 8 bytes that is one
 * `mov` on CPUs without FSRM (fast short rep mov), and `rep movsb` on those with
 * it, where nobody promises that 8 bytes arrive together.  So "word" is refused
 * on CPUs with FSRM (CPUID leaf 7, EDX bit 4).  And even one store is only safe
 * to execute meanwhile where the CPU's maker says so: AMD does for naturally
 * aligned 8 bytes (APM volume 2, 7.6.1), Intel promises it for nothing but the
 * breakpoint byte.  Hence it is offered, and never chosen by default.
 */
#include <cpuid.h>

#include "patch_private.h"

static int in_word(const struct mvld_patch *patch)
{
    return ((patch->address ^ (patch->address + patch->length - 1)) & ~7UL) == 0;
}

/* One store of the word that holds the site. */
static int write_word(struct rimf_patcher *p, const struct mvld_patch *patch, const uint8_t *bytes)
{
    uintptr_t at = patch->address & ~7UL;
    uint8_t word[8];
    long r;

    patch_copy(word, (const uint8_t *)at, 8);
    patch_copy(word + (patch->address - at), bytes, patch->length);
    do {
        r = sys_pwrite(p->host.sys, p->mem, word, 8, at);
    } while (r == -EINTR);
    return r == 8 ? 0 : r < 0 ? (int)r : -EIO;
}

static int write(struct rimf_patcher *p, const struct mvld_patch *patch, int word, int back)
{
    const uint8_t *bytes = back ? patch->expect : patch->replace;

    return word ? write_word(p, patch, bytes)
                : patch_mem_write(p, patch->address, bytes, patch->length);
}

/* All of them, or only those inside a word; on failure back again, if need be by
 * fresh pages. */
static int write_all(struct mvld_batch *b, int words, int back)
{
    struct rimf_patcher *p = b->patcher;
    int r = 0, first = 0;

    for (size_t i = 0; i < b->n && (r == 0 || back); i++) {
        const struct mvld_patch *patch = patch_nth(b, i);
        if (patch->result || (words && !in_word(patch)))
            continue;
        r = write(p, patch, words, back);
        if (r)
            r = write(p, patch, words, back);
        first = first ? first : r;
    }
    if (first && !back && write_all(b, words, 1) &&
        (patch_runs(b, 0) || patch_remap_runs(b, b->n_runs, 1)))
        return patch_settle(b, first);
    return first;
}

static int apply_word(struct mvld_batch *b)
{
    int r = b->patcher->word_ok ? patch_mem_open(b->patcher) : -EPERM;

    if (r)
        return r;
    if (b->patcher->alone) {
        r = write_all(b, 0, 0);
    } else {
        r = patch_sync_cores(b->patcher); /* first, to know that it works */
        if (r == 0)
            r = write_all(b, 1, 0);
        if (r == 0)
            r = patch_int3(b, in_word);
        if (r < 0 && write_all(b, 1, 1))
            r = patch_settle(b, r);
        patch_sync_cores(b->patcher);
    }
    patch_mem_close(b->patcher);
    return r;
}

const struct patch_method patch_method_word = {"word", apply_word};

static int apply(struct mvld_batch *b)
{
    int r = patch_mem_open(b->patcher);

    if (r)
        return r;
    r = b->patcher->alone ? write_all(b, 0, 0) : patch_int3(b, NULL);
    patch_mem_close(b->patcher);
    return r;
}

const struct patch_method patch_method_selfmem = {"selfmem", apply};

int patch_one_store(void)
{
    unsigned a, b, c, d;

    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && !(d & (1u << 4));
}
