/* SPDX-License-Identifier: MIT
 *
 * rimf/frozen.c: checks the bytes of a frozen image; the format is told in frozen.h.
 */
#include "frozen.h"

#include "base.h"

#include <errno.h> /* numbers only */

_Static_assert(sizeof(struct frozen_header) == 208, "a file format");
_Static_assert(sizeof(struct frozen_object) == 112, "a file format");
_Static_assert(sizeof(struct frozen_text) == 40, "a file format");
_Static_assert(sizeof(struct frozen_word) == 16, "a file format");
_Static_assert(sizeof(struct frozen_relocations) == 40, "a file format");
_Static_assert(sizeof(struct frozen_region) == 176, "a file format");
_Static_assert(sizeof(struct frozen_copy) == 40, "a file format");
_Static_assert(sizeof(struct frozen_pointer) == 16, "a file format");
_Static_assert(sizeof(struct frozen_kept) == 16, "a file format");

#define COPY_SIZE_MAX (1ul << 40)

static uint64_t word_at(const uint8_t *bytes)
{
    uint64_t word;

    memcpy(&word, bytes, sizeof word);
    return word;
}

/* Every start waits for it, so there are four hashes, which the processor makes side by side. */
static uint64_t hash_tables(const uint8_t *at, size_t size)
{
    uint64_t a = size, b = 1, c = 2, d = 3;

    for (; size >= 32; at += 32, size -= 32) {
        a = sidecar_mix(a, word_at(at));
        b = sidecar_mix(b, word_at(at + 8));
        c = sidecar_mix(c, word_at(at + 16));
        d = sidecar_mix(d, word_at(at + 24));
    }
    return sidecar_mix(sidecar_mix(a, b), sidecar_mix(c, d)) ^ sidecar_hash(at, size);
}

uint64_t frozen_checksum(const void *bytes, size_t size)
{
    size_t before = offsetof(struct frozen_header, checksum), after = before + sizeof(uint64_t);

    return sidecar_hash(bytes, before) ^ hash_tables((const uint8_t *)bytes + after, size - after) * 3;
}

const char *frozen_tables_name(const struct frozen *f)
{
    return f->region ? FROZEN_COPIES : FROZEN_RELOCATIONS;
}

int frozen_is_no_file(const struct sidecar_identity *identity)
{
    return !(identity->device | identity->inode | identity->size |
             (uint64_t)identity->modified | (uint64_t)identity->changed);
}

int frozen_is_name(const char *name)
{
    size_t length = rimf_strlen(name);

    return length && length <= FROZEN_NAME_MAX && *name != '.' && !rimf_strrchr(name, '/');
}

const struct frozen_copy *frozen_copy_at(const struct frozen *f, uint64_t linked)
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

uint32_t frozen_next_object(const struct frozen *f, uint32_t i, uint32_t end)
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

static const char *check_objects(const struct frozen *f)
{
    uint32_t names = f->header->names_size;

    for (uint32_t i = 0; i < f->header->n_objects; i++) {
        const struct frozen_object *o = &f->objects[i];

        if (o->name >= names || o->copy_name >= names)
            return "an object's name lies outside the names";
        if (frozen_is_no_file(&o->copy) ? f->names[o->copy_name] : !frozen_is_name(f->names + o->copy_name))
            return "a copy has no proper name";
        if (!frozen_is_no_file(&o->copy) && frozen_is_no_file(&o->file))
            return "a copy is of no file";
        if (o->copy.size > COPY_SIZE_MAX)
            return "a copy is too large";
        if (o->distance % (int64_t)RIMF_PAGE)
            return "an object lies at no page";
        if (o->first % RIMF_PAGE)
            return "an object begins at no page";
        if (o->flags & ~FROZEN_APART)
            return "an object has a property that is not known";
        if (o->flags & FROZEN_APART ? o->distance || !frozen_is_no_file(&o->copy) : frozen_is_no_file(&o->file))
            return "an object that lies apart has a place, or another has none";
    }
    return NULL;
}

const char *frozen_check_text(const struct frozen_text *t, const struct sidecar_identity *copy)
{
    if (frozen_is_no_file(copy))
        return "a text is of an object without a copy";
    if (t->zero || !t->size || t->size > UINT32_MAX || t->linked > UINT32_MAX ||
        (t->linked | t->size | t->offset) % RIMF_PAGE)
        return "a text is no range of pages";
    if (t->offset > copy->size || t->size > rimf_page_up(copy->size) - t->offset)
        return "a text lies outside its copy";
    return copy->size > COPY_SIZE_MAX ? "a copy is too large" : NULL;
}

static const char *check_texts(const struct frozen *f)
{
    const struct frozen_text *last = NULL;

    for (uint32_t i = 0; i < f->header->n_texts; last = &f->texts[i++]) {
        const struct frozen_text *t = &f->texts[i];
        const char *why;

        if (t->object >= f->header->n_objects)
            return "a text is of an object without a copy";
        why = frozen_check_text(t, &f->objects[t->object].copy);
        if (why)
            return why;
        if (last && (t->object < last->object ||
                     (t->object == last->object && t->linked < last->linked + last->size)))
            return "the texts are not in order";
    }
    return NULL;
}

static const char *check_words(const struct frozen *f)
{
    uint64_t last = 0;

    for (uint32_t i = 0; i < f->header->n_words; i++) {
        const struct frozen_word *w = &f->words[i];
        uint64_t place = (uint64_t)w->object << 32 | w->linked;

        if (w->object >= f->header->n_objects || w->to_object >= f->header->n_objects)
            return "a word is of no object";
        if (w->linked % sizeof(uint64_t) || (i && place <= last))
            return "the words are not in order";
        last = place;
    }
    return NULL;
}

static const char *check_relocations(const struct frozen *f)
{
    const struct frozen_header *h = f->header;
    const struct sidecar_identity *file = &h->relocations;

    if ((h->n_relocations == 0) != frozen_is_no_file(file) || file->size > COPY_SIZE_MAX)
        return "there are relocations without a file, or a file without relocations";
    for (uint32_t i = 0; i < h->n_relocations; i++) {
        const struct frozen_relocations *r = &f->relocations[i];

        if (r->object >= h->n_objects || f->objects[r->object].flags & FROZEN_APART ||
            (i && r->object <= r[-1].object))
            return "relocations are of no object that has a place, or not in order";
        if (!r->size || r->linked > UINT32_MAX || r->size > UINT32_MAX ||
            (r->linked | r->size | r->offset) % RIMF_PAGE ||
            r->linked < f->objects[r->object].first)
            return "relocations are no range of pages";
        if (r->offset > file->size || r->size > file->size - r->offset)
            return "relocations lie outside their file";
        if (i && r->offset < r[-1].offset + r[-1].size)
            return "relocations are of no object that has a place, or not in order";
    }
    return NULL;
}

static int is_pages(uint64_t start, uint64_t size)
{
    return (start | size) % RIMF_PAGE == 0 && size && start <= UINT32_MAX &&
           size <= UINT32_MAX - start;
}

static const char *check_region(const struct frozen *f)
{
    const struct frozen_region *r = f->region;
    const struct frozen_piece *code = &r->pieces[FROZEN_CODE], *table = &r->pieces[FROZEN_TABLE],
                              *frames = &r->pieces[FROZEN_FRAMES];

    if (r->pages > MVLD_PAGES_HUGETLB)
        return "the region has pages of an unknown kind";
    if (r->hot > r->code_size)
        return "hot copies lie outside the region";
    if (r->object >= f->header->n_objects || f->objects[r->object].flags & FROZEN_APART)
        return "the region is of no object that has a place";
    if (frozen_is_no_file(&r->file) || r->file.size > COPY_SIZE_MAX)
        return "the region has no file, or one that is too large";
    if (f->header->n_relocations && !sidecar_same_file(&f->header->relocations, &r->file))
        return "relocations and copies of code are in two files";
    if (!is_pages(r->code, r->code_size) || !is_pages(r->frames, r->frames_size) ||
        (r->code < r->frames + r->frames_size && r->frames < r->code + r->code_size))
        return "the region is no two ranges of pages";
    for (int i = 0; i < FROZEN_PIECES; i++)
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

static const char *check_copies(const struct frozen *f)
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
    end = last + f->region->pieces[FROZEN_CODE].size;
    for (uint32_t i = 0; i < f->header->n_copies; i++) {
        const struct frozen_copy *c = &f->copies[i];

        if (c->object >= f->header->n_objects || f->objects[c->object].flags & FROZEN_APART)
            return "a copy of code is of no object that has a place";
        if (!c->code || c->code > c->size || c->code > UINT32_MAX - c->home)
            return "a copy of code is of an impossible size";
        if (c->at < last || c->at > end || c->size > end - c->at)
            return "the copies of code are not in order";
        last = c->at + c->size;
    }
    return NULL;
}

/* As many as there are, each behind the one before: so all of them, once. */
static const char *check_sorted(const struct frozen *f)
{
    uint64_t last = 0;

    for (uint32_t i = 0; i < f->header->n_copies; i++) {
        uint32_t sorted = f->copies[i].sorted;
        uint64_t place = sorted < f->header->n_copies
                             ? (uint64_t)f->copies[sorted].object << 32 | f->copies[sorted].home : 0;

        if (sorted >= f->header->n_copies || f->copies[i].zero || (i && place <= last))
            return "the copies of code are not sorted by their homes";
        last = place;
    }
    return NULL;
}

static const char *check_homes(const struct frozen *f)
{
    const struct sidecar_home *home = f->homes;
    uint64_t left = f->header->n_homes;

    for (uint32_t i = 0; i < f->header->n_copies; i++) {
        const struct frozen_copy *c = &f->copies[i];
        uint32_t from = 0;

        if (c->flags & ~FROZEN_MOVED || (c->n_homes && !c->flags) || c->n_homes > left)
            return "addresses of a copy of code are of an unknown kind";
        left -= c->n_homes;
        for (const struct sidecar_home *last = home + c->n_homes; home < last; home++) {
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
static const char *check_ascending(const struct frozen *f, uint32_t first, uint32_t end, int apart)
{
    const struct frozen_pointer *last = NULL;
    uint64_t next = 0, code = 0;

    for (uint32_t i = first; i < end; last = &f->pointers[i++]) {
        const struct frozen_pointer *p = &f->pointers[i];

        if (!last || p->object != last->object) {
            if (p->object >= f->header->n_objects || (last && p->object < last->object))
                return "the pointers are not in order";
            if (!apart && f->objects[p->object].flags & FROZEN_APART)
                return "a pointer is relocated where it lies apart";
            next = 0;
        }
        if (p->linked < next)
            return "the pointers are not in order";
        next = (uint64_t)p->linked + sizeof(uint64_t);
        if (!last || p->copy != last->copy) {
            if (p->copy >= f->header->n_copies || f->copies[p->copy].flags != FROZEN_MOVED)
                return "a pointer leads to no copy";
            code = f->copies[p->copy].code;
        }
        if (p->offset >= code)
            return "a pointer leads to no copy";
    }
    return NULL;
}

static const char *check_pointers(const struct frozen *f)
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

static const char *check_kept(const struct frozen *f)
{
    if (!f->header->n_regions && f->header->n_kept)
        return "functions are kept at home, and there are no copies";
    for (uint32_t i = 0; i < f->header->n_kept; i++) {
        const struct frozen_kept *k = &f->kept[i];

        if (k->object >= f->header->n_objects || !k->size || k->number >= FROZEN_KEPT_MAX ||
            (i && k->number <= k[-1].number))
            return "functions that are kept at home are not in order";
    }
    return NULL;
}

static const char *check_passes(const struct frozen *f)
{
    const struct frozen_header *h = f->header;

    if (h->n_passes > FROZEN_PASSES_MAX)
        return "it was made by too many passes";
    for (uint32_t i = 0; i < h->n_passes; i++)
        if (h->passes[i].name >= h->names_size || h->passes[i].library >= h->names_size)
            return "a pass's name lies outside the names";
    return NULL;
}

static const char *check_tables(const struct frozen *f)
{
    static const char *(*const checks[])(const struct frozen *) = {
        check_passes, check_objects, check_texts,    check_words, check_relocations,
        check_copies, check_sorted,  check_homes,    check_pointers, check_kept,
    };
    const char *why = NULL;

    for (size_t i = 0; i < RIMF_COUNT(checks) && !why; i++)
        why = checks[i](f);
    return why;
}

static const char *check(struct frozen *f, const uint8_t *bytes, size_t size)
{
    const struct frozen_header *h = f->header = (const struct frozen_header *)bytes;
    uint64_t whole;

    if (size < sizeof *h || memcmp(h->magic, FROZEN_MAGIC, sizeof h->magic) != 0)
        return "it is no frozen image";
    if (h->version != FROZEN_VERSION || h->header_size != sizeof *h)
        return "it is of another version of the format";
    whole = sizeof *h + (uint64_t)h->n_objects * sizeof *f->objects +
            (uint64_t)h->n_texts * sizeof *f->texts + (uint64_t)h->n_words * sizeof *f->words +
            (uint64_t)h->n_relocations * sizeof *f->relocations +
            (uint64_t)h->n_regions * sizeof *f->region +
            (uint64_t)h->n_copies * sizeof *f->copies +
            (uint64_t)h->n_homes * sizeof *f->homes +
            (uint64_t)h->n_pointers * sizeof *f->pointers +
            (uint64_t)h->n_kept * sizeof *f->kept + h->names_size;
    if (h->size != size || whole != size || size > FROZEN_SIZE_MAX)
        return "it is cut short, or longer than it says";
    if (h->checksum != frozen_checksum(bytes, size))
        return "its checksum is wrong";
    if (!h->n_objects || h->n_objects > FROZEN_OBJECTS_MAX)
        return "it has no objects, or too many";
    f->objects = (const void *)(h + 1);
    f->texts = (const void *)(f->objects + h->n_objects);
    f->words = (const void *)(f->texts + h->n_texts);
    f->relocations = (const void *)(f->words + h->n_words);
    f->region = (const void *)(f->relocations + h->n_relocations);
    f->copies = (const void *)(f->region + h->n_regions);
    f->homes = (const void *)(f->copies + h->n_copies);
    f->pointers = (const void *)(f->homes + h->n_homes);
    f->kept = (const void *)(f->pointers + h->n_pointers);
    f->names = (const char *)(f->kept + h->n_kept);
    if (!h->n_regions)
        f->region = NULL;
    if (!h->names_size || f->names[h->names_size - 1])
        return "its names have no end";
    return check_tables(f);
}

int frozen_open(struct frozen *f, const void *bytes, size_t size, const char **why)
{
    *why = check(f, bytes, size);
    if (*why)
        memset(f, 0, sizeof *f);
    return *why ? -EINVAL : 0;
}
