/* SPDX-License-Identifier: MIT
 *
 * rimf/patch.c: batches: gather, verify, apply.
 *
 *   add … add ──► commit: lock, signals off
 *                   order      by address
 *                   verify     segment, mapping, overlap, old bytes: refuse or keep
 *                   apply      the first method that can
 *                 unlock, signals back
 *
 * Verification only reads, and it looks at the mapping before it reads the code.
 * Methods see patches in ascending order and leave out those with a result.
 */
#include "patch_private.h"

#define SPARE_MAX (1u << 16) /* patches whose memory is kept for the next batch */

void patch_say(const struct rimf_patcher *p, int err, const char *format, ...)
{
    va_list arguments;

    if (!p->host.say)
        return;
    va_start(arguments, format);
    p->host.say(p->host.cookie, err, format, arguments);
    va_end(arguments);
}

/* ---- patcher ---- */

struct rimf_patcher *rimf_patcher_create(const struct rimf_patch_host *host)
{
    struct rimf_patcher *p = host->alloc(host->cookie, sizeof(*p));

    if (!p)
        return NULL;
    p->host = *host;
    p->maps.fd = -1;
    p->word_ok = patch_one_store();
    return p;
}

void rimf_patcher_destroy(struct rimf_patcher *p)
{
    struct rimf_patch_host host;

    if (!p)
        return;
    host = p->host;
    if (p->scratch)
        sys_munmap(host.sys, p->scratch, RIMF_PAGE);
    host.release(host.cookie, p->spare);
    host.release(host.cookie, p);
}

/* The forking thread keeps its signals: a handler that commits is told -EDEADLK.
 * A fork by the thread that holds the lock already takes nothing. */
void rimf_patcher_fork_prepare(struct rimf_patcher *p)
{
    int r = rimf_lock_acquire(p->host.sys, p->host.lock);

    if (r == RIMF_LOCK_INHERITED)
        patch_adopt();
    if (r >= 0)
        p->forking = 1;
}

void rimf_patcher_fork_parent(struct rimf_patcher *p)
{
    if (!p->forking)
        return;
    p->forking = 0;
    rimf_lock_release(p->host.sys, p->host.lock);
}

/* Nobody else is here: those that waited in the parent do not exist. */
void rimf_patcher_fork_child(struct rimf_patcher *p)
{
    if (!p->forking)
        return;
    p->forking = 0;
    __atomic_store_n(&p->host.lock->word, 0, __ATOMIC_RELEASE);
}

/* In the order in which they are tried. */
static const struct patch_method *const methods[] = {
    &patch_method_mprotect, /* gives way when threads run */
    &patch_method_remap,
    &patch_method_selfmem,
};

/* May this process use it at all? */
static int allowed(struct rimf_patcher *p, const struct patch_method *method)
{
    int r;

    if (method == &patch_method_mprotect)
        return patch_mprotect_allowed(p);
    if (method == &patch_method_remap && patch_mprotect_allowed(p) == 0)
        return 0;
    if (method == &patch_method_word && !p->word_ok)
        return -EPERM;
    r = patch_mem_open(p);
    if (r == 0)
        patch_mem_close(p);
    return r;
}

int rimf_patcher_set_method(struct rimf_patcher *p, const char *name)
{
    const struct patch_method *found = NULL;
    int r;

    if (!name)
        return -EINVAL;
    for (size_t i = 0; i < RIMF_COUNT(methods); i++) {
        if (rimf_streq(methods[i]->name, name))
            found = methods[i];
    }
    if (rimf_streq(name, "word"))
        found = &patch_method_word;
    if (!found && !rimf_streq(name, "auto"))
        return -EINVAL;
    r = rimf_lock_acquire(p->host.sys, p->host.lock);
    if (r < 0)
        return r;
    r = found && allowed(p, found) ? -EPERM : 0;
    if (r)
        patch_say(p, r, "patch method %s cannot be used in this process", name);
    else
        p->forced = found;
    rimf_lock_release(p->host.sys, p->host.lock);
    return r;
}

/* ---- gather ---- */

/* A longer array with the same head, or NULL.  The old one is released. */
static void *longer(const struct rimf_patch_host *host, void *old, size_t n, size_t size,
                    size_t *capacity)
{
    size_t more = *capacity ? *capacity * 4 : 64;
    void *array;

    if (more > SIZE_MAX / 4 / size)
        return NULL;
    array = host->alloc(host->cookie, more * size);
    if (!array)
        return NULL;
    if (n)
        memcpy(array, old, n * size);
    host->release(host->cookie, old);
    *capacity = more;
    return array;
}

struct mvld_batch *rimf_patcher_begin(struct rimf_patcher *p)
{
    struct mvld_batch *b = p->host.alloc(p->host.cookie, sizeof(*b));

    if (!b)
        return NULL;
    b->patcher = p;
    b->ascending = 1;
    b->patches = __atomic_exchange_n(&p->spare, NULL, __ATOMIC_ACQUIRE);
    if (b->patches)
        b->capacity = b->patches[0].address; /* left there by rimf_patch_end */
    return b;
}

int rimf_patch_add(struct mvld_batch *b, uintptr_t address, const void *expect,
                   const void *replace, size_t length)
{
    struct mvld_patch *patch;

    if (!b || !expect || !replace || length == 0 || length > MVLD_PATCH_MAX ||
        address > UINTPTR_MAX - length || b->n == UINT32_MAX)
        return -EINVAL;
    if (b->n == b->capacity) {
        void *array = longer(&b->patcher->host, b->patches, b->n, sizeof(*patch), &b->capacity);
        if (!array)
            return -ENOMEM;
        b->patches = array;
    }
    patch = &b->patches[b->n];
    if (b->n && patch[-1].address > address)
        b->ascending = 0;
    patch->address = address;
    patch->length = (uint8_t)length;
    patch_copy(patch->expect, expect, length);
    patch_copy(patch->replace, replace, length);
    patch->result = 0;
    b->n++;
    return 0;
}

size_t rimf_patch_count(const struct mvld_batch *b)
{
    return b ? b->n : 0;
}

const struct mvld_patch *rimf_patch_at(const struct mvld_batch *b, size_t index)
{
    return b && index < b->n ? &b->patches[index] : NULL;
}

void rimf_patch_end(struct mvld_batch *b)
{
    const struct rimf_patch_host *host;

    if (!b)
        return;
    host = &b->patcher->host;
    host->release(host->cookie, b->order);
    host->release(host->cookie, b->regions);
    host->release(host->cookie, b->runs);
    if (b->capacity && b->capacity <= SPARE_MAX) {
        b->patches[0].address = b->capacity;
        b->patches = __atomic_exchange_n(&b->patcher->spare, b->patches, __ATOMIC_ACQ_REL);
    }
    host->release(host->cookie, b->patches);
    host->release(host->cookie, b);
}

/* ---- order ---- */

/* Merge sort, stable: equal addresses stay as added. */
static void sort(const struct mvld_patch *patches, uint32_t *a, uint32_t *b, size_t n)
{
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t low = 0; low < n; low += 2 * width) {
            size_t middle = low + width < n ? low + width : n;
            size_t high = low + 2 * width < n ? low + 2 * width : n;
            size_t i = low, j = middle;
            for (size_t k = low; k < high; k++) {
                int left = i < middle &&
                           (j == high || patches[a[i]].address <= patches[a[j]].address);
                b[k] = left ? a[i++] : a[j++];
            }
        }
        memcpy(a, b, n * sizeof(*a));
    }
}

static int order(struct mvld_batch *b)
{
    const struct rimf_patch_host *host = &b->patcher->host;

    host->release(host->cookie, b->order);
    b->order = NULL;
    if (b->ascending)
        return 0;
    b->order = host->alloc(host->cookie, 2 * b->n * sizeof(*b->order));
    if (!b->order)
        return -ENOMEM;
    for (size_t i = 0; i < b->n; i++)
        b->order[i] = (uint32_t)i;
    sort(b->patches, b->order, b->order + b->n, b->n);
    return 0;
}

/* ---- verify ---- */

static int changeable(const struct patch_vma *v)
{
    return v->prot == PATCH_RX && !v->shared;
}

/* Lets the last region grow up to `until` over the mappings that follow it, or
 * stops at the first that may not be changed. */
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

/* Makes the last region one that holds [start, end), if that may be changed. */
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
    if (b->n_regions == b->regions_capacity) {
        void *array = longer(&b->patcher->host, b->regions, b->n_regions, sizeof(*region),
                             &b->regions_capacity);
        if (!array)
            return -ENOMEM;
        b->regions = array;
    }
    region = &b->regions[b->n_regions++];
    *region = (struct patch_region){.start = v.start, .end = v.end, .offset = v.offset,
                                    .device = v.device, .inode = v.inode,
                                    .page_size = v.page_size};
    grow(b, end);
    return end <= region->end ? 0 : -EFAULT;
}

static int holds(const struct mvld_patch *patch, const uint8_t *bytes)
{
    __asm__ volatile("" : : : "memory"); /* methods write behind the compiler's back */
    return patch_same((const void *)patch->address, bytes, patch->length);
}

static int verify_one(struct mvld_batch *b, const struct mvld_patch *patch,
                      struct mvld_segment *segment)
{
    const struct rimf_patch_host *host = &b->patcher->host;
    uintptr_t end = patch->address + patch->length;
    int r;

    if (patch->address < segment->start || patch->address >= segment->end) {
        if (host->segment(host->cookie, patch->address, segment)) {
            segment->start = segment->end = 0;
            return -EFAULT;
        }
    }
    if (end > segment->end || (segment->prot & (PROT_WRITE | PROT_EXEC)) != PROT_EXEC)
        return -EFAULT;
    if (!b->n_regions || end > b->regions[b->n_regions - 1].end ||
        patch->address < b->regions[b->n_regions - 1].start) {
        r = map(b, patch->address, end);
        if (r)
            return r;
    }
    return holds(patch, patch->expect) ? 0 : -ESTALE;
}

static size_t verify(struct mvld_batch *b)
{
    struct mvld_segment segment = {0, 0, 0};
    struct mvld_patch *furthest = NULL; /* of those before, the one that ends last */
    uintptr_t taken = 0;                /* its end */
    size_t refused = 0;
    int any = 0;

    b->n_regions = 0;
    for (size_t i = 0; i < b->n; i++) {
        struct mvld_patch *patch = patch_nth(b, i);
        patch->result = verify_one(b, patch, &segment);
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
    for (size_t i = 0; any && i < b->n; i++) {
        const struct mvld_patch *patch = patch_nth(b, i);
        if (patch->result == 0)
            continue;
        patch_say(b->patcher, 0, "%u bytes at %lx refused: %s", patch->length, patch->address,
                  patch->result == -ESTALE   ? "other bytes than expected"
                  : patch->result == -EEXIST ? "overlaps another patch of the batch"
                  : patch->result == -ENOMEM ? "out of memory"
                                             : "not private executable memory of an object");
        refused++;
    }
    return refused;
}

/* The pages of a patch.  Mappings of hugetlbfs can only be changed by whole pages
 * of theirs. */
static void pages_of(const struct patch_region *region, const struct mvld_patch *patch,
                     uintptr_t *start, uintptr_t *stop)
{
    uintptr_t page = region->page_size > RIMF_PAGE ? region->page_size : RIMF_PAGE;

    *start = patch->address & ~(page - 1);
    *stop = (patch->address + patch->length + page - 1) & ~(page - 1);
    *start = *start < region->start ? region->start : *start;
    *stop = *stop > region->end ? region->end : *stop;
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
            run->end = i + 1;
            continue;
        }
        if (b->n_runs == b->runs_capacity) {
            void *array = longer(&b->patcher->host, b->runs, b->n_runs, sizeof(*run),
                                 &b->runs_capacity);
            if (!array)
                return -ENOMEM;
            b->runs = array;
        }
        run = &b->runs[b->n_runs++];
        *run = (struct patch_run){start, stop, i, i + 1, region};
    }
    return 0;
}

/* ---- apply ---- */

static int fail_all(struct mvld_batch *b, int err)
{
    for (size_t i = 0; i < b->n; i++) {
        if (b->patches[i].result == 0)
            b->patches[i].result = err;
    }
    return err;
}

int patch_settle(struct mvld_batch *b, int err)
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

/* While others run, patches under which somebody may stand are refused.
 * How many are left? */
static size_t refuse_unsafe(struct mvld_batch *b)
{
    size_t left = 0;

    for (size_t i = 0; i < b->n; i++) {
        struct mvld_patch *patch = &b->patches[i];
        if (patch->result == 0 && !patch_one_instruction(patch->expect, patch->length)) {
            patch->result = -EDEADLK;
            patch_say(b->patcher, 0, "%u bytes at %lx refused: threads run, and the old bytes are "
                      "not a single instruction", patch->length, patch->address);
        }
        left += patch->result == 0;
    }
    return left;
}

/* The first method that can.  One that cannot has changed nothing. */
static int apply(struct mvld_batch *b, const char **name)
{
    struct rimf_patcher *p = b->patcher;
    int first = 0, r = p->forced ? p->forced->apply(b) : -EBUSY;

    *name = p->forced ? p->forced->name : NULL;
    for (size_t i = 0; r < 0 && i < RIMF_COUNT(methods); i++) {
        if (methods[i] == p->forced)
            continue;
        if (r != -EBUSY && !first)
            first = r;
        *name = methods[i]->name;
        r = methods[i]->apply(b);
    }
    if (r < 0) {
        r = first ? first : r;
        patch_say(p, r, "no way to change the code of this process");
    }
    return r;
}

static int commit(struct mvld_batch *b, const char **method)
{
    struct rimf_patcher *p = b->patcher;
    size_t refused;
    int r = order(b);

    if (r)
        return fail_all(b, r);
    r = patch_maps_open(&p->maps, p->host.sys);
    if (r) {
        patch_say(p, -EPERM, "cannot read /proc/self/maps: no code is changed");
        return fail_all(b, r == -ENOMEM ? r : -EPERM);
    }
    refused = verify(b);
    patch_maps_close(&p->maps);
    if (refused == b->n)
        return patch_nth(b, 0)->result;
    p->alone = patch_alone(p->host.sys);
    if (!p->alone && refuse_unsafe(b) == 0)
        return -EDEADLK;
    r = apply(b, method);
    return r < 0 ? fail_all(b, r) : 0;
}

int rimf_patch_commit(struct mvld_batch *b, struct mvld_patch_report *report)
{
    const char *method = "none";
    const struct rimf_sys *sys;
    uint64_t signals;
    size_t applied = 0;
    int r;

    if (!b)
        return -EINVAL;
    sys = b->patcher->host.sys;
    r = patch_signals_off(sys, &signals);
    if (r == 0) {
        r = rimf_lock_acquire(sys, b->patcher->host.lock);
        if (r >= 0) {
            if (r == RIMF_LOCK_INHERITED)
                patch_adopt();
            r = b->n ? commit(b, &method) : 0;
            rimf_lock_release(sys, b->patcher->host.lock);
        } else {
            fail_all(b, r);
        }
        patch_signals_back(sys, &signals);
    }
    if (!report)
        return r;
    for (size_t i = 0; r == 0 && i < b->n; i++)
        applied += b->patches[i].result == 0;
    if (r == 0 && b->n)
        patch_say(b->patcher, 0, "%zu changes by %s, %zu refused", applied, method,
                  b->n - applied);
    *report = (struct mvld_patch_report){applied, b->n - applied, method};
    return r;
}
