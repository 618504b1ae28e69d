/* SPDX-License-Identifier: MIT
 *
 * rimf/patch/mprotect.c: R-X to RW-, write, RW- to R-X.
 *
 *   text   |----------xx--x---------------------------x--|
 *   runs              [--]                            [x]     near patches share one
 *   step 1            RW-                             RW-     may fail: all back to R-X
 *   step 2            write                           write   cannot fail
 *   step 3            R-X                             R-X     must not fail
 *
 * Between steps 1 and 3 the pages are not executable.  So either nobody has entered the code yet, or
 * nothing else runs in this address space, including signal handlers (commit blocks signals, except the
 * synchronous ones: the program must have no handler of these).  The code of these steps must be in other
 * pages: patch_window_hits refuses a batch that would make it unexecutable.
 *
 * Rules that the kernel applies only in step 3 can refuse it (SELinux's execmod, a filter that
 * distinguishes addresses): then patch_remap_runs moves an executable copy over the pages.  (In a static
 * program whose code shares those pages with the engine this is not possible; then there is no way back.)
 *
 * The first batch over a part of a mapping splits it permanently, because the kernel accounts for memory
 * that was writable.
 */
#include "rimf/patch/private.h"

extern const char __start_mvld_patch_text[] __attribute__((visibility("hidden")));
extern const char __stop_mvld_patch_text[] __attribute__((visibility("hidden")));

static int overlaps(const struct patch_run *run, uintptr_t start, uintptr_t stop)
{
    return run->start < stop && start < run->stop;
}

/* Returns 1 if the pages of a run contain code that is needed while they are RW-. */
static int patch_window_hits(const struct mvld_batch *b)
{
    uintptr_t call = (uintptr_t)b->patcher->host.sys->call;

    for (size_t i = 0; i < b->n_runs; i++) {
        if (overlaps(&b->runs[i], (uintptr_t)__start_mvld_patch_text,
                     (uintptr_t)__stop_mvld_patch_text) ||
            overlaps(&b->runs[i], call, call + 256))
            return 1;
    }
    return 0;
}

static inline __attribute__((always_inline)) long protect(const struct rimf_sys *sys,
                                                          const struct patch_run *run, int prot)
{
    long r;

    do {
        r = sys_mprotect(sys, run->start, run->stop - run->start, prot);
    } while (r == -EINTR);
    return r;
}

static inline __attribute__((always_inline)) void write_words(const struct patch_words *group)
{
    const struct patch_words words = *group;

    for (size_t i = 0; i < words.n; i++) {
        uintptr_t at = words.base + words.words[i].offset;
        unsigned tail = words.words[i].length - 4u;
        uint64_t bytes = words.replace[i];
        if (words.expect[i] == bytes)
            continue;
        patch_store4(at, (uint32_t)bytes);
        patch_store4(at + tail, (uint32_t)(bytes >> 8 * tail));
    }
}

/* Populating pages takes a system call, which for fewer pages costs as much as the faults that it saves.
 * Measured with adjacent pages: 1.5 us a page touched, 1.8 by calls for four, 1.4 by calls for sixteen;
 * with single ones 2.1 and 2.6. */
#define FEW (8 * RIMF_PAGE)

/* Written before it is read, so that it faults once. */
static inline __attribute__((always_inline)) void make_own(const struct rimf_sys *sys,
                                                           uintptr_t start, uintptr_t stop)
{
    if (stop - start >= FEW) {
        SYS3(sys, SYS_madvise, start, stop - start, POPULATE_WRITE);
        return;
    }
    for (; start < stop; start += RIMF_PAGE)
        __asm__ volatile("lock orb $0, %0" : "+m"(*(uint8_t *)start) : : "cc");
}

/* Bytes at once: what was populated is then still in the nearer caches when it is changed. */
#define STRETCH (64 * RIMF_PAGE)

/* Makes the pages private, adjacent ones together, and changes them. */
static inline __attribute__((always_inline)) void write_stretches(const struct rimf_sys *sys,
                                                                  const struct patch_words *group)
{
    const struct patch_words words = *group;

    for (size_t i = 0; i < words.n;) {
        uintptr_t start = (words.base + words.words[i].offset) & ~(RIMF_PAGE - 1), stop = start;
        for (; i < words.n && stop - start < STRETCH; i++) {
            uintptr_t at = words.base + words.words[i].offset;
            if ((at & ~(RIMF_PAGE - 1)) > stop)
                break;
            stop = (at + words.words[i].length + RIMF_PAGE - 1) & ~(RIMF_PAGE - 1);
        }
        make_own(sys, start, stop);
        words.write(words.cookie, i < words.n ? words.base + words.words[i].offset : UINTPTR_MAX);
    }
}

/* Makes the runs writable, writes, makes them executable again.  0, or negative errno: nothing written.
 * *open is the number of runs that could not be made executable; they are moved to the front of the array. */
PATCH_WINDOW static long window(struct mvld_batch *b, size_t *open)
{
    const struct rimf_sys *sys = b->patcher->host.sys;
    const struct mvld_batch batch = *b; /* which the writes below cannot change */
    size_t touched = 0;
    long r = 0;

    *open = 0;
    while (r == 0 && touched < b->n_runs)
        r = protect(sys, &b->runs[touched++], PATCH_RW);
    for (size_t i = 0, n = r == 0 ? batch.n : 0; i < n; i++) {
        const struct mvld_patch *patch = patch_nth(&batch, i);
        if (patch->result == 0)
            patch_copy((void *)patch->address, patch->replace, patch->length);
    }
    for (size_t i = 0, n = r == 0 ? batch.n_words : 0; i < n; i++) {
        if (batch.words[i].expect)
            write_words(&batch.words[i]);
        else
            write_stretches(sys, &batch.words[i]);
    }
    __asm__ volatile("" : : : "memory");
    for (size_t i = 0; i < touched; i++) {
        struct patch_run *run = &b->runs[i];
        if (protect(sys, run, PATCH_RX) != 0 && protect(sys, run, PATCH_RX) != 0) {
            struct patch_run kept = b->runs[*open];
            b->runs[(*open)++] = *run;
            *run = kept;
        }
    }
    return r;
}

int patch_mprotect_runs(struct mvld_batch *b)
{
    struct rimf_patcher *p = b->patcher;
    size_t open;
    long r = patch_mprotect_allowed(p);

    if (r)
        return (int)r;
    if (patch_window_hits(b) ||
        (!b->unentered && patch_handlers_may_run(p->host.sys)))
        return -EBUSY;
    r = window(b, &open);
    /* r < 0: nothing was written, and the copies have the old bytes. */
    if (open && patch_remap_runs(b, open, r != 0))
        patch_say(p, -EPERM, "%zu stretches of code, the first at %lx, could not be made executable "
                  "again", open, b->runs[0].start);
    return (int)r;
}

static int apply(struct mvld_batch *b)
{
    int r = b->patcher->alone || b->unentered ? patch_runs(b, PATCH_GAP) : -EBUSY;

    return r ? r : patch_mprotect_runs(b);
}

const struct patch_method patch_method_mprotect = {"mprotect", apply};
