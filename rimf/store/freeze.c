/* SPDX-License-Identifier: MIT
 *
 * rimf/store/freeze.c: writes what passes did to the code of this process as a frozen
 * image (frozen.h).
 *
 * Passes say which objects they changed and which words they relied on; everything
 * else is read off the image: the files, the distances, the text as it is now.  The
 * copies are written and synced before the file `image`, without which a folder is
 * no frozen image; so a machine that stops in between leaves nothing that is taken.
 */
#include "rimf/store/freeze.h"
#include "rimf/store/thaw.h"

#include "rimf/base/base.h"
#include "rimf/base/cpu.h"
#include "rimf/moved/moved.h"

#include <errno.h> /* numbers only */
#include <fcntl.h> /* numbers only */

/* ---- the file `image` ------------------------------------------------------------- */

uint32_t freeze_index(const struct freeze *f, const struct mvld_object *object)
{
    uint32_t i = 0;

    while (i < f->table->n_objects && &f->table->objects[i]->public != object)
        i++;
    return i;
}

static uint32_t add_name(struct freeze *f, const char *name)
{
    uint32_t at = f->header->names_size;
    size_t size = rimf_strlen(name) + 1;

    memcpy(f->names + at, name, size);
    f->header->names_size += (uint32_t)size;
    return at;
}

void freeze_name(char *to, size_t size, uint32_t index, const struct rimf_object *object)
{
    const char *name = object->public.name, *slash = rimf_strrchr(name, '/');

    rimf_format(to, size, "%u-%.200s", index, slash ? slash + 1 : name);
}

static int fill_object(struct freeze *f, uint32_t i)
{
    const struct rimf_object *object = f->table->objects[i];
    struct frozen_object *out = &f->objects[i];
    char name[FROZEN_NAME_MAX + 1];

    out->name = add_name(f, object->public.name);
    if (object->changed) { /* else it is 0, where "" stands */
        freeze_name(name, sizeof name, i, object);
        out->copy_name = add_name(f, name);
    }
    if (object->public.flags & MVLD_OBJECT_UNPLACED)
        out->flags = FROZEN_UNPLACED;
    if (object->public.flags & MVLD_OBJECT_VDSO)
        return 0;
    if (!object->identified)
        return rimf_fail(f->image, ENOTSUP, "%s: from which file it was mapped is not known",
                         object->public.name);
    out->file = object->identity;
    out->build_id = frozen_build_id(&object->public);
    out->first = (uint32_t)(rimf_page_down(object->public.start) - object->public.bias);
    if (!out->flags)
        out->distance = (int64_t)(object->public.bias - f->base);
    return 0;
}

static int fill_word(struct freeze *f, uintptr_t address)
{
    uintptr_t value = moved_word(f->image, address);
    const struct mvld_object *in = rimf_object_find(f->image, address);
    const struct mvld_object *to = rimf_object_find(f->image, value);
    struct frozen_word *out = &f->words[f->header->n_words];

    if (!in || !to)
        return rimf_fail(f->image, ENOTSUP, "a pass relies on a word at %p that leads to no object",
                         (void *)address);
    if (to->flags & MVLD_OBJECT_VDSO)
        return rimf_fail(f->image, ENOTSUP, "a pass relies on the vDSO, which has no file");
    *out = (struct frozen_word){
        .object = freeze_index(f, in),
        .linked = (uint32_t)(address - in->bias),
        .to_object = freeze_index(f, to),
        .to_linked = (uint32_t)(value - to->bias),
    };
    if (in->bias + out->linked != address || to->bias + out->to_linked != value)
        return rimf_fail(f->image, ENOTSUP, "%s: it is too large", in->name);
    f->header->n_words++;
    return 0;
}

/* By object, not by address: distances may be negative. */
static int fill_words(struct freeze *f, const struct rimf_watch *watch)
{
    int error = 0;

    for (uint32_t i = 0; i < f->table->n_objects; i++) {
        const struct mvld_object *object = &f->table->objects[i]->public;

        for (size_t k = 0; !error && k < watch->n; k++)
            if (watch->words[k] >= object->start && watch->words[k] < object->end)
                error = fill_word(f, watch->words[k]);
    }
    return error;
}

/* ---- all of it ------------------------------------------------------------------------ */

static int fill(struct freeze *f, const struct rimf_watch *watch)
{
    int error = 0;

    for (uint32_t i = 0; !error && i < f->table->n_objects; i++)
        error = fill_object(f, i);
    if (!error)
        error = fill_words(f, watch);
    for (uint32_t i = 0; !error && i < f->table->n_objects; i++)
        if (f->table->objects[i]->changed)
            error = freeze_file(f, i);
    if (!error)
        error = freeze_copies(f);
    if (!error) /* into the same file */
        error = freeze_relocations(f);
    return error ? error : freeze_pointers(f, watch);
}

uint8_t *freeze_pack(uint8_t *to, const void *from, size_t size)
{
    memmove(to, from, size);
    return to + size;
}

/* The tables were filled with room between them. */
static size_t close_gaps(struct freeze *f)
{
    struct frozen_header *h = f->header;
    uint8_t *end = (uint8_t *)f->texts + h->n_texts * sizeof *f->texts;

    end = freeze_pack(end, f->words, h->n_words * sizeof *f->words);
    end = freeze_pack(end, f->relocations, h->n_relocations * sizeof *f->relocations);
    end = freeze_pack(end, f->shifts, h->n_shifts * sizeof *f->shifts);
    end = freeze_pack(end, f->region, h->n_regions * sizeof *f->region);
    end = freeze_pack(end, f->copies, h->n_copies * sizeof *f->copies);
    end = freeze_pack(end, f->homes, h->n_homes * sizeof *f->homes);
    end = freeze_pack(end, f->pointers, h->n_pointers * sizeof *f->pointers);
    end = freeze_pack(end, f->kept, h->n_kept * sizeof *f->kept);
    end = freeze_pack(end, f->names, h->names_size);
    h->size = (uint64_t)(end - f->bytes);
    h->checksum = frozen_checksum(f->bytes, h->size);
    return h->size;
}

static int write_image(struct freeze *f)
{
    const struct rimf_sys *sys = f->image->sys;
    int error = freeze_whole(sys, f->folder, "image", f->bytes, close_gaps(f));

    return error ? rimf_fail(f->image, -error, "the image cannot be written (error %d)", -error)
                 : 0;
}

static size_t name_size(const char *name)
{
    return name ? rimf_strlen(name) + 1 : 0;
}

static void fill_passes(struct freeze *f)
{
    for (size_t i = 0; i < f->image->n_makers; i++) {
        const struct rimf_maker *maker = &f->image->makers[i];

        f->header->passes[f->header->n_passes++] = (struct frozen_pass){
            .name = add_name(f, maker->name),
            .library = maker->library ? add_name(f, maker->library) : 0,
            .flags = maker->flags,
            .file = (uint32_t)file_id_key(&maker->file),
        };
    }
}

static void fill_reads(struct freeze *f)
{
    for (size_t i = 0; i < f->image->n_reads; i++) {
        const struct rimf_read *read = &f->image->reads[i];

        f->header->reads[f->header->n_reads++] =
            (struct frozen_read){.name = add_name(f, read->path), .file = read->file};
    }
}

/* Room for everything, at most; the counts grow as it is filled. */
static int make_room(struct freeze *f, const struct rimf_watch *watch)
{
    size_t texts = 0, names = 1 + name_size(f->told), n = f->table->n_objects;
    size_t copies = f->image->moved ? f->image->moved->n : 0, homes = 0, shifts = 0;

    for (size_t i = 0; i < f->image->n_makers; i++)
        names += name_size(f->image->makers[i].name) + name_size(f->image->makers[i].library);
    for (size_t i = 0; i < f->image->n_reads; i++)
        names += name_size(f->image->reads[i].path);
    for (size_t i = 0; i < copies; i++)
        homes += f->image->moved->list[i].n_homes;
    for (size_t i = 0; i < n; i++) {
        texts += f->table->objects[i]->public.phnum;
        shifts += f->table->objects[i]->view.n_relocations + f->table->objects[i]->view.n_plt_relocations;
        names += rimf_strlen(f->table->objects[i]->public.name) + FROZEN_NAME_MAX + 2;
    }
    f->bytes = rimf_heap_alloc(&f->image->heap, sizeof *f->header + n * sizeof *f->objects +
                                                    texts * sizeof *f->texts +
                                                    watch->n * sizeof *f->words +
                                                    n * sizeof *f->relocations +
                                                    shifts * sizeof *f->shifts + sizeof *f->region +
                                                    copies * sizeof *f->copies +
                                                    homes * sizeof *f->homes +
                                                    watch->n_pointers * sizeof *f->pointers +
                                                    FROZEN_KEPT_MAX * sizeof *f->kept + names);
    f->ways = rimf_heap_alloc(&f->image->heap, watch->n_pointers + 1);
    if (!f->bytes || !f->ways)
        return rimf_fail(f->image, ENOMEM, "there is no memory to freeze the image");
    f->header = (struct frozen_header *)f->bytes;
    f->objects = (struct frozen_object *)(f->header + 1);
    f->texts = (struct frozen_text *)(f->objects + n);
    f->words = (struct frozen_word *)(f->texts + texts);
    f->relocations = (struct frozen_relocations *)(f->words + watch->n);
    f->shifts = (struct frozen_shift *)(f->relocations + n);
    f->region = (struct frozen_region *)(f->shifts + shifts);
    f->copies = (struct frozen_copy *)(f->region + 1);
    f->homes = (struct analysis_home *)(f->copies + copies);
    f->pointers = (struct frozen_pointer *)(f->homes + homes);
    f->kept = (struct frozen_kept *)(f->pointers + watch->n_pointers);
    f->names = (char *)(f->kept + FROZEN_KEPT_MAX);
    memset(f->ways, FREEZE_WORD, watch->n_pointers);
    *f->header = (struct frozen_header){
        .magic = FROZEN_MAGIC,
        .version = FROZEN_VERSION,
        .header_size = sizeof *f->header,
        .pipeline = f->pipeline,
        .layout_seed = f->layout_seed,
        .cpu = cpu_identity(&cpu_at_hand),
        .n_objects = (uint32_t)n,
        .names_size = 1, /* "", for those that have no name */
    };
    fill_passes(f);
    fill_reads(f);
    f->header->told = f->told ? add_name(f, f->told) : 0;
    return 0;
}

static uintptr_t find_base(const struct rimf_table *table)
{
    for (size_t i = 0; i < table->n_objects; i++)
        if (!(table->objects[i]->public.flags & MVLD_OBJECT_UNPLACED))
            return table->objects[i]->public.bias;
    return 0;
}

static size_t count_changed(const struct rimf_table *table)
{
    size_t n = 0;

    for (size_t i = 0; i < table->n_objects; i++)
        n += table->objects[i]->changed != 0;
    return n;
}

/* Makes and opens f->folder, where code may be mapped from files: else no start could use the
 * image, and with on-miss = build each would write a new one. */
static int make_folder(struct freeze *f, const char *folder)
{
    const struct rimf_sys *sys = f->image->sys;
    long error = SYS3(sys, SYS_mkdirat, AT_FDCWD, folder, 0755), fd;

    if (error)
        return rimf_fail(f->image, (int)-error, "%s: the folder cannot be made (error %ld)",
                         folder, -error);
    fd = sys_openat(sys, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW, 0);
    if (sys_failed(fd))
        error = rimf_fail(f->image, (int)-fd, "%s: the folder cannot be opened (error %ld)",
                          folder, -fd);
    else if (!freeze_may_run(sys, (int)fd))
        error = rimf_fail(f->image, EACCES, "%s: no code may be mapped from there (noexec)", folder);
    if (!error) {
        f->folder = (int)fd;
        return 0;
    }
    if (!sys_failed(fd))
        sys_close(sys, (int)fd);
    return (int)error;
}

/* What it says of files will be said of no others. */
static int settle(const struct freeze *f)
{
    const struct mvld_image *image = f->image;
    const char *name = NULL, *why = NULL;

    for (uint32_t i = 0; i < f->table->n_objects && !why; i++) {
        name = f->table->objects[i]->public.name;
        if (f->table->objects[i]->identified)
            why = file_id_unsettled(image->sys, &f->table->objects[i]->identity, name);
    }
    for (size_t i = 0; i < image->n_makers && !why; i++) {
        name = image->makers[i].path;
        why = file_id_unsettled(image->sys, &image->makers[i].file, name);
    }
    for (size_t i = 0; i < image->n_reads && !why; i++) {
        name = image->reads[i].path;
        if (!file_id_is_none(&image->reads[i].file))
            why = file_id_unsettled(image->sys, &image->reads[i].file, name);
    }
    return why ? rimf_fail(f->image, EAGAIN, "%s: %s", name, why) : 0;
}

static int freeze(struct freeze *f, const struct rimf_watch *watch, const char *folder)
{
    int error;

    if (!count_changed(f->table))
        return rimf_fail(f->image, ENODATA, "no pass changed any code");
    error = settle(f);
    if (!error)
        error = make_room(f, watch);
    if (!error)
        error = make_folder(f, folder);
    if (error)
        return error;
    error = fill(f, watch);
    if (!error)
        error = write_image(f);
    sys_close(f->image->sys, f->folder);
    return error;
}

void rimf_image_set_makers(struct mvld_image *image, const struct rimf_maker *makers, size_t n)
{
    image->n_makers = n > FROZEN_PASSES_MAX ? 0 : n;
    for (size_t i = 0; i < image->n_makers; i++)
        image->makers[i] = makers[i];
}

void rimf_image_add_read(struct mvld_image *image, const char *path, const struct file_id *file)
{
    if (image->n_reads < FROZEN_READS_MAX)
        image->reads[image->n_reads] = (struct rimf_read){path, *file};
    image->n_reads++;
}

static int freeze_watched(struct mvld_image *image, const char *folder, uint64_t pipeline,
                          uint64_t drawn, const char *told)
{
    struct freeze f = {.image = image, .pipeline = pipeline, .layout_seed = drawn, .told = told};
    int error;

    if (!image->watch)
        return rimf_fail(image, ENOMEM, "there was no memory to note what the passes did");
    if (image->n_reads > FROZEN_READS_MAX)
        return rimf_fail(image, E2BIG, "the passes read more than %u files", FROZEN_READS_MAX);
    if (rimf_image_is_traced(image))
        return rimf_fail(image, EBUSY, "a debugger may have breakpoints in the code");
    f.table = rimf_table_enter(image);
    f.base = find_base(f.table);
    error = freeze_choices(image, f.table);
    if (rimf_watch_finish(image))
        error = rimf_fail(image, ENOMEM, "there was no memory to note what the passes did");
    if (!error)
        error = freeze(&f, image->watch, folder);
    if (!error)
        rimf_later_start(image, f.table, f.objects, f.base, f.header->checksum);
    rimf_table_leave(image);
    rimf_heap_release(&image->heap, f.bytes);
    rimf_heap_release(&image->heap, f.ways);
    return error;
}

int rimf_image_freeze(struct mvld_image *image, const char *folder, uint64_t pipeline,
                      uint64_t drawn, const char *told)
{
    int error = freeze_watched(image, folder, pipeline, drawn, told);

    rimf_watch_end(image);
    return error;
}
