/* SPDX-License-Identifier: MIT
 *
 * rimf/patch/words.c: thousands of patches, without a copy of each.
 *
 * A caller that changes the same sites repeatedly already has them in arrays: addresses, present and wanted
 * bytes.  A batch uses these arrays directly.  If nothing else runs, three sweeps remain, with at most a
 * dozen instructions a site in each:
 *
 *     the caller    fills `replace`
 *     verify        inside what may be changed?  ascending?  the old bytes?  which pages?
 *     window        writes (patch/mprotect.c)
 *
 * This is the usual case, in which every patch verifies and one protection change suffices.  In any other
 * case (a byte that differs, a breakpoint, threads, another method, special pages) the words become
 * ordinary patches, each of which is checked, refused or applied alone.
 *
 * A caller that knows the places before reading them has them changed in the window itself
 * (rimf_patch_add_writer).  A page of a file costs a fault when it is read and another when it is written;
 * populated together and written at once, it costs two thirds of these (1.6 us, compared with 2.5 in the
 * measured virtual machine).  Each later change of its protection costs a tenth of a microsecond: so it is
 * read, checked and written between one pair of these.
 */
#include "rimf/patch/private.h"

static int add_group(struct mvld_batch *b, const struct patch_words *group)
{
    int r;

    if (!b || !group->words || group->base > UINTPTR_MAX - 2 * (uintptr_t)UINT32_MAX ||
        group->n > UINT32_MAX)
        return -EINVAL;
    r = patch_longer(&b->patcher->host, &b->words, b->n_words, sizeof(*b->words), &b->words_capacity);
    if (r)
        return r;
    b->words[b->n_words++] = *group;
    return 0;
}

int rimf_patch_add_words(struct mvld_batch *b, uintptr_t base, const struct mvld_word *words,
                         const uint64_t *expect, const uint64_t *replace, size_t n)
{
    const struct patch_words group = {
        .base = base, .words = words, .expect = expect, .replace = replace, .n = n};

    return expect && replace ? add_group(b, &group) : -EINVAL;
}

int rimf_patch_add_writer(struct mvld_batch *b, uintptr_t base, const struct mvld_word *words,
                          size_t n, void (*write)(void *cookie, uintptr_t end), void *cookie)
{
    const struct patch_words group = {
        .base = base, .words = words, .n = n, .write = write, .cookie = cookie};

    return write ? add_group(b, &group) : -EINVAL;
}

/* Makes a patch of the i-th word, or of it and its joined one. */
static int expand(struct mvld_batch *b, const struct patch_words *group, size_t i, size_t n)
{
    uint8_t expect[MVLD_PATCH_MAX], replace[MVLD_PATCH_MAX];
    size_t length = 0, end = i + n;
    uintptr_t at = group->base + group->words[i].offset;
    int differs = 0;

    for (; i < end; i++) {
        const struct mvld_word *word = &group->words[i];

        if (word->length < 4 || word->length > 8 || group->base + word->offset != at + length)
            return -EINVAL;
        memcpy(expect + length, &group->expect[i], word->length);
        memcpy(replace + length, &group->replace[i], word->length);
        length += word->length;
        differs |= group->expect[i] != group->replace[i];
    }
    return differs ? rimf_patch_add(b, at, expect, replace, length) : 0;
}

int patch_words_expand(struct mvld_batch *b)
{
    for (size_t g = 0; g < b->n_words; g++) {
        const struct patch_words *group = &b->words[g];
        for (size_t i = 0, n; group->expect && i < group->n; i += n) {
            int r;
            n = group->words[i].joined && i + 1 < group->n ? 2 : 1;
            r = expand(b, group, i, n);
            if (r)
                return r;
        }
    }
    b->n_words = 0;
    return 0;
}

/* State of the sweep. */
struct sweep {
    struct mvld_segment segment;
    struct patch_span known; /* may be changed */
    uintptr_t taken;         /* end of the previous patch */
    uintptr_t stop;          /* end of the pages of the last run */
    size_t n;                /* patches that change something */
};

/* Adds the pages of the patch at [start, end) to the last run, or a new one, and queries its mapping if it
 * is another.  0: use the other method. */
static __attribute__((noinline)) int step(struct mvld_batch *b, struct sweep *s, uintptr_t start,
                                          uintptr_t end)
{
    struct patch_run *run = b->n_runs ? &b->runs[b->n_runs - 1] : NULL;
    uintptr_t page = start & ~(RIMF_PAGE - 1);

    if ((start < s->known.start || end > s->known.end) &&
        patch_place(b, start, end, &s->segment, &s->known))
        return 0;
    if (b->regions[b->n_regions - 1].page_size > RIMF_PAGE)
        return 0;
    s->stop = (end + RIMF_PAGE - 1) & ~(RIMF_PAGE - 1);
    if (run && run->region == b->n_regions - 1 && page <= run->stop + PATCH_GAP) {
        run->stop = s->stop;
        return 1;
    }
    run = patch_run_add(b);
    if (!run)
        return 0;
    /* No patches: the copies get the present content of the pages. */
    *run = (struct patch_run){page, s->stop, 0, 0, b->n_regions - 1};
    return 1;
}

/* Returns 1 if every patch of the group verifies. */
static int sweep(struct mvld_batch *b, struct sweep *s, const struct patch_words *group)
{
    const uint64_t *expect = group->expect, *replace = group->replace;
    const struct mvld_word *words = group->words;
    const uintptr_t base = group->base;
    uintptr_t taken = s->taken, limit = 0; /* no new pages up to here */
    size_t n = 0;

    for (size_t i = 0; i < group->n; i++) {
        uint64_t old = expect[i];
        unsigned length = words[i].length;
        uintptr_t at = base + words[i].offset, end = at + length;
        if (old == replace[i])
            continue;
        if (at < taken || length - 4 > 4)
            return 0;
        if (end > limit) {
            if (!step(b, s, at, end))
                return 0;
            limit = s->stop < s->known.end ? s->stop : s->known.end;
        }
        if (patch_load4(at) != (uint32_t)old ||
            patch_load4(end - 4) != (uint32_t)(old >> 8 * (length - 4)))
            return 0;
        taken = end;
        n++;
    }
    s->taken = taken;
    s->n += n;
    return 1;
}

/* Returns 1 if all of it may be changed. */
static int sweep_pages(struct mvld_batch *b, struct sweep *s, const struct patch_words *group)
{
    uintptr_t limit = 0;

    for (size_t i = 0; i < group->n; i++) {
        uintptr_t at = group->base + group->words[i].offset, end = at + group->words[i].length;
        if (at < s->taken || (end > limit && !step(b, s, at, end)))
            return 0;
        limit = s->stop < s->known.end ? s->stop : s->known.end;
        s->taken = end;
    }
    return 1;
}

int patch_words_verify(struct mvld_batch *b, size_t *n)
{
    struct rimf_patcher *p = b->patcher;
    struct sweep s = {.n = 0};

    if (b->n || (p->forced && p->forced != &patch_method_mprotect))
        return -EBUSY;
    b->n_regions = b->n_runs = 0;
    __asm__ volatile("" : : : "memory"); /* methods write behind the compiler's back */
    for (size_t g = 0; g < b->n_words; g++) {
        const struct patch_words *group = &b->words[g];
        if (!(group->expect ? sweep : sweep_pages)(b, &s, group))
            return -ESTALE;
    }
    *n = s.n;
    return 0;
}
