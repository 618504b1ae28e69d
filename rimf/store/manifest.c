/* SPDX-License-Identifier: MIT
 *
 * rimf/store/manifest.c: checks the bytes of a manifest; manifest.h has the format.  manifest_moved.c checks
 * the part about moved code.
 */
#include "rimf/store/manifest.h"

#include "rimf/base/base.h"

#include <errno.h> /* numbers only */

_Static_assert(sizeof(struct manifest_header) == 432, "a file format");
_Static_assert(sizeof(struct manifest_object) == 128, "a file format");
_Static_assert(sizeof(struct manifest_region) == 136, "a file format");

const uint32_t manifest_sizes[MANIFEST_TABLES] = {
    [MANIFEST_OBJECTS] = sizeof(struct manifest_object),
    [MANIFEST_TEXTS] = sizeof(struct manifest_text),
    [MANIFEST_WORDS] = sizeof(struct manifest_word),
    [MANIFEST_RELOCATIONS] = sizeof(struct manifest_relocations),
    [MANIFEST_SHIFTS] = sizeof(struct manifest_shift),
    [MANIFEST_REGIONS] = sizeof(struct manifest_region),
    [MANIFEST_FRAGMENTS] = sizeof(struct manifest_fragment),
    [MANIFEST_FIXED_CODE] = sizeof(struct analysis_fixed),
    [MANIFEST_POINTERS] = sizeof(struct manifest_pointer),
    [MANIFEST_KEPT] = sizeof(struct manifest_kept),
    [MANIFEST_NAMES] = 1,
};

static uint64_t word_at(const uint8_t *bytes)
{
    uint64_t word;

    memcpy(&word, bytes, sizeof word);
    return word;
}

/* Every start waits for it, so there are four hashes, which the processor computes in parallel. */
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

uint64_t manifest_checksum(const void *bytes, size_t size)
{
    size_t before = offsetof(struct manifest_header, checksum), after = before + sizeof(uint64_t);

    return rimf_hash(bytes, before) ^ hash_tables((const uint8_t *)bytes + after, size - after) * 3;
}

const char *manifest_tables_name(const struct manifest *f)
{
    return f->region ? MOVED_FILE : RELOCATIONS_FILE;
}

/* Whether it is a file name: not empty, not hidden, without folder. */
static int is_file_name(const char *name)
{
    size_t length = rimf_strlen(name);

    return length && length <= MANIFEST_NAME_MAX && *name != '.' && !rimf_strrchr(name, '/');
}

long manifest_find(const struct manifest *m, const struct file_id *identity)
{
    for (uint32_t i = 0; i < m->header->n_objects; i++)
        if (file_id_same(&m->objects[i].file, identity))
            return m->header->n_base + i;
    return -1;
}

const struct manifest_text *manifest_texts_of(const struct manifest *m, uint32_t object, uint32_t *n)
{
    size_t first = RIMF_BISECT(i, m->header->n_texts, m->texts[i].object < object);

    for (*n = 0; first + *n < m->header->n_texts && m->texts[first + *n].object == object;)
        ++*n;
    return m->texts + first;
}

/* ---- checking --------------------------------------------------------------------- */

static int is_number(const struct manifest *m, uint32_t object)
{
    return object < m->header->n_base + m->header->n_objects;
}

static const char *check_object(const struct manifest *m, const struct manifest_object *o)
{
    int has_file = !file_id_is_none(&o->file), has_overlay = !file_id_is_none(&o->overlay);

    if (o->name >= m->header->names_size || o->overlay_name >= m->header->names_size)
        return "an object's name lies outside the names";
    if (has_overlay ? !is_file_name(m->names + o->overlay_name) : m->names[o->overlay_name] != '\0')
        return "an overlay has no proper name";
    if (has_overlay && !has_file)
        return "an overlay is of no file";
    if (o->overlay.size > OVERLAY_SIZE_MAX)
        return "an overlay is too large";
    if (o->distance % (int64_t)RIMF_PAGE || (o->first | o->length) % RIMF_PAGE || !o->length != !has_file)
        return "an object lies at no page";
    if (o->flags & ~MANIFEST_UNPLACED)
        return "an object has a property that is not known";
    if (o->flags & MANIFEST_UNPLACED ? o->distance || has_overlay : !has_file)
        return "an object that is unplaced has a place, or another has none";
    return NULL;
}

static const char *check_objects(const struct manifest *m)
{
    uint64_t words = 0;

    for (uint32_t i = 0; i < m->header->n_objects; i++) {
        const char *why = check_object(m, &m->objects[i]);

        if (why)
            return why;
        words += m->objects[i].n_words;
    }
    return words <= m->header->n_words ? NULL : "there are fewer words than the objects have";
}

static const char *check_text(const struct manifest *m, const struct manifest_text *t)
{
    const struct file_id *overlay;

    if (!is_number(m, t->object) || t->object < m->header->n_base)
        return "a text is of no object";
    overlay = &manifest_object(m, t->object)->overlay;
    if (file_id_is_none(overlay))
        return "a text is of an object without an overlay";
    if (t->zero || !t->size || t->size > UINT32_MAX || t->linked > UINT32_MAX ||
        (t->linked | t->size | t->offset) % RIMF_PAGE)
        return "a text is no range of pages";
    if (t->offset > overlay->size || t->size > rimf_page_up(overlay->size) - t->offset)
        return "a text lies outside its overlay";
    return NULL;
}

static const char *check_texts(const struct manifest *m)
{
    const struct manifest_text *last = NULL;

    for (uint32_t i = 0; i < m->header->n_texts; last = &m->texts[i++]) {
        const struct manifest_text *t = &m->texts[i];
        const char *why = check_text(m, t);

        if (why)
            return why;
        if (last && (t->object < last->object ||
                     (t->object == last->object && t->linked < last->linked + last->size)))
            return "the texts are not in order";
    }
    return NULL;
}

static const char *check_words(const struct manifest *m)
{
    for (uint32_t i = 0; i < m->header->n_words; i++) {
        const struct manifest_word *w = &m->words[i];

        if (!is_number(m, w->object) || !is_number(m, w->to_object))
            return "a word is of no object";
        if (w->linked % sizeof(uint64_t))
            return "a word lies at no word";
    }
    return NULL;
}

static const char *check_relocations(const struct manifest *m)
{
    const struct manifest_header *h = m->header;
    const struct file_id *file = &h->tables;

    if (!!(h->n_relocations | h->n_regions) == file_id_is_none(file) || file->size > OVERLAY_SIZE_MAX)
        return "there is no file of relocations or moved code, or one of neither";
    for (uint32_t i = 0; i < h->n_relocations; i++) {
        const struct manifest_relocations *r = &m->relocations[i];

        if (r->object >= h->n_objects || !m->objects[r->object].file.inode ||
            (i && r->object <= r[-1].object))
            return "relocations are of no object that has a file, or not in order";
        if (!r->size || r->linked > UINT32_MAX || r->size > UINT32_MAX ||
            (r->linked | r->size | r->offset) % RIMF_PAGE ||
            r->linked < m->objects[r->object].first)
            return "relocations are no range of pages";
        if (r->offset > file->size || r->size > file->size - r->offset)
            return "relocations lie outside their file";
        if (i && r->offset < r[-1].offset + r[-1].size)
            return "relocations overlap in their file";
    }
    return NULL;
}

static const char *check_shifts(const struct manifest *m)
{
    const struct manifest_relocations *r = m->relocations, *end = r + m->header->n_relocations;

    for (uint32_t i = 0; i < m->header->n_shifts; i++) {
        const struct manifest_shift *s = &m->shifts[i];

        while (r < end && m->relocations->offset + s->at >= r->offset + r->size)
            r++;
        if (r == end || m->relocations->offset + s->at < r->offset || s->at % sizeof(uint64_t))
            return "an entry of relocations lies outside them, or they are not in order";
        if (s->to_object >= m->header->n_objects || !m->objects[s->to_object].file.inode)
            return "an entry of relocations leads to no object that has a file";
    }
    return NULL;
}

static const char *check_passes(const struct manifest *m)
{
    const struct manifest_header *h = m->header;

    if (h->n_passes > MANIFEST_PASSES_MAX)
        return "it was made by too many passes";
    if (h->launch_key >= h->names_size)
        return "the launch key lies outside the names";
    for (uint32_t i = 0; i < h->n_passes; i++)
        if (h->passes[i].name >= h->names_size || h->passes[i].library >= h->names_size)
            return "a pass's name lies outside the names";
    if (h->n_reads > MANIFEST_READS_MAX)
        return "its passes read too many files";
    for (uint32_t i = 0; i < h->n_reads; i++)
        if (h->reads[i].name >= h->names_size || h->reads[i].zero)
            return "the name of a file that a pass read lies outside the names";
    return NULL;
}

/* A LATER manifest has none of the parts for a start; and objects are numbered with 32 bits. */
static const char *check_base(const struct manifest *m)
{
    const struct manifest_header *h = m->header;

    if (h->n_base > MANIFEST_OBJECTS_MAX || !h->n_base != !h->base)
        return "what it continues is not understood";
    for (int i = MANIFEST_RELOCATIONS; h->n_base && i < MANIFEST_NAMES; i++)
        if (h->n[i])
            return "it continues another one, and has tables of a start";
    if ((!h->n_objects && !h->n_base) || h->n_objects > MANIFEST_OBJECTS_MAX)
        return "it has no objects, or too many";
    return NULL;
}

static const char *check_moved(const struct manifest *m)
{
    const struct manifest_header *h = m->header;

    if (h->n_regions)
        return manifest_check_moved(m);
    return h->n_fragments || h->n_fixed || h->n_pointers || h->n_kept ? "there is moved code without a region" : NULL;
}

static const char *check_tables(const struct manifest *m)
{
    static const char *(*const checks[])(const struct manifest *) = {
        check_base,  check_passes, check_objects,     check_texts,
        check_words, check_relocations, check_shifts, check_moved,
    };
    const char *why = NULL;

    for (size_t i = 0; i < RIMF_COUNT(checks) && !why; i++)
        why = checks[i](m);
    return why;
}

static const char *check_bytes(struct manifest *m, const uint8_t *bytes, size_t size)
{
    const struct manifest_header *h = m->header = (const struct manifest_header *)bytes;
    uint64_t end = sizeof *h;

    if (size < sizeof *h || memcmp(h->magic, MANIFEST_MAGIC, sizeof h->magic) != 0)
        return "it is no manifest";
    if (h->version != MANIFEST_VERSION || h->header_size != sizeof *h)
        return "it is of another version of the format";
    for (int i = 0; i < MANIFEST_TABLES; i++) {
        m->at[i] = bytes + (end < size ? end : size);
        end += (uint64_t)h->n[i] * manifest_sizes[i];
    }
    if (h->size != size || end != size || size > MANIFEST_SIZE_MAX)
        return "it is cut short, or longer than it says";
    if (h->checksum != manifest_checksum(bytes, size))
        return "its checksum is wrong";
    if (!h->n_regions)
        m->region = NULL;
    if (!h->names_size || m->names[h->names_size - 1])
        return "its names have no end";
    return check_tables(m);
}

int manifest_open(struct manifest *m, const void *bytes, size_t size, const char **why)
{
    *why = check_bytes(m, bytes, size);
    if (*why)
        memset(m, 0, sizeof *m);
    return *why ? -EINVAL : 0;
}
