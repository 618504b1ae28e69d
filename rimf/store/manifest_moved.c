/* SPDX-License-Identifier: MIT
 *
 * rimf/store/manifest_moved.c: checks and searches a manifest's tables of moved code: its addresses, objects
 * and pointers.
 */
#include "rimf/store/manifest.h"

#include "rimf/base/base.h"

/* ---- finding ------------------------------------------------------------------------ */

const struct manifest_fragment *manifest_fragment_at(const struct manifest *f, uint64_t linked)
{
    size_t begun = RIMF_BISECT(i, f->header->n_fragments, f->fragments[i].at <= linked);
    const struct manifest_fragment *last = begun ? &f->fragments[begun - 1] : NULL;

    return last && linked - last->at < last->code ? last : NULL;
}

uint32_t manifest_next_object(const struct manifest *f, uint32_t i, uint32_t end)
{
    uint32_t object = f->pointers[i].object;

    return i + (uint32_t)RIMF_BISECT(k, end - i, f->pointers[i + k].object == object);
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
    uint64_t size = f->header->tables.size;

    if (r->pages > MVLD_PAGES_THP)
        return "the region has pages of an unknown kind";
    if (r->hot > r->code_size)
        return "hot moved code lies outside the region";
    if (r->object >= f->header->n_objects || f->objects[r->object].flags & MANIFEST_UNPLACED)
        return "the region is of no object that has a place";
    if (!is_pages(r->code, r->code_size) || !is_pages(r->frames, r->frames_size) ||
        (r->code < r->frames + r->frames_size && r->frames < r->code + r->code_size))
        return "the region is no two ranges of pages";
    for (int i = 0; i < MANIFEST_PIECES; i++)
        if (!is_pages(r->pieces[i].linked, r->pieces[i].size) || r->pieces[i].offset % RIMF_PAGE ||
            r->pieces[i].offset > size || r->pieces[i].size > size - r->pieces[i].offset)
            return "a piece of the region is no range of pages of its file";
    if (code->linked != r->code || code->size > r->code_size || table->linked != r->frames ||
        table->size > r->frames_size || frames->linked < table->linked + table->size ||
        frames->linked + frames->size > r->frames + r->frames_size)
        return "a piece of the region lies outside it";
    return NULL;
}

static const char *check_fragments(const struct manifest *f)
{
    uint64_t last, end;
    const char *why;

    if (f->header->n_regions > 1 || !f->header->n_fragments)
        return "there are several regions, or one without moved code";
    why = check_region(f);
    if (why)
        return why;
    last = f->region->code;
    end = last + f->region->pieces[MANIFEST_CODE].size;
    for (uint32_t i = 0; i < f->header->n_fragments; i++) {
        const struct manifest_fragment *c = &f->fragments[i];

        if (c->object >= f->header->n_objects || f->objects[c->object].flags & MANIFEST_UNPLACED)
            return "moved code is of no object that has a place";
        if (!c->code || c->code > c->size || c->code > UINT32_MAX - c->original)
            return "moved code is of an impossible size";
        if (c->at < last || c->at > end || c->size > end - c->at)
            return "moved code is not in order";
        last = c->at + c->size;
    }
    return NULL;
}

/* As many as there are fragments, in ascending order: so each occurs once. */
static const char *check_sorted(const struct manifest *f)
{
    uint64_t last = 0;

    for (uint32_t i = 0; i < f->header->n_fragments; i++) {
        uint32_t sorted = f->fragments[i].sorted;
        uint64_t place = sorted < f->header->n_fragments
                             ? (uint64_t)f->fragments[sorted].object << 32 | f->fragments[sorted].original : 0;

        if (sorted >= f->header->n_fragments || f->fragments[i].zero || (i && place <= last))
            return "moved code is not sorted by the originals";
        last = place;
    }
    return NULL;
}

static const char *check_fixed(const struct manifest *f)
{
    const struct analysis_fixed *fixed = f->fixed;
    uint64_t left = f->header->n_fixed;

    for (uint32_t i = 0; i < f->header->n_fragments; i++) {
        const struct manifest_fragment *c = &f->fragments[i];
        uint32_t from = 0;

        if (c->flags & ~MANIFEST_MOVED || (c->n_fixed && !c->flags) || c->n_fixed > left)
            return "addresses of moved code are of an unknown kind";
        left -= c->n_fixed;
        for (const struct analysis_fixed *last = fixed + c->n_fixed; fixed < last; fixed++) {
            if (!fixed->size || fixed->start < from || fixed->start >= c->code ||
                fixed->size > c->code - fixed->start)
                return "code whose addresses stay the originals is not in order";
            from = fixed->start;
        }
    }
    return left ? "code whose addresses stay the originals is of no moved code" : NULL;
}

/* Checks those from `first` to `end`; whether one in an unplaced object is allowed.  There are thousands, so
 * common properties are checked only when they change. */
static const char *check_ascending(const struct manifest *f, uint32_t first, uint32_t end, int unplaced)
{
    const struct manifest_pointer *last = NULL;
    uint64_t next = 0, code = 0;

    for (uint32_t i = first; i < end; last = &f->pointers[i++]) {
        const struct manifest_pointer *p = &f->pointers[i];

        if (!last || p->object != last->object) {
            if (p->object >= f->header->n_objects || (last && p->object < last->object))
                return "the pointers are not in order";
            if (!unplaced && f->objects[p->object].flags & MANIFEST_UNPLACED)
                return "a pointer is relocated where it is unplaced";
            next = 0;
        }
        if (p->linked < next)
            return "the pointers are not in order";
        next = (uint64_t)p->linked + sizeof(uint64_t);
        if (!last || p->fragment != last->fragment) {
            if (p->fragment >= f->header->n_fragments || f->fragments[p->fragment].flags != MANIFEST_MOVED)
                return "a pointer leads to no moved code";
            code = f->fragments[p->fragment].code;
        }
        if (p->offset >= code)
            return "a pointer leads to no moved code";
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
    for (uint32_t i = 0; i < f->header->n_kept; i++) {
        const struct manifest_kept *k = &f->kept[i];

        if (k->object >= f->header->n_objects || !k->size || k->number >= MANIFEST_KEPT_MAX ||
            (i && k->number <= k[-1].number))
            return "functions whose originals are kept are not in order";
    }
    return NULL;
}

const char *manifest_check_moved(const struct manifest *f)
{
    const char *why = check_fragments(f);

    why = why ? why : check_sorted(f);
    why = why ? why : check_fixed(f);
    why = why ? why : check_pointers(f);
    return why ? why : check_kept(f);
}
