/* SPDX-License-Identifier: MIT
 *
 * rimf/store/write_moved.c: writes moved code (moved/moved.h) and its unwind tables into one file.
 *
 *     names   header of an ELF file, symbols: whoever meets the file in /proc/PID/maps, or in
 *             a recording of perf, can tell which functions the addresses are in (symfile.h)
 *     code, then the sorted table, then the frames, in whole pages; code that is to lie in
 *     huge pages at an offset that fits them (moved/pages.c)
 *
 * Addresses are as linked of the object whose memory the region is.  The pages do not depend on where they
 * are mapped: they contain distances, as all code does.
 */
#include "rimf/store/writer.h"

#include "rimf/base/base.h"
#include "rimf/moved/moved.h"
#include "rimf/moved/symfile.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

_Static_assert(RIMF_KEPT_ORIGINALS == MANIFEST_KEPT_MAX, "a manifest has room for them");

/* Writes the pieces, from `offset` on, without holes in the file. */
static void fill_region(struct writer *w, const struct mvld_object *object, uint64_t offset)
{
    const struct moved_code *moved = w->image->moved;
    const struct rimf_region *region = &moved->region;
    uintptr_t starts[MANIFEST_PIECES] = {region->code, region->frames,
                                       region->frames + moved_frames_table(region)};
    uintptr_t ends[MANIFEST_PIECES] = {moved->code_end,
                                     region->frames + moved_frames_searched(moved->n_frames),
                                     moved->frames_end};

    *w->region = (struct manifest_region){
        .object = writer_number(w, object),
        .n_frames = (uint32_t)moved->n_frames,
        .code = region->code - object->bias,
        .code_size = region->code_size,
        .frames = region->frames - object->bias,
        .frames_size = region->frames_size,
        .hot = moved->hot_end ? moved->hot_end - region->code : 0,
        .pages = moved->pages,
    };
    for (int i = 0; i < MANIFEST_PIECES; i++) {
        w->region->pieces[i] = (struct manifest_piece){starts[i] - object->bias, ends[i] - starts[i],
                                                     offset};
        offset += ends[i] - starts[i];
    }
    w->header->n_regions = 1;
}

/* So that no start has to sort. */
static int sort_fragments(struct writer *w)
{
    size_t n = 0;

    for (size_t i = 0; i < w->table->n_objects; i++) {
        struct rimf_object *object = w->table->objects[i];

        for (size_t k = 0; k < object->n_fragments && n < w->header->n_fragments; k++)
            w->fragments[n++].sorted = (uint32_t)object->fragments[k].index;
    }
    return n == w->header->n_fragments ? 0 : rimf_fail(w->image, ENOTSUP, "code of no object was moved");
}

static int fill_fragments(struct writer *w, const struct mvld_object *object)
{
    const struct moved_code *moved = w->image->moved;

    for (size_t i = 0; i < moved->n; i++) {
        const struct moved_fragment *fragment = &moved->list[i];

        if (!fragment->size || fragment->object->public.flags & MVLD_OBJECT_UNPLACED)
            return rimf_fail(w->image, ENOTSUP, "%s: its code was moved, and no snapshot can hold that",
                             fragment->object->public.name);
        w->fragments[w->header->n_fragments++] = (struct manifest_fragment){
            .object = writer_number(w, &fragment->object->public),
            .flags = fragment->is_canonical ? MANIFEST_MOVED : 0,
            .original = (uint32_t)(fragment->original - fragment->object->public.bias),
            .n_fixed = (uint32_t)fragment->n_fixed,
            .at = fragment->at - object->bias,
            .code = (uint32_t)fragment->code,
            .size = (uint32_t)fragment->size,
        };
        if (fragment->n_fixed)
            memcpy(w->fixed + w->header->n_fixed, fragment->fixed,
                   fragment->n_fixed * sizeof *fragment->fixed);
        w->header->n_fixed += (uint32_t)fragment->n_fixed;
    }
    return sort_fragments(w);
}

static void fill_kept(struct writer *w)
{
    for (unsigned i = 0; i < RIMF_KEPT_ORIGINALS; i++) {
        const struct rimf_kept *kept = &w->image->feeder.kept[i];
        const struct mvld_object *object = kept->at ? rimf_object_find(w->image, kept->at) : NULL;

        if (object && !(object->flags & MVLD_OBJECT_UNPLACED))
            w->kept[w->header->n_kept++] = (struct manifest_kept){
                .object = writer_number(w, object),
                .number = i,
                .linked = (uint32_t)(kept->at - object->bias),
                .size = (uint32_t)kept->size,
            };
    }
}

static int write_pieces(struct writer *w, const struct mvld_object *object, int fd)
{
    const struct rimf_sys *sys = w->image->sys;
    uint64_t hashes[MANIFEST_PIECES];
    int error = 0;

    for (int i = 0; i < MANIFEST_PIECES && !error; i++) {
        const struct manifest_piece *piece = &w->region->pieces[i];
        const void *pages = (const void *)(object->bias + piece->linked);

        hashes[i] = rimf_hash(pages, piece->size);
        error = cache_write_part(sys, fd, pages, piece->size, piece->offset);
    }
    w->region->hash = rimf_hash(hashes, sizeof hashes);
    return error;
}

static int write_names(struct mvld_image *image, const struct symfile *names, int fd)
{
    size_t size = symfile_size(names);
    void *bytes = rimf_heap_alloc(&image->heap, size);
    int error = bytes ? symfile_write(image, names, bytes) : -ENOMEM;

    if (!error)
        error = cache_write_part(image->sys, fd, bytes, size, 0);
    rimf_heap_release(&image->heap, bytes);
    return error;
}

int write_moved(struct writer *w, int fd, uint64_t *end)
{
    const struct moved_code *moved = w->image->moved;
    const struct mvld_object *object = rimf_object_find(w->image, moved->region.code);
    uintptr_t frames = moved->region.frames + moved_frames_table(&moved->region);
    struct symfile names = {.end = moved->n, .frames = frames, .frames_size = moved->frames_end - frames};
    int error;

    if (!object || object->flags & MVLD_OBJECT_UNPLACED)
        return rimf_fail(w->image, ENOTSUP, "moved code lies where no object is");
    names.base = object->bias;
    symfile_measure(w->image, &names);
    fill_region(w, object, moved_pages_offset(moved, rimf_page_up(symfile_size(&names))));
    names.code_offset = w->region->pieces[MANIFEST_CODE].offset;
    names.frames_offset = w->region->pieces[MANIFEST_FRAMES].offset;
    error = write_names(w->image, &names, fd);
    if (!error)
        error = fill_fragments(w, object);
    fill_kept(w);
    if (!error)
        error = write_pieces(w, object, fd);
    *end = w->region->pieces[MANIFEST_FRAMES].offset + w->region->pieces[MANIFEST_FRAMES].size;
    return error;
}

/* ---- words -------------------------------------------------------------------------------------
 *
 * Writes the relocated words that point to moved code into a manifest;
 * store/manifest.h (ADDRESSES) has the reasons.
 *
 * The words were recorded when they were written (rimf_watch_pointer).  Nothing else points into moved code
 * yet: no code of the program has run, and the library of the region has no relocations.
 */

/* ---- what resolvers chose ------------------------------------------------------------- */

static int is_chosen(const struct mvld_image *image, const struct rimf_object *object,
                     const Elf64_Rela *entry)
{
    struct mvld_symbol definition;

    switch (ELF64_R_TYPE(entry->r_info)) {
    case R_X86_64_IRELATIVE: return 1;
    case R_X86_64_64:
    case R_X86_64_GLOB_DAT:
    case R_X86_64_JUMP_SLOT:
        return !rimf_symbol_bind(image, object, ELF64_R_SYM(entry->r_info), &definition) &&
               definition.type == STT_GNU_IFUNC;
    default: return 0;
    }
}

/* A word whose target is in no file's code never points to moved code, whatever a resolver chooses. */
static int note_choice(struct mvld_image *image, const struct rimf_object *object, uintptr_t word)
{
    const struct mvld_object *to;
    uintptr_t value;

    if (!elf_holds(&object->view, word, sizeof value, PROT_READ))
        return 0;
    to = rimf_object_find(image, moved_word(image, word));
    if (!to || to->flags & MVLD_OBJECT_VDSO)
        return 0;
    if (word % sizeof value)
        return rimf_fail(image, ENOTSUP, "%s: a word that a resolver decides is not aligned",
                         object->public.name);
    return rimf_slot_value(image, object, word, 1, &value, &to) == RIMF_SLOT_LAZY
               ? 0
               : rimf_watch_word(image, word);
}

static int note_table(struct mvld_image *image, const struct rimf_object *object,
                      const Elf64_Rela *entries, size_t n)
{
    int error = 0;

    for (size_t i = 0; i < n && !error; i++)
        if (is_chosen(image, object, &entries[i]))
            error = note_choice(image, object, object->view.bias + entries[i].r_offset);
    return error;
}

int write_choices(struct mvld_image *image, const struct rimf_table *table)
{
    int error = 0;

    for (size_t i = 0; image->watch->pointers.n && i < table->n_objects && !error; i++) {
        const struct rimf_object *object = table->objects[i];
        const struct elf_view *view = &object->view;

        if (object->public.flags &
            (MVLD_OBJECT_OPAQUE | MVLD_OBJECT_VDSO | MVLD_OBJECT_LOADER))
            continue;
        error = note_table(image, object, view->relocations + view->n_relative,
                           view->n_relocations - view->n_relative);
        if (!error)
            error = note_table(image, object, view->plt_relocations, view->n_plt_relocations);
    }
    return error;
}

/* ---- pointers ---------------------------------------------------------------------------- */

static int fill_pointer(struct writer *w, uint32_t index, uintptr_t word)
{
    const struct moved_code *moved = w->image->moved;
    const struct rimf_object *object = w->table->objects[index];
    uintptr_t original = moved_word(w->image, word);
    const struct mvld_object *to = rimf_object_find(w->image, original);
    const struct moved_fragment *fragment = moved_fragment_made(moved, to, original, 1);
    struct manifest_pointer *out = &w->pointers[w->header->n_pointers];
    uintptr_t value;

    memcpy(&value, (const void *)word, sizeof value);
    if (!fragment || value == original || canonical_address(fragment, original) != value)
        return rimf_fail(w->image, ENOTSUP, "%s: a word at %p does not lead to the moved code that it was "
                         "led to", object->public.name, (void *)word);
    *out = (struct manifest_pointer){
        .object = index,
        .linked = (uint32_t)(word - object->public.bias),
        .fragment = (uint32_t)(fragment - moved->list),
        .offset = (uint32_t)(original - fragment->original),
    };
    if (object->public.bias + out->linked != word)
        return rimf_fail(w->image, ENOTSUP, "%s: it is too large", object->public.name);
    w->header->n_pointers++;
    return 0;
}

/* Its index, or the number of all. */
static size_t number_of(const struct writer *w, uintptr_t word)
{
    const struct rimf_word_list *pointers = &w->image->watch->pointers;
    size_t first = rimf_words_first(pointers, word);

    return first < pointers->n && pointers->at[first] == word ? first : pointers->n;
}

int writer_is_moved(const struct writer *w, uintptr_t word)
{
    return number_of(w, word) < w->image->watch->pointers.n;
}

void writer_set_way(struct writer *w, uintptr_t word, enum writer_way way)
{
    size_t number = number_of(w, word);

    if (number < w->image->watch->pointers.n)
        w->ways[number] = (uint8_t)way;
}

static int note_addend(void *cookie, uintptr_t word)
{
    writer_set_way(cookie, word, WRITER_ADDEND);
    return 0;
}

/* By object, like words (store/write_start.c). */
static int fill_way(struct writer *w, enum writer_way way)
{
    const struct rimf_word_list *pointers = &w->image->watch->pointers;
    int error = 0;

    for (uint32_t i = 0; i < w->table->n_objects; i++) {
        const struct mvld_object *object = &w->table->objects[i]->public;
        size_t k = rimf_words_first(pointers, object->start);

        for (; k < pointers->n && pointers->at[k] < object->end && !error; k++)
            if (w->ways[k] == way)
                error = fill_pointer(w, i, pointers->at[k]);
    }
    return error;
}

int write_pointers(struct writer *w)
{
    int error;

    for (size_t i = 0; i < w->table->n_objects; i++)
        if (!(w->table->objects[i]->public.flags & MVLD_OBJECT_UNPLACED))
            elf_relr_each(&w->table->objects[i]->view, note_addend, w);
    error = fill_way(w, WRITER_ADDEND);
    w->header->n_addends = w->header->n_pointers;
    if (!error)
        error = fill_way(w, WRITER_TABLE);
    w->header->n_tabled = w->header->n_pointers - w->header->n_addends;
    return error ? error : fill_way(w, WRITER_WORD);
}
