/* SPDX-License-Identifier: MIT
 *
 * rimf/store/frozen.c: checks the bytes of a frozen image; the format is told in frozen.h.  What it says of
 * copies of code, frozen_copies.c checks.
 */
#include "rimf/store/frozen_private.h"

#include "rimf/base/base.h"

#include <errno.h> /* numbers only */

_Static_assert(sizeof(struct frozen_header) == 416, "a file format");
_Static_assert(sizeof(struct frozen_object) == 112, "a file format");
_Static_assert(sizeof(struct frozen_text) == 40, "a file format");
_Static_assert(sizeof(struct frozen_word) == 16, "a file format");
_Static_assert(sizeof(struct frozen_relocations) == 40, "a file format");
_Static_assert(sizeof(struct frozen_shift) == 8, "a file format");
_Static_assert(sizeof(struct frozen_region) == 176, "a file format");
_Static_assert(sizeof(struct frozen_copy) == 40, "a file format");
_Static_assert(sizeof(struct frozen_pointer) == 16, "a file format");
_Static_assert(sizeof(struct frozen_kept) == 16, "a file format");

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
        a = rimf_mix(a, word_at(at));
        b = rimf_mix(b, word_at(at + 8));
        c = rimf_mix(c, word_at(at + 16));
        d = rimf_mix(d, word_at(at + 24));
    }
    return rimf_mix(rimf_mix(a, b), rimf_mix(c, d)) ^ rimf_hash(at, size);
}

uint64_t frozen_checksum(const void *bytes, size_t size)
{
    size_t before = offsetof(struct frozen_header, checksum), after = before + sizeof(uint64_t);

    return rimf_hash(bytes, before) ^ hash_tables((const uint8_t *)bytes + after, size - after) * 3;
}

const char *frozen_tables_name(const struct frozen *f)
{
    return f->region ? FROZEN_COPIES : FROZEN_RELOCATIONS;
}

int frozen_is_name(const char *name)
{
    size_t length = rimf_strlen(name);

    return length && length <= FROZEN_NAME_MAX && *name != '.' && !rimf_strrchr(name, '/');
}

static const char *check_objects(const struct frozen *f)
{
    uint32_t names = f->header->names_size;

    for (uint32_t i = 0; i < f->header->n_objects; i++) {
        const struct frozen_object *o = &f->objects[i];

        if (o->name >= names || o->copy_name >= names)
            return "an object's name lies outside the names";
        if (file_id_is_none(&o->copy) ? f->names[o->copy_name] : !frozen_is_name(f->names + o->copy_name))
            return "a copy has no proper name";
        if (!file_id_is_none(&o->copy) && file_id_is_none(&o->file))
            return "a copy is of no file";
        if (o->copy.size > COPY_SIZE_MAX)
            return "a copy is too large";
        if (o->distance % (int64_t)RIMF_PAGE)
            return "an object lies at no page";
        if (o->first % RIMF_PAGE)
            return "an object begins at no page";
        if (o->flags & ~FROZEN_UNPLACED)
            return "an object has a property that is not known";
        if (o->flags & FROZEN_UNPLACED ? o->distance || !file_id_is_none(&o->copy) : file_id_is_none(&o->file))
            return "an object that is unplaced has a place, or another has none";
    }
    return NULL;
}

const char *frozen_check_text(const struct frozen_text *t, const struct file_id *copy)
{
    if (file_id_is_none(copy))
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
    const struct file_id *file = &h->relocations;

    if ((h->n_relocations == 0) != file_id_is_none(file) || file->size > COPY_SIZE_MAX)
        return "there are relocations without a file, or a file without relocations";
    for (uint32_t i = 0; i < h->n_relocations; i++) {
        const struct frozen_relocations *r = &f->relocations[i];

        if (r->object >= h->n_objects || !f->objects[r->object].file.inode ||
            (i && r->object <= r[-1].object))
            return "relocations are of no object that has a file, or not in order";
        if (!r->size || r->linked > UINT32_MAX || r->size > UINT32_MAX ||
            (r->linked | r->size | r->offset) % RIMF_PAGE ||
            r->linked < f->objects[r->object].first)
            return "relocations are no range of pages";
        if (r->offset > file->size || r->size > file->size - r->offset)
            return "relocations lie outside their file";
        if (i && r->offset < r[-1].offset + r[-1].size)
            return "relocations overlap in their file";
    }
    return NULL;
}

static const char *check_shifts(const struct frozen *f)
{
    const struct frozen_relocations *r = f->relocations, *end = r + f->header->n_relocations;

    for (uint32_t i = 0; i < f->header->n_shifts; i++) {
        const struct frozen_shift *s = &f->shifts[i];

        while (r < end && f->relocations->offset + s->at >= r->offset + r->size)
            r++;
        if (r == end || f->relocations->offset + s->at < r->offset || s->at % sizeof(uint64_t))
            return "an entry of relocations lies outside them, or they are not in order";
        if (s->to_object >= f->header->n_objects || !f->objects[s->to_object].file.inode)
            return "an entry of relocations leads to no object that has a file";
    }
    return NULL;
}

static const char *check_passes(const struct frozen *f)
{
    const struct frozen_header *h = f->header;

    if (h->n_passes > FROZEN_PASSES_MAX)
        return "it was made by too many passes";
    if (h->told >= h->names_size)
        return "what the host loader was told lies outside the names";
    for (uint32_t i = 0; i < h->n_passes; i++)
        if (h->passes[i].name >= h->names_size || h->passes[i].library >= h->names_size)
            return "a pass's name lies outside the names";
    if (h->n_reads > FROZEN_READS_MAX)
        return "its passes read too many files";
    for (uint32_t i = 0; i < h->n_reads; i++)
        if (h->reads[i].name >= h->names_size || h->reads[i].zero)
            return "the name of a file that a pass read lies outside the names";
    return NULL;
}

static const char *check_tables(const struct frozen *f)
{
    static const char *(*const checks[])(const struct frozen *) = {
        check_passes, check_objects,     check_texts,
        check_words,  check_relocations, check_shifts, frozen_check_copies,
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
            (uint64_t)h->n_shifts * sizeof *f->shifts +
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
    f->shifts = (const void *)(f->relocations + h->n_relocations);
    f->region = (const void *)(f->shifts + h->n_shifts);
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
