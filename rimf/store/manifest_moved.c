/* SPDX-License-Identifier: MIT
 *
 * rimf/store/manifest_moved.c: checks what a manifest says of copies of code: where they lie, whose they
 * are, who leads to them; and finds them.
 */
#include "rimf/store/manifest.h"

#include "rimf/base/base.h"

/* ---- finding ------------------------------------------------------------------------ */

const struct manifest_copy *manifest_copy_at(const struct manifest *f, uint64_t linked)
{
    uint32_t low = 0, high = f->header->n_copies;

    while (low < high) { /* the first that begins behind */
        uint32_t middle = low + (high - low) / 2;

        if (f->copies[middle].at <= linked)
            low = middle + 1;
        else
            high = middle;
    }
    return low && linked - f->copies[low - 1].at < f->copies[low - 1].code ? &f->copies[low - 1]
                                                                           : NULL;
}

uint32_t manifest_next_object(const struct manifest *f, uint32_t i, uint32_t end)
{
    uint32_t object = f->pointers[i].object;

    while (i < end) {
        uint32_t middle = i + (end - i) / 2;

        if (f->pointers[middle].object == object)
            i = middle + 1;
        else
            end = middle;
    }
    return end;
}

/* ---- checking ----------------------------------------------------------------------- */

static int is_pages(uint64_t start, uint64_t size)
{
    return (start | size) % RIMF_PAGE == 0 && size && start <= UINT32_MAX &&
           size <= UINT32_MAX - start;
}

static const char *check_region(const struct manifest *f)
{
    const struct manifest_region *r = f->region;
    const struct manifest_piece *code = &r->pieces[MANIFEST_CODE], *table = &r->pieces[MANIFEST_TABLE],
                              *frames = &r->pieces[MANIFEST_FRAMES];

    if (r->pages > MVLD_PAGES_POOL || r->pages == MVLD_PAGES_QUICK)
        return "the region has pages of an unknown kind";
    if (r->hot > r->code_size)
        return "hot copies lie outside the region";
    if (r->object >= f->header->n_objects || f->objects[r->object].flags & MANIFEST_UNPLACED)
        return "the region is of no object that has a place";
    if (file_id_is_none(&r->file) || r->file.size > OVERLAY_SIZE_MAX)
        return "the region has no file, or one that is too large";
    if (f->header->n_relocations && !file_id_same(&f->header->relocations, &r->file))
        return "relocations and copies of code are in two files";
    if (!is_pages(r->code, r->code_size) || !is_pages(r->frames, r->frames_size) ||
        (r->code < r->frames + r->frames_size && r->frames < r->code + r->code_size))
        return "the region is no two ranges of pages";
    for (int i = 0; i < MANIFEST_PIECES; i++)
        if (!is_pages(r->pieces[i].linked, r->pieces[i].size) || r->pieces[i].offset % RIMF_PAGE ||
            r->pieces[i].offset > r->file.size ||
            r->pieces[i].size > r->file.size - r->pieces[i].offset)
            return "a piece of the region is no range of pages of its file";
    if (code->linked != r->code || code->size > r->code_size || table->linked != r->frames ||
        table->size > r->frames_size || frames->linked < table->linked + table->size ||
        frames->linked + frames->size > r->frames + r->frames_size)
        return "a piece of the region lies outside it";
    return NULL;
}

static const char *check_copies(const struct manifest *f)
{
    uint64_t last, end;
    const char *why;

    if (f->header->n_regions > 1 || !f->header->n_regions != !f->header->n_copies)
        return "there are copies without a region, or a region without copies";
    if (!f->header->n_regions)
        return NULL;
    why = check_region(f);
    if (why)
        return why;
    last = f->region->code;
    end = last + f->region->pieces[MANIFEST_CODE].size;
    for (uint32_t i = 0; i < f->header->n_copies; i++) {
        const struct manifest_copy *c = &f->copies[i];

        if (c->object >= f->header->n_objects || f->objects[c->object].flags & MANIFEST_UNPLACED)
            return "a copy of code is of no object that has a place";
        if (!c->code || c->code > c->size || c->code > UINT32_MAX - c->original)
            return "a copy of code is of an impossible size";
        if (c->at < last || c->at > end || c->size > end - c->at)
            return "the copies of code are not in order";
        last = c->at + c->size;
    }
    return NULL;
}

/* As many as there are, each behind the one before: so all of them, once. */
static const char *check_sorted(const struct manifest *f)
{
    uint64_t last = 0;

    for (uint32_t i = 0; i < f->header->n_copies; i++) {
        uint32_t sorted = f->copies[i].sorted;
        uint64_t place = sorted < f->header->n_copies
                             ? (uint64_t)f->copies[sorted].object << 32 | f->copies[sorted].original : 0;

        if (sorted >= f->header->n_copies || f->copies[i].zero || (i && place <= last))
            return "the copies of code are not sorted by their homes";
        last = place;
    }
    return NULL;
}

static const char *check_homes(const struct manifest *f)
{
    const struct analysis_home *home = f->homes;
    uint64_t left = f->header->n_homes;

    for (uint32_t i = 0; i < f->header->n_copies; i++) {
        const struct manifest_copy *c = &f->copies[i];
        uint32_t from = 0;

        if (c->flags & ~MANIFEST_MOVED || (c->n_homes && !c->flags) || c->n_homes > left)
            return "addresses of a copy of code are of an unknown kind";
        left -= c->n_homes;
        for (const struct analysis_home *last = home + c->n_homes; home < last; home++) {
            if (!home->size || home->start < from || home->start >= c->code ||
                home->size > c->code - home->start)
                return "code whose addresses stay at home is not in order";
            from = home->start;
        }
    }
    return left ? "code whose addresses stay at home is of no copy" : NULL;
}

/* Those from `first` to `end`; whether one that lies in an object apart may be among them.  There are
 * thousands, and what they share is looked at when it changes. */
static const char *check_ascending(const struct manifest *f, uint32_t first, uint32_t end, int apart)
{
    const struct manifest_pointer *last = NULL;
    uint64_t next = 0, code = 0;

    for (uint32_t i = first; i < end; last = &f->pointers[i++]) {
        const struct manifest_pointer *p = &f->pointers[i];

        if (!last || p->object != last->object) {
            if (p->object >= f->header->n_objects || (last && p->object < last->object))
                return "the pointers are not in order";
            if (!apart && f->objects[p->object].flags & MANIFEST_UNPLACED)
                return "a pointer is relocated where it is unplaced";
            next = 0;
        }
        if (p->linked < next)
            return "the pointers are not in order";
        next = (uint64_t)p->linked + sizeof(uint64_t);
        if (!last || p->copy != last->copy) {
            if (p->copy >= f->header->n_copies || f->copies[p->copy].flags != MANIFEST_MOVED)
                return "a pointer leads to no copy";
            code = f->copies[p->copy].code;
        }
        if (p->offset >= code)
            return "a pointer leads to no copy";
    }
    return NULL;
}

static const char *check_pointers(const struct manifest *f)
{
    uint32_t n = f->header->n_pointers, addends = f->header->n_addends;
    uint32_t tabled = f->header->n_tabled;
    const char *why;

    if (addends > n || tabled > n - addends)
        return "there are fewer pointers than of one kind";
    why = check_ascending(f, 0, addends, 0);
    if (!why)
        why = check_ascending(f, addends, addends + tabled, 0);
    return why ? why : check_ascending(f, addends + tabled, n, 1);
}

static const char *check_kept(const struct manifest *f)
{
    if (!f->header->n_regions && f->header->n_kept)
        return "functions are kept at home, and there are no copies";
    for (uint32_t i = 0; i < f->header->n_kept; i++) {
        const struct manifest_kept *k = &f->kept[i];

        if (k->object >= f->header->n_objects || !k->size || k->number >= MANIFEST_KEPT_MAX ||
            (i && k->number <= k[-1].number))
            return "functions that are kept at home are not in order";
    }
    return NULL;
}

const char *manifest_check_moved(const struct manifest *f)
{
    static const char *(*const checks[])(const struct manifest *) = {
        check_copies, check_sorted, check_homes, check_pointers, check_kept,
    };
    const char *why = NULL;

    for (size_t i = 0; i < RIMF_COUNT(checks) && !why; i++)
        why = checks[i](f);
    return why;
}
