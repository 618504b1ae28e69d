/* SPDX-License-Identifier: MIT
 *
 * rimf/store/later.c: checks, opens and removes the file of objects that come by dlopen; the
 * format is told in later.h.
 */
#include "store/later.h"

#include "base.h"
#include "cache.h"
#include "sys.h"

#include <errno.h> /* numbers only */

_Static_assert(sizeof(struct later_header) == 64, "a file format");
_Static_assert(sizeof(struct later_object) == 128, "a file format");
_Static_assert(offsetof(struct later_header, checksum) == offsetof(struct manifest_header, checksum),
               "manifest_checksum");

/* ---- checking --------------------------------------------------------------------- */

static const char *check_texts(const struct later *l, uint32_t i, uint64_t first)
{
    const struct later_object *object = &l->objects[i];
    uint64_t last = 0;

    if (object->n_texts > l->header->n_texts - first)
        return "the texts are not those of the objects";
    for (uint64_t k = first; k < first + object->n_texts; k++) {
        const char *why = manifest_check_text(&l->texts[k], &object->copy);

        if (why)
            return why;
        if (l->texts[k].object != i || (k > first && l->texts[k].linked < last))
            return "the texts are not in order";
        last = l->texts[k].linked + l->texts[k].size;
    }
    return NULL;
}

static const char *check_object(const struct later *l, uint32_t i)
{
    const struct later_object *object = &l->objects[i];

    if (object->name >= l->header->names_size || object->copy_name >= l->header->names_size)
        return "an object's name lies outside the names";
    if (file_id_is_none(&object->file))
        return "an object is of no file";
    if (file_id_is_none(&object->copy) ? l->names[object->copy_name] || object->n_texts
                                         : !manifest_is_name(l->names + object->copy_name))
        return "a copy has no proper name";
    if (object->distance % (int64_t)RIMF_PAGE || (object->linked | object->length) % RIMF_PAGE ||
        !object->length || object->length > UINT32_MAX || object->linked > UINT32_MAX)
        return "an object lies at no page";
    return NULL;
}

static const char *check_objects(const struct later *l)
{
    uint64_t texts = 0, words = 0;

    for (uint32_t i = 0; i < l->header->n_objects; i++) {
        const char *why = check_object(l, i);

        if (!why)
            why = check_texts(l, i, texts);
        if (why)
            return why;
        texts += l->objects[i].n_texts;
        words += l->objects[i].n_words;
    }
    return texts == l->header->n_texts && words == l->header->n_words
               ? NULL
               : "texts or words are of no object";
}

static const char *check_words(const struct later *l)
{
    uint64_t n = (uint64_t)l->header->n_start + l->header->n_objects;

    for (uint32_t i = 0; i < l->header->n_words; i++) {
        const struct manifest_word *word = &l->words[i];

        if (word->object >= n || word->to_object >= n)
            return "a word is of no object";
        if (word->linked % sizeof(uint64_t))
            return "a word lies at no word";
    }
    return NULL;
}

static const char *check(struct later *l, const uint8_t *bytes, size_t size)
{
    const struct later_header *h = l->header = (const struct later_header *)bytes;
    uint64_t whole;
    const char *why;

    if (size < sizeof *h || memcmp(h->magic, LATER_MAGIC, sizeof h->magic) != 0)
        return "it is no list of later objects";
    if (h->version != LATER_VERSION || h->header_size != sizeof *h)
        return "it is of another version of the format";
    whole = sizeof *h + (uint64_t)h->n_objects * sizeof *l->objects +
            (uint64_t)h->n_texts * sizeof *l->texts + (uint64_t)h->n_words * sizeof *l->words +
            h->names_size;
    if (h->size != size || whole != size || size > MANIFEST_SIZE_MAX)
        return "it is cut short, or longer than it says";
    if (h->checksum != manifest_checksum(bytes, size))
        return "its checksum is wrong";
    if (!h->n_start || h->n_start > MANIFEST_OBJECTS_MAX || h->n_objects > LATER_OBJECTS_MAX)
        return "it has no objects, or too many";
    l->objects = (const void *)(h + 1);
    l->texts = (const void *)(l->objects + h->n_objects);
    l->words = (const void *)(l->texts + h->n_texts);
    l->names = (const char *)(l->words + h->n_words);
    if (!h->names_size || l->names[h->names_size - 1])
        return "its names have no end";
    why = check_objects(l);
    return why ? why : check_words(l);
}

int later_open(struct later *l, const void *bytes, size_t size, const char **why)
{
    *why = check(l, bytes, size);
    if (*why)
        memset(l, 0, sizeof *l);
    return *why ? -EINVAL : 0;
}

/* ---- files ------------------------------------------------------------------------- */

int later_map(struct later_file *file, const struct rimf_sys *sys, int folder, uint32_t user,
              const char **why)
{
    int error;

    *file = (struct later_file){.map = NULL};
    error = cache_map(sys, folder, LATER_FILE, user, sizeof(struct later_header), MANIFEST_SIZE_MAX,
                      &file->map, &file->size, why);
    if (!error)
        error = later_open(&file->view, file->map, file->size, why);
    if (error)
        later_unmap(file, sys);
    return error;
}

void later_unmap(struct later_file *file, const struct rimf_sys *sys)
{
    if (file->map)
        sys_munmap(sys, (uintptr_t)file->map, file->size);
    *file = (struct later_file){.map = NULL};
}
