/* SPDX-License-Identifier: MIT
 *
 * rimf/patch/remap.c: changed pages are made aside and moved over the old ones.
 *
 *   text    |---A---B---C---D---|  R-X, executed by other threads
 *   aside       A'  .   C'         same file and offset (or anonymous), never
 *                                  writable and executable, then R-X
 *   mremap      A' ──► A           one system call a run of pages
 *
 * Why a running thread sees only the old instruction or the new one: mremap(MREMAP_FIXED) holds mmap_lock
 * for writing from before the old page is removed until the new one is there.  A thread that fetches in
 * between finds no page, faults, and waits for that lock (with per-VMA locks too: the old VMA is out of the
 * tree and the new one is write-locked until mmap_lock is dropped), then executes the same instruction
 * again.  For an instruction across two pages both translations are removed, on every CPU, before the first
 * new page appears; so no fetch can join an old half to a new one.  Pages of one run are moved in one call.
 * patch_stress tests this on the present machine.
 *
 * No signal is involved: threads may block any, have tiny stacks, be traced, or be created meanwhile.
 *
 * Copies are made from the same file, so that perf, gdb and pmap still see the object.  Only if that file
 * cannot be opened any more (replaced, another root), or may not be mapped, are the new pages anonymous.
 * Every run is a mapping of its own afterwards (see stretches).  Replaced pages lose locks by
 * mlockall(MCL_CURRENT) and protection keys.
 *
 * A run has pages without patches, too.  Such a page is not copied if it is the file's, in the old mapping and
 * so in the new one.  /proc/self/pagemap tells which pages are the process's own (breakpoints of a debugger,
 * earlier patches).  If it cannot be read, all pages are copied.
 *
 * On hugetlbfs whole huge pages are copied and moved.
 *
 * Making the copy needs either the right to turn a page from RW- to R-X, or a
 * writable /proc/self/mem (PR_SET_MDWE, filters against mprotect).
 *
 * Everything that can fail for lack of memory is done before the first move, except for the mappings that a
 * move adds: a process may have 65530.  A move that fails is undone by moving old bytes back, with mappings
 * that were in reserve; or, while nothing else runs, by writing them into the present pages.
 */
#include <fcntl.h>

#include "rimf/base/status.h"
#include "rimf/patch/private.h"

static void copy_pages(uintptr_t to, uintptr_t from, size_t n)
{
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

/* Maps the object's file, if it is still the mapped one.  Negative: it is not. */
static int map_file(struct rimf_patcher *p, const struct patch_region *region, uintptr_t start,
                    size_t size, int prot, uintptr_t *out)
{
    const struct rimf_sys *sys = p->host.sys;
    uint64_t offset = region->offset + (start - region->start);
    struct patch_vma v;
    long fd, r;
    int same = 0;

    if (!region->inode || patch_maps_open(&p->maps, sys, p->alone))
        return -ENOENT;
    r = patch_maps_find(&p->maps, region->start, &v, p->name, sizeof(p->name));
    patch_maps_close(&p->maps);
    if (r || p->name[0] != '/')
        return -ENOENT;
    fd = sys_openat(sys, p->name, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return (int)fd;
    r = sys_mmap(sys, 0, size, prot, MAP_PRIVATE, (int)fd, offset);
    sys_close(sys, (int)fd);
    if (sys_failed(r))
        return (int)r;
    if (patch_maps_open(&p->maps, sys, p->alone) == 0) {
        same = patch_maps_find(&p->maps, (uintptr_t)r, &v, NULL, 0) == 0 &&
               v.inode == region->inode && v.device == region->device &&
               v.offset + ((uintptr_t)r - v.start) == offset;
        patch_maps_close(&p->maps);
    }
    if (!same) {
        sys_munmap(sys, (uintptr_t)r, size);
        return -ESTALE;
    }
    *out = (uintptr_t)r;
    return 0;
}

static int map_aside(struct rimf_patcher *p, struct patch_region *region, uintptr_t start,
                     size_t size, int prot)
{
    long r = map_file(p, region, start, size, prot, &region->aside);

    region->aside_is_file = r == 0 && region->page_size <= RIMF_PAGE;
    if (r) {
        r = sys_mmap(p->host.sys, 0, size, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (sys_failed(r))
            return (int)r;
        region->aside = (uintptr_t)r;
    }
    region->aside_of = start;
    region->aside_size = size;
    return 0;
}

/* Unmaps unused copies.  The runs [0, moved) are gone from there, and other threads may have mapped
 * something at their addresses: that is not ours to unmap. */
static void drop_asides(struct mvld_batch *b, size_t moved)
{
    const struct rimf_sys *sys = b->patcher->host.sys;

    for (size_t i = 0; i < b->n_regions; i++) {
        struct patch_region *region = &b->regions[i];
        uintptr_t rest = region->aside, end = region->aside + region->aside_size;

        if (!region->aside)
            continue;
        for (size_t j = 0; j < moved; j++) {
            const struct patch_run *run = &b->runs[j];
            uintptr_t from = run->start + (region->aside - region->aside_of);

            if (run->region != i)
                continue;
            if (from > rest)
                sys_munmap(sys, rest, from - rest);
            rest = from + (run->stop - run->start);
        }
        if (end > rest)
            sys_munmap(sys, rest, end - rest);
        region->aside = 0;
    }
}

/* Copies the pages of a run that have patches, or are the process's own. */
static int fill_pages(struct mvld_batch *b, const struct patch_run *run, int by_mem)
{
    const struct patch_region *region = &b->regions[run->region];
    uintptr_t shift = region->aside - region->aside_of;
    struct pagemap map = {.sys = b->patcher->host.sys};
    size_t i = run->first;
    int r = 0;

    for (uintptr_t page = run->start; r == 0 && page < run->stop; page += RIMF_PAGE) {
        while (i < run->end && patch_nth(b, i)->address + patch_nth(b, i)->length <= page)
            i++;
        if (region->aside_is_file && (i == run->end || patch_nth(b, i)->address >= page + RIMF_PAGE) &&
            !pagemap_is_own(&map, page))
            continue;
        if (by_mem)
            r = patch_mem_write(b->patcher, page + shift, (const void *)page, RIMF_PAGE);
        else
            copy_pages(page + shift, page, RIMF_PAGE);
    }
    pagemap_close(&map);
    return r;
}

/* Fills the copy of one run: the content of its pages, with the new bytes of each patch (or the old ones,
 * to undo). */
static int fill(struct mvld_batch *b, const struct patch_run *run, int by_mem, int back)
{
    const struct patch_region *region = &b->regions[run->region];
    uintptr_t shift = region->aside - region->aside_of;
    int r = fill_pages(b, run, by_mem);

    for (size_t i = run->first; r == 0 && i < run->end; i++) {
        const struct mvld_patch *patch = patch_nth(b, i);
        const uint8_t *bytes = back ? patch->expect : patch->replace;
        if (patch->result)
            continue;
        if (by_mem)
            r = patch_mem_write(b->patcher, patch->address + shift, bytes, patch->length);
        else
            patch_copy((void *)(patch->address + shift), bytes, patch->length);
    }
    return r;
}

static int prepare_by(struct mvld_batch *b, size_t n, int back, int by_mem)
{
    struct rimf_patcher *p = b->patcher;
    int r = by_mem ? patch_mem_open(p) : 0;

    for (size_t i = 0, next; r == 0 && i < n; i = next) {
        struct patch_region *region = &b->regions[b->runs[i].region];
        uintptr_t start = b->runs[i].start;
        for (next = i + 1; next < n && b->runs[next].region == b->runs[i].region;)
            next++;
        r = map_aside(p, region, start, b->runs[next - 1].stop - start,
                      by_mem ? PATCH_RX : PATCH_RW);
        for (size_t j = i; r == 0 && j < next; j++)
            r = fill(b, &b->runs[j], by_mem, back);
        while (r == 0 && !by_mem &&
               (r = (int)sys_mprotect(p->host.sys, region->aside, region->aside_size,
                                      PATCH_RX)) == -EINTR)
            r = 0;
    }
    if (by_mem)
        patch_mem_close(p);
    if (r)
        drop_asides(b, 0);
    return r;
}

/* Makes copies of the runs [0, n), R-X, ready to be moved. */
static int prepare(struct mvld_batch *b, size_t n, int back)
{
    return prepare_by(b, n, back, 0) ? prepare_by(b, n, back, 1) : 0;
}

static int move(const struct mvld_batch *b, const struct patch_run *run)
{
    const struct patch_region *region = &b->regions[run->region];
    uintptr_t from = run->start + (region->aside - region->aside_of);
    size_t size = run->stop - run->start;
    long r;
    int tries = 0;

    do {
        r = SYS6(b->patcher->host.sys, SYS_mremap, from, size, size,
                 MREMAP_MAYMOVE | MREMAP_FIXED, run->start, 0);
    } while (sys_failed(r) && ++tries < 3);
    return sys_failed(r) ? (int)r : 0;
}

/* Moves the runs [0, n), all or none; *done is the number of moved ones. */
static int move_all(struct mvld_batch *b, size_t n, int back, size_t *done)
{
    int r = prepare(b, n, back);

    *done = 0;
    while (r == 0 && *done < n) {
        r = move(b, &b->runs[*done]);
        *done += r == 0;
    }
    drop_asides(b, *done);
    return r;
}

/* A run costs two mappings permanently, of which a process may have 65530, and two rounds of interrupts to
 * other CPUs; a page between two patched ones costs a part of a fault when it is next executed, and its copy if
 * it is not the file's.  So near patches share a run, and if they are many, far ones, too. */
static int stretches(struct mvld_batch *b)
{
    static const struct {
        size_t gap, most;
    } tries[] = {{PATCH_GAP, 2048}, {128 * RIMF_PAGE, 8192}};
    int r = 0;

    for (size_t i = 0; r == 0 && i < RIMF_COUNT(tries); i++) {
        r = patch_runs(b, tries[i].gap);
        if (r || b->n_runs <= tries[i].most)
            return r;
    }
    return r ? r : -ENOMEM;
}

/* ---- undoing */

/* A move needs up to six mappings for a moment, of which a process may have 65530.  A batch that meets that
 * limit half-way can be undone since so many are in reserve: pages that differ from their neighbours. */
#define RESERVE (16 * RIMF_PAGE)

static int reserve(struct rimf_patcher *p)
{
    const struct rimf_sys *sys = p->host.sys;
    long r, error = 0;

    if (p->reserve)
        return 0;
    r = sys_mmap(sys, 0, RESERVE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (sys_failed(r))
        return (int)r;
    for (uintptr_t at = RIMF_PAGE; at < RESERVE && !error; at += 2 * RIMF_PAGE)
        error = sys_mprotect(sys, (uintptr_t)r + at, RIMF_PAGE, PROT_READ);
    p->reserve = (uintptr_t)r;
    if (error)
        patch_reserve_release(p);
    return (int)error;
}

void patch_reserve_release(struct rimf_patcher *p)
{
    if (p->reserve)
        sys_munmap(p->host.sys, p->reserve, RESERVE);
    p->reserve = 0;
}

/* Moves old bytes over the runs [0, n), one by one, so that mappings in reserve suffice. */
static int move_back(struct mvld_batch *b, size_t n)
{
    struct patch_run *runs = b->runs;
    int first = 0;

    patch_reserve_release(b->patcher);
    for (size_t done; n--; b->runs++) {
        int r = move_all(b, 1, 1, &done);

        first = first ? first : r;
    }
    b->runs = runs;
    return first;
}

static int apply(struct mvld_batch *b)
{
    size_t done;
    int r = stretches(b);

    if (!r && b->n_runs > 1)
        r = reserve(b->patcher);
    if (r)
        return r;
    r = move_all(b, b->n_runs, 0, &done);
    if (r && done && move_back(b, done) && patch_mem_back(b))
        return patch_finish(b, r);
    /* The moves have reached every CPU; this also empties their pipelines. */
    if (!b->patcher->alone)
        patch_sync_cores(b->patcher);
    return r;
}

int patch_remap_runs(struct mvld_batch *b, size_t n, int back)
{
    size_t done;

    return move_all(b, n, back, &done);
}

const struct patch_method patch_method_remap = {"remap", apply};
