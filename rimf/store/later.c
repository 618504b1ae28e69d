/* SPDX-License-Identifier: MIT
 *
 * rimf/store/later.c: checks, opens and removes the file of objects that come by dlopen; the
 * format is told in later.h.
 */
#include "rimf/store/later.h"

#include "rimf/base/base.h"
#include "rimf/base/cache.h"
#include "rimf/base/sys.h"

#include <errno.h> /* numbers only */

_Static_assert(sizeof(struct later_header) == 160, "a file format");
_Static_assert(sizeof(struct later_object) == 232, "a file format");
_Static_assert(offsetof(struct later_header, checksum) == offsetof(struct frozen_header, checksum),
               "frozen_checksum");

/* ---- checking --------------------------------------------------------------------- */

static const char *check_texts(const struct later *l, uint32_t i, uint64_t first)
{
    const struct later_object *object = &l->objects[i];
    uint64_t last = 0;

    if (object->n_texts > l->header->n_texts - first)
        return "the texts are not those of the objects";
    for (uint64_t k = first; k < first + object->n_texts; k++) {
        const char *why = frozen_check_text(&l->texts[k], &object->copy);

        if (why)
            return why;
        if (l->texts[k].object != i || (k > first && l->texts[k].linked < last))
            return "the texts are not in order";
        last = l->texts[k].linked + l->texts[k].size;
    }
    return NULL;
}

/* [from, from + size) of whole pages, up to `end`. */
static int is_within(uint64_t from, uint64_t size, uint64_t start, uint64_t end)
{
    return from >= start && from <= end && size <= end - from;
}

static const char *check_homes(const struct later *l, const struct later_code *code,
                               uint64_t first)
{
    uint64_t last = 0;

    if (code->n_homes > l->header->n_homes - first)
        return "addresses that stay are of no copy";
    for (uint64_t i = first; i < first + code->n_homes; i++) {
        const struct analysis_home *home = &l->homes[i];

        if (home->start < last || !is_within(home->start, home->size, 0, code->code))
            return "addresses that stay lie outside the copy";
        last = (uint64_t)home->start + home->size;
    }
    return NULL;
}

/* A call may be the last instruction, and what it returns to has a home, too. */
static const char *check_code(const struct later *l, const struct later_object *object)
{
    const struct later_code *code = &object->code;
    const struct later_table *table = &l->header->table;
    uint64_t at = rimf_page_down(code->at), pages, frames = rimf_page_up(code->frames_size);

    if (code->name >= l->header->names_size || code->zero || code->flags & ~FROZEN_MOVED)
        return "a copy of code is not understood";
    if (file_id_is_none(&code->file))
        return l->names[code->name] || code->n_homes ? "a copy of code has no proper name" : NULL;
    if (!frozen_is_name(l->names + code->name))
        return "a copy of code has no proper name";
    if (!object->n_texts || !code->code || code->size <= code->code ||
        code->at > table->code_end || file_id_is_none(&table->file))
        return "a copy of code is of no code";
    pages = rimf_page_up(code->at + code->size) - at;
    if (!is_within(at, pages, table->code, table->code_end) || code->frames % RIMF_PAGE ||
        !is_within(code->frames, frames, table->frames, table->frames_end))
        return "a copy of code lies outside the region";
    if (code->offset % RIMF_PAGE ||
        !is_within(code->offset, pages + frames, 0, rimf_page_up(code->file.size)))
        return "a copy of code lies outside its file";
    return NULL;
}

static const char *check_table(const struct later *l)
{
    const struct later_table *table = &l->header->table;

    if (table->name >= l->header->names_size || table->zero)
        return "the unwind table is not understood";
    if (file_id_is_none(&table->file))
        return l->names[table->name] || table->n ? "the unwind table has no proper name" : NULL;
    if (!frozen_is_name(l->names + table->name))
        return "the unwind table has no proper name";
    if ((table->code | table->code_end | table->frames | table->frames_end) % RIMF_PAGE ||
        table->code > table->code_end || table->frames > table->frames_end ||
        table->code_end > UINT32_MAX || table->frames_end > UINT32_MAX ||
        table->n_start > table->n || moved_frames_searched(table->n) > table->file.size)
        return "the unwind table is of other places";
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
                                         : !frozen_is_name(l->names + object->copy_name))
        return "a copy has no proper name";
    if (object->distance % (int64_t)RIMF_PAGE || (object->linked | object->length) % RIMF_PAGE ||
        !object->length || object->length > UINT32_MAX || object->linked > UINT32_MAX)
        return "an object lies at no page";
    return check_code(l, object);
}

static const char *check_objects(const struct later *l)
{
    uint64_t texts = 0, words = 0, homes = 0;

    for (uint32_t i = 0; i < l->header->n_objects; i++) {
        const char *why = check_object(l, i);

        if (!why)
            why = check_texts(l, i, texts);
        if (!why)
            why = check_homes(l, &l->objects[i].code, homes);
        if (why)
            return why;
        texts += l->objects[i].n_texts;
        words += l->objects[i].n_words;
        homes += l->objects[i].code.n_homes;
    }
    return texts == l->header->n_texts && words == l->header->n_words &&
                   homes == l->header->n_homes
               ? NULL
               : "texts or words are of no object";
}

static const char *check_words(const struct later *l)
{
    uint64_t n = (uint64_t)l->header->n_start + l->header->n_objects;

    for (uint32_t i = 0; i < l->header->n_words; i++) {
        const struct frozen_word *word = &l->words[i];

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
            (uint64_t)h->n_homes * sizeof *l->homes + h->names_size;
    if (h->size != size || whole != size || size > FROZEN_SIZE_MAX)
        return "it is cut short, or longer than it says";
    if (h->checksum != frozen_checksum(bytes, size))
        return "its checksum is wrong";
    if (!h->n_start || h->n_start > FROZEN_OBJECTS_MAX || h->n_objects > LATER_OBJECTS_MAX)
        return "it has no objects, or too many";
    l->objects = (const void *)(h + 1);
    l->texts = (const void *)(l->objects + h->n_objects);
    l->words = (const void *)(l->texts + h->n_texts);
    l->homes = (const void *)(l->words + h->n_words);
    l->names = (const char *)(l->homes + h->n_homes);
    if (!h->names_size || l->names[h->names_size - 1])
        return "its names have no end";
    why = check_table(l);
    if (!why)
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
    error = cache_map(sys, folder, LATER_FILE, user, sizeof(struct later_header), FROZEN_SIZE_MAX,
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
