/* SPDX-License-Identifier: MIT
 *
 * rimf/store/thaw_later.c: objects that come by dlopen, where and as they came before; when
 * that is right is told in later.h.
 *
 * Where their code runs in copies, store/thaw_later_copies.c tells.
 *
 * Objects of the image carry their number in the frozen image and in its list of later
 * ones, so that a word's object is found again in whatever order they came.
 */
#include "rimf/store/later_private.h"

#include "rimf/base/base.h"
#include "rimf/moved/moved.h"
#include "rimf/store/thaw.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

/* What is unplaced has a number only at a fixed address: of others nothing is learnt, since code that
 * leads to them holds another distance in each process. */
static int has_number(const struct rimf_object *object, const struct frozen_object *frozen)
{
    return !(frozen->flags & FROZEN_UNPLACED) || !object->public.bias;
}

void rimf_later_start(struct mvld_image *image, const struct rimf_table *table,
                      const struct frozen_object *objects, uintptr_t base, uint64_t checksum)
{
    for (uint32_t i = 0; i < table->n_objects; i++)
        table->objects[i]->number = has_number(table->objects[i], &objects[i]) ? i + 1 : 0;
    image->start_base = base;
    image->start_checksum = checksum;
    image->n_start = base ? (uint32_t)table->n_objects : 0;
    if (image->moved) {
        image->moved->start_code = image->moved->code_end;
        image->moved->start_frames = image->moved->frames_end;
        image->moved->n_start_frames = image->moved->n_frames;
    }
}

int rimf_later_fits(const struct mvld_image *image, const struct later *later)
{
    return image->n_start && later->header->n_start == image->n_start &&
           later->header->image == image->start_checksum;
}

/* ---- where ---------------------------------------------------------------------------- */

uintptr_t rimf_later_bias(const struct mvld_image *image, const struct later_object *object)
{
    return image->start_base + (uintptr_t)object->distance;
}

uintptr_t rimf_later_place(const struct mvld_image *image, const struct later *later, uint32_t i)
{
    return rimf_later_bias(image, &later->objects[i]) + later->objects[i].linked;
}

long rimf_later_find(const struct later *later, const struct file_id *identity)
{
    for (uint32_t i = 0; i < later->header->n_objects; i++)
        if (file_id_same(&later->objects[i].file, identity))
            return i;
    return -1;
}

/* ---- which ------------------------------------------------------------------------------ */

/* The object's entry, or NULL: it is not listed, or lies elsewhere. */
static const struct later_object *know(const struct later_batch *b, struct rimf_object *object)
{
    long at = object->identified ? rimf_later_find(b->later, &object->identity) : -1;

    if (at < 0 || object->public.bias != rimf_later_bias(b->image, &b->later->objects[at]) ||
        frozen_build_id(&object->public) != b->later->objects[at].build_id)
        return NULL;
    object->number = b->image->n_start + (uint32_t)at + 1;
    return &b->later->objects[at];
}

int rimf_later_begin(struct later_batch *b, const struct mvld_object *const *objects, size_t n,
                     const char **why)
{
    size_t texts = 0, copies = 0, unknown = 0;

    for (size_t i = 0; i < n; i++) {
        const struct later_object *entry =
            know(b, (struct rimf_object *)rimf_object_of(objects[i]));

        unknown += !entry;
        texts += entry ? entry->n_texts : 0;
        copies += entry && later_has_copy(entry);
    }
    if (texts && rimf_image_is_traced(b->image)) {
        *why = "a debugger may have breakpoints in the code";
        return -EBUSY;
    }
    b->no_copies = "what comes with it is to be learnt";
    if (copies && b->image->moved && !(unknown && rimf_image_learns(b->image)))
        b->writing = canonical_begin(b->image, &b->pins, &b->no_copies);
    return 0;
}

void rimf_later_end(struct later_batch *b)
{
    fixed_addresses_release(&b->pins, b->image);
    if (b->n_copies)
        canonical_write(b->image, b->writing);
    else if (b->writing)
        canonical_leave(b->image, b->writing);
}

/* ---- comparing ---------------------------------------------------------------------------- */

/* One object on its way. */
struct coming {
    struct later_batch *batch;
    struct mvld_image *image;
    const struct later *later;
    const struct later_object *entry;
    const struct frozen_text *texts;
    const struct frozen_word *words;
    struct rimf_object *object;
    const char *why;
};

static int refuse(struct coming *c, int error, const char *why)
{
    c->why = why;
    return error;
}

/* Its entry, and what of the tables belongs to it. */
static void look_up(struct coming *c)
{
    uint32_t i = c->object->number - c->image->n_start - 1;

    c->texts = c->later->texts;
    c->words = c->later->words;
    for (uint32_t k = 0; k < i; k++) {
        c->texts += c->later->objects[k].n_texts;
        c->words += c->later->objects[k].n_words;
    }
    c->entry = &c->later->objects[i];
}

static int compare_words(struct coming *c, struct rimf_object *const *numbered)
{
    for (uint32_t i = 0; i < c->entry->n_words; i++) {
        const struct rimf_object *in = numbered[c->words[i].object];
        const struct rimf_object *to = numbered[c->words[i].to_object];
        uintptr_t address = in ? in->public.bias + c->words[i].linked : 0;

        if (!in || !to)
            return refuse(c, -ESTALE, "an object that its calls lead to is not there");
        if (!elf_holds(&in->view, address, sizeof address, PROT_READ))
            return refuse(c, -ESTALE, "a word lies outside its object");
        if (moved_word(c->image, address) != to->public.bias + c->words[i].to_linked)
            return refuse(c, -ESTALE, "a call leads elsewhere");
    }
    return 0;
}

static int is_kept_home(const struct coming *c)
{
    for (unsigned i = 0; i < RIMF_KEPT_ORIGINALS; i++)
        if (c->image->kept[i] - c->object->public.start <
            c->object->public.end - c->object->public.start)
            return 1;
    return 0;
}

static int compare_code(struct coming *c)
{
    const struct moved_fragment *copy = later_copy_of(c->image, c->entry);

    if (!c->batch->writing)
        return refuse(c, -ESTALE, c->batch->no_copies);
    if (!copy || copy->size || c->object->moved)
        return refuse(c, -ESTALE, "the copy of its code has no place here");
    if (!moved_fits(c->object, copy->original, copy->code) ||
        (copy->original - copy->at) % RIMF_MOVED_ALIGN)
        return refuse(c, -ESTALE, "code that was copied lies outside it");
    if (is_kept_home(c))
        return refuse(c, -ESTALE, "it answers for addresses");
    return canonical_hindered(copy, &c->batch->pins)
               ? refuse(c, -ESTALE, "an address that would change is where none can")
               : 0;
}

static int compare(struct coming *c)
{
    size_t n = c->later->header->n_start + c->later->header->n_objects;
    const struct rimf_table *table;
    struct rimf_object **numbered;
    int error;

    for (uint32_t i = 0; i < c->entry->n_texts; i++)
        if (c->object->public.why || !thaw_is_text(c->object, &c->texts[i]))
            return refuse(c, -ESTALE, "its code lies elsewhere");
    numbered = rimf_heap_alloc(&c->image->heap, n * sizeof *numbered);
    if (!numbered)
        return refuse(c, -ENOMEM, "out of memory");
    table = rimf_table_enter(c->image);
    for (size_t i = 0; i < table->n_objects; i++)
        if (table->objects[i]->number && table->objects[i]->number <= n)
            numbered[table->objects[i]->number - 1] = table->objects[i];
    error = compare_words(c, numbered);
    rimf_table_leave(c->image);
    rimf_heap_release(&c->image->heap, numbered);
    return error || !later_has_copy(c->entry) ? error : compare_code(c);
}

/* ---- mapping -------------------------------------------------------------------------------- */

/* One that is mapped is right, whether the next one can be or not (frozen.h, IDENTITY). */
static int map_texts(struct coming *c, int fd)
{
    for (uint32_t i = 0; i < c->entry->n_texts; i++) {
        long at = frozen_map_text(c->image->sys, c->object->public.bias, &c->texts[i], fd);

        if (sys_failed(at) && i && later_has_copy(c->entry))
            rimf_log(c->image->log, MVLD_LOG_WARNING, "%s: its copy cannot be mapped: what runs "
                     "of it at home takes addresses at home", c->object->public.name);
        if (sys_failed(at))
            return i && later_has_copy(c->entry) ? 0
                                                 : refuse(c, (int)at, "its copy cannot be mapped");
        frozen_want_large(c->image->sys, c->image->filtered, (uintptr_t)at, c->texts[i].size);
        c->object->code_known = 1; /* it was when it was learnt */
    }
    return 0;
}

/* The copy of the code before what leads to it. */
static int lay_over(struct coming *c)
{
    struct later_batch *b = c->batch;
    long fd = later_open_file(c->image, b->folder, b->user,
                              c->later->names + c->entry->copy_name, &c->entry->copy, &c->why);
    int error;

    if (sys_failed(fd))
        return (int)fd;
    error = later_has_copy(c->entry)
                ? later_map_copy(c->image, c->later, c->entry, b->folder, b->user, c->object,
                                 &c->why)
                : 0;
    if (!error) {
        error = map_texts(c, (int)fd);
        if (error && later_has_copy(c->entry))
            later_unmap_copy(c->image, c->entry, c->object);
    }
    sys_close(c->image->sys, (int)fd);
    if (error || !later_has_copy(c->entry))
        return error;
    b->n_copies++;
    if (rimf_log_enabled(c->image->log, MVLD_LOG_PASSES))
        moved_report(c->image, c->object);
    return 0;
}

long rimf_later_thaw(struct later_batch *b, const struct mvld_object *public, const char **why)
{
    struct mvld_image *image = b->image;
    const struct later *later = b->later;
    struct coming c = {.batch = b, .image = image, .later = later,
                       .object = (struct rimf_object *)rimf_object_of(public)};
    int error;

    if (c.object->number <= image->n_start ||
        c.object->number - image->n_start > later->header->n_objects)
        return 0;
    look_up(&c);
    if (!c.entry->n_texts)
        return 0;
    error = compare(&c);
    if (!error)
        error = lay_over(&c);
    *why = c.why;
    return error ? error : (long)c.entry->n_texts;
}
