/* SPDX-License-Identifier: MIT
 *
 * rimf/patch/batch.c: a batch while patches are added, its memory, and its results.  patch/verify.c tells
 * whether the patches may be applied.
 */
#include "rimf/patch/private.h"

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

int patch_longer(const struct rimf_patch_host *host, void *array, size_t n, size_t size, size_t *capacity)
{
    size_t more = *capacity ? *capacity * 4 : 64;
    void *old, *longer;

    if (n < *capacity)
        return 0;
    longer = more > SIZE_MAX / 4 / size ? NULL : host->alloc(host->cookie, more * size);
    if (!longer)
        return -ENOMEM;
    memcpy(&old, array, sizeof old);
    if (n)
        memcpy(longer, old, n * size);
    host->release(host->cookie, old);
    memcpy(array, &longer, sizeof longer);
    *capacity = more;
    return 0;
}

void patch_release(const struct rimf_patch_host *host, struct mvld_batch *b)
{
    if (!b)
        return;
    host->release(host->cookie, b->regions);
    host->release(host->cookie, b->runs);
    host->release(host->cookie, b->patches);
    host->release(host->cookie, b->words);
    host->release(host->cookie, b);
}

struct mvld_batch *rimf_patcher_begin(struct rimf_patcher *p)
{
    struct mvld_batch *b = __atomic_exchange_n(&p->spare, NULL, __ATOMIC_ACQUIRE);

    if (!b)
        b = p->host.alloc(p->host.cookie, sizeof(*b));
    if (!b)
        return NULL;
    b->patcher = p;
    b->ascending = 1;
    b->unentered = b->all_copies = 0;
    b->n = b->n_regions = b->n_runs = b->n_words = 0;
    b->last = 0;
    return b;
}

/* A function of its own, so that the usual addition saves no registers. */
static __attribute__((noinline)) int add_growing(struct mvld_batch *b, uintptr_t address,
                                                 const void *expect, const void *replace,
                                                 size_t length)
{
    int r = patch_longer(&b->patcher->host, &b->patches, b->n, sizeof(*b->patches), &b->capacity);

    return r ? r : rimf_patch_add(b, address, expect, replace, length);
}

int rimf_patch_add(struct mvld_batch *b, uintptr_t address, const void *expect,
                   const void *replace, size_t length)
{
    struct mvld_patch *patch;

    if (!b || !expect || !replace || length - 1 >= MVLD_PATCH_MAX ||
        address > UINTPTR_MAX - length || b->n == UINT32_MAX)
        return -EINVAL;
    if (b->n == b->capacity)
        return add_growing(b, address, expect, replace, length);
    patch = &b->patches[b->n++];
    if (address < b->last)
        b->ascending = 0;
    b->last = address;
    patch->address = address;
    patch->length = (uint8_t)length;
    patch_copy(patch->expect, expect, length);
    patch_copy(patch->replace, replace, length);
    patch->result = 0;
    return 0;
}

void rimf_patch_unentered(struct mvld_batch *b)
{
    b->unentered = 1;
}

void rimf_patch_all_copies(struct mvld_batch *b)
{
    b->all_copies = 1;
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
    struct rimf_patcher *p;

    if (!b)
        return;
    p = b->patcher;
    host = &p->host;
    if (b->order)
        host->release(host->cookie, b->order);
    b->order = NULL;
    if (b->capacity <= SPARE_MAX)
        b = __atomic_exchange_n(&p->spare, b, __ATOMIC_ACQ_REL);
    patch_release(host, b);
}
