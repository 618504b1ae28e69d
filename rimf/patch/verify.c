/* SPDX-License-Identifier: MIT
 *
 * rimf/patch/verify.c: decides which patches of a batch may be applied, and which pages they touch.
 *
 * In order of address, so that overlaps are neighbours, and mappings are queried once, in one sweep.  The
 * mapping is checked before the code is read.
 */
#include "rimf/patch/private.h"

#include "rimf/base/base.h"

/* ---- order ---- */

int patch_order(struct mvld_batch *b)
{
    const struct rimf_patch_host *host = &b->patcher->host;

    if (b->order)
        host->release(host->cookie, b->order);
    b->order = NULL;
    if (b->ascending)
        return 0;
    b->order = host->alloc(host->cookie, b->n * sizeof(*b->order));
    if (!b->order)
        return -ENOMEM;
    for (size_t i = 0; i < b->n; i++)
        b->order[i] = (struct patch_order){b->patches[i].address, i};
    rimf_sort(b->order, b->n, sizeof(*b->order));
    return 0;
}

/* ---- verify ---- */

static int changeable(const struct patch_vma *v)
{
    return v->prot == PATCH_RX && !v->shared;
}

/* Extends the last region up to `until` over the mappings that follow it, or to the first that may not be
 * changed. */
static void grow(struct mvld_batch *b, uintptr_t until)
{
    struct patch_region *region = &b->regions[b->n_regions - 1];
    struct patch_vma v;

    while (region->end < until &&
           patch_maps_find(&b->patcher->maps, region->end, &v, NULL, 0) == 0 && changeable(&v)) {
        if (v.device != region->device || v.inode != region->inode ||
            v.offset != region->offset + (region->end - region->start))
            region->inode = 0;
        if (v.page_size > region->page_size)
            region->page_size = v.page_size;
        region->end = v.end;
    }
}

/* Makes the last region one that contains [start, end), if that may be changed. */
static int map(struct mvld_batch *b, uintptr_t start, uintptr_t end)
{
    struct patch_region *region;
    struct patch_vma v;
    int r;

    if (b->n_regions) {
        region = &b->regions[b->n_regions - 1];
        if (end > region->end)
            grow(b, end);
        if (start < region->end)
            return end <= region->end ? 0 : -EFAULT;
    }
    r = patch_maps_find(&b->patcher->maps, start, &v, NULL, 0);
    if (r || !changeable(&v))
        return -EFAULT;
    r = patch_longer(&b->patcher->host, &b->regions, b->n_regions, sizeof(*region), &b->regions_capacity);
    if (r)
        return r;
    region = &b->regions[b->n_regions++];
    *region = (struct patch_region){.start = v.start, .end = v.end, .offset = v.offset,
                                    .device = v.device, .inode = v.inode,
                                    .page_size = v.page_size};
    grow(b, end);
    return end <= region->end ? 0 : -EFAULT;
}

/* Whether the memory at the patch has these bytes. */
static int holds(const struct mvld_patch *patch, const uint8_t *bytes)
{
    __asm__ volatile("" : : : "memory"); /* methods write behind the compiler's back */
    return patch_same((const void *)patch->address, bytes, patch->length);
}

int patch_finish(struct mvld_batch *b, int err)
{
    for (size_t i = 0; i < b->n; i++) {
        struct mvld_patch *patch = &b->patches[i];
        if (patch->result == 0 && !holds(patch, patch->replace))
            patch->result = err;
    }
    patch_say(b->patcher, err, "a batch failed half-way and could not be undone: "
              "part of its patches are in force");
    return 1;
}

/* Records for later patches: [start, end) is executable code of one segment and may be changed. */
static void remember(const struct mvld_batch *b, const struct mvld_segment *segment,
                     struct patch_span *known)
{
    const struct patch_region *region = b->n_regions ? &b->regions[b->n_regions - 1] : NULL;

    *known = (struct patch_span){0, 0};
    if (!region || (segment->prot & (PROT_WRITE | PROT_EXEC)) != PROT_EXEC)
        return;
    known->start = segment->start > region->start ? segment->start : region->start;
    known->end = segment->end < region->end ? segment->end : region->end;
}

static int place(struct mvld_batch *b, uintptr_t start, uintptr_t end,
                 struct mvld_segment *segment)
{
    const struct rimf_patch_host *host = &b->patcher->host;

    if (start < segment->start || start >= segment->end) {
        if (host->segment(host->cookie, start, segment)) {
            segment->start = segment->end = 0;
            return -EFAULT;
        }
    }
    if (end > segment->end || (segment->prot & (PROT_WRITE | PROT_EXEC)) != PROT_EXEC)
        return -EFAULT;
    if (!b->n_regions || end > b->regions[b->n_regions - 1].end ||
        start < b->regions[b->n_regions - 1].start)
        return map(b, start, end);
    return 0;
}

int patch_place(struct mvld_batch *b, uintptr_t start, uintptr_t end,
                struct mvld_segment *segment, struct patch_span *known)
{
    int r = place(b, start, end, segment);

    remember(b, segment, known);
    return r;
}

/* A lack of memory, or of answers from the kernel, is not the fault of the patch that met it: then none may
 * be applied, because that would apply half of a change.  0: nothing of that kind. */
static int undecided(struct mvld_batch *b)
{
    int err = b->patcher->maps.unread ? -EPERM : 0;

    for (size_t i = 0; !err && i < b->n; i++)
        err = b->patches[i].result == -ENOMEM ? -ENOMEM : 0;
    for (size_t i = 0; err && i < b->n; i++)
        b->patches[i].result = err;
    if (err)
        patch_say(b->patcher, err, err == -ENOMEM ? "out of memory: no code is changed"
                                                  : "cannot read /proc/self/maps: no code is changed");
    return err;
}

/* Returns 1 if a patch of the batch changes exactly these bytes. */
static int is_patched(const struct mvld_batch *b, uintptr_t address, size_t length)
{
    size_t begun = RIMF_BISECT(i, b->n, patch_nth(b, i)->address <= address);

    return begun && patch_nth(b, begun - 1)->address == address && patch_nth(b, begun - 1)->length == length;
}

/* A change of the original alone would be reported as done, although only the copy runs. */
static int refuse_copied(struct mvld_batch *b)
{
    const struct rimf_patch_host *host = &b->patcher->host;
    int any = 0;

    for (size_t i = 0; b->all_copies && host->copy && i < b->n_added; i++) {
        struct mvld_patch *patch = &b->patches[i];
        uintptr_t copy = patch->result ? 0 : host->copy(host->cookie, patch->address, patch->length);

        if (!copy || is_patched(b, copy, patch->length))
            continue;
        patch->result = any = -EXDEV;
        patch_say(b->patcher, any, "%u bytes at %lx: the code moved, and runs at %lx: it is to be changed there, too "
                  "(moved_find)", patch->length, patch->address, copy);
    }
    return any;
}

size_t patch_verify(struct mvld_batch *b)
{
    struct mvld_segment segment = {0, 0, 0};
    struct patch_span known = {0, 0};
    struct mvld_patch *furthest = NULL; /* of the previous patches, the one that ends last */
    uintptr_t taken = 0;                /* its end */
    size_t refused = 0;
    int any = 0;

    b->n_regions = 0;
    for (size_t i = 0; i < b->n; i++) {
        struct mvld_patch *patch = patch_nth(b, i);
        if (patch->address >= known.start && patch->address + patch->length <= known.end) {
            patch->result = patch_same((const void *)patch->address, patch->expect,
                                       patch->length) ? 0 : -ESTALE;
        } else {
            patch->result = patch_place(b, patch->address, patch->address + patch->length,
                                        &segment, &known);
            if (patch->result == 0 && !holds(patch, patch->expect))
                patch->result = -ESTALE;
        }
        if (taken > patch->address) {
            furthest->result = furthest->result ? furthest->result : -EEXIST;
            patch->result = patch->result ? patch->result : -EEXIST;
        }
        any |= patch->result;
        if (taken < patch->address + patch->length) {
            furthest = patch;
            taken = patch->address + patch->length;
        }
    }
    if (any && undecided(b))
        return b->n;
    any |= refuse_copied(b);
    for (size_t i = 0; any && i < b->n; i++) {
        const struct mvld_patch *patch = patch_nth(b, i);
        if (patch->result == 0)
            continue;
        patch_say(b->patcher, 0, "%u bytes at %lx refused: %s", patch->length, patch->address,
                  patch->result == -ESTALE   ? "other bytes than expected"
                  : patch->result == -EEXIST ? "overlaps another patch of the batch"
                  : patch->result == -EXDEV  ? "the code runs elsewhere, too"
                                             : "not private executable memory of an object");
        refused++;
    }
    return refused;
}

/* The pages of a patch.  Mappings of hugetlbfs can be changed only by whole huge pages. */
static void pages_of(const struct patch_region *region, const struct mvld_patch *patch,
                     uintptr_t *start, uintptr_t *stop)
{
    uintptr_t page = region->page_size > RIMF_PAGE ? region->page_size : RIMF_PAGE;

    *start = patch->address & ~(page - 1);
    *stop = (patch->address + patch->length + page - 1) & ~(page - 1);
    *start = *start < region->start ? region->start : *start;
    *stop = *stop > region->end ? region->end : *stop;
}

/* The last patch from the i-th on before the first that is not wholly before `stop`.  Most patches share
 * their pages with the previous one. */
static size_t last_before(const struct mvld_batch *b, size_t i, uintptr_t stop)
{
    while (i + 1 < b->n) {
        const struct mvld_patch *next = patch_nth(b, i + 1);
        if (next->address + next->length > stop)
            break;
        i++;
    }
    return i;
}

struct patch_run *patch_run_add(struct mvld_batch *b)
{
    int r = patch_longer(&b->patcher->host, &b->runs, b->n_runs, sizeof(*b->runs), &b->runs_capacity);

    return r ? NULL : &b->runs[b->n_runs++];
}

int patch_runs(struct mvld_batch *b, uintptr_t gap)
{
    struct patch_run *run = NULL;
    size_t region = 0;

    b->n_runs = 0;
    for (size_t i = 0; i < b->n; i++) {
        const struct mvld_patch *patch = patch_nth(b, i);
        uintptr_t start, stop;
        if (patch->result)
            continue;
        while (b->regions[region].end <= patch->address)
            region++;
        pages_of(&b->regions[region], patch, &start, &stop);
        if (run && run->region == region && start <= run->stop + gap) {
            run->stop = stop;
            i = last_before(b, i, stop);
            run->end = i + 1;
            continue;
        }
        run = patch_run_add(b);
        if (!run)
            return -ENOMEM;
        *run = (struct patch_run){start, stop, i, i + 1, region};
        i = last_before(b, i, stop);
        run->end = i + 1;
    }
    return 0;
}
