/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/canonical.c: which functions have the address of their copy (moved/moved.h), and when
 * that becomes true.
 *
 * It is decided before the first byte of a batch is copied, because operands of copies lead
 * accordingly:
 *
 *     copy_identity_plan      no code of the objects has run; what holds addresses can be
 *                             read, and is writable now (RELRO is opened)
 *     …                       copies, answers, operands at home
 *     copy_identity_write     all slots, of all objects that hold any; RELRO is closed
 *     copy_identity_leave     instead of it: RELRO is closed, nothing was written
 *
 * From a frozen image it comes as it was decided when that was made (store/apply_moved.c), and so do
 * the words (store/apply_pointers.c).
 *
 * A function keeps its address at home when its object's analysis says so (analysis/analysis.h, HOMES),
 * and when it is pinned (moved/pins.c).
 */
#include "rimf/moved/moved.h"

#include "rimf/base/base.h"
#include "rimf/image/private.h"
#include "mvld/descriptor.h"

#include <errno.h> /* numbers only */

/* ---- the function ------------------------------------------------------------------ */

static int keeps_home(const struct rimf_copy *copy, uintptr_t offset)
{
    size_t low = 0, high = copy->n_homes;

    while (low < high) { /* the last that begins at or before it */
        size_t middle = low + (high - low) / 2;

        if (copy->homes[middle].start <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low && offset - copy->homes[low - 1].start < copy->homes[low - 1].size;
}

uintptr_t copy_identity(const struct rimf_copy *copy, uintptr_t home)
{
    uintptr_t offset = home - copy->home;

    return copy->moved && offset < copy->code &&
                   __atomic_load_n(&copy->size, __ATOMIC_RELAXED) &&
                   !keeps_home(copy, offset)
               ? copy->at + offset
               : home;
}

uintptr_t copying_identity(const struct copying *c, uintptr_t home)
{
    const struct rimf_copy *copy = c->copy; /* most likely */

    if (!copy || home - copy->home >= copy->code)
        copy = copies_fragment(c->image->copies, c->object, home);
    return copy ? copy_identity(copy, home) : home;
}

/* As rimf_copy_find, in any thread. */
uintptr_t rimf_identity(const struct mvld_image *image, uintptr_t home)
{
    const struct rimf_copies *copies = __atomic_load_n(&image->copies, __ATOMIC_ACQUIRE);
    const struct rimf_copy *copy =
        copies ? copies_fragment_made(copies, rimf_object_find(image, home), home, 1) : NULL;

    return copy ? copy_identity(copy, home) : home;
}

/* ---- the plan of one copy ------------------------------------------------------------------ */

/* Sorted.  Without room, counts. */
static void add_home(struct rimf_copy *copy, uint32_t start, uint32_t size)
{
    size_t at = copy->n_homes++;

    for (; copy->homes && at && copy->homes[at - 1].start > start; at--)
        copy->homes[at] = copy->homes[at - 1];
    if (copy->homes)
        copy->homes[at] = (struct analysis_home){start, size};
}

/* The first that ends behind `start`. */
static size_t first_home(const struct analysis *s, uint64_t start)
{
    size_t low = 0, high = s->n_homes;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if ((uint64_t)s->homes[middle].start + s->homes[middle].size <= start)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void take_homes(struct rimf_copy *copy, const struct analysis *s, uintptr_t bias)
{
    uint64_t first = copy->home - bias, end = first + copy->code;

    for (size_t i = first_home(s, first); i < s->n_homes && s->homes[i].start < end; i++) {
        uint64_t from = s->homes[i].start, to = from + s->homes[i].size;

        from = from < first ? first : from;
        to = to > end ? end : to;
        if (from < to)
            add_home(copy, (uint32_t)(from - first), (uint32_t)(to - from));
    }
}

static void take_pins(struct rimf_copy *copy, const struct analysis *s, uintptr_t bias,
                      const struct copy_pins *pins)
{
    for (size_t i = rimf_words_first(pins->at, pins->n, copy->home);
         i < pins->n && pins->at[i] - copy->home < copy->code; i++) {
        const struct analysis_unit *unit = analysis_unit_at(s, (uint32_t)(pins->at[i] - bias));
        uint32_t start = unit ? (uint32_t)(bias + unit->start - copy->home) : 0;

        if (unit && !(copy->homes && keeps_home(copy, start)))
            add_home(copy, start, unit->size);
    }
}

static int is_all_home(const struct analysis *s)
{
    for (size_t i = 0; i < s->n_segments; i++)
        if (i >= s->n_homes || s->homes[i].start != s->segments[i].start ||
            s->homes[i].size < s->segments[i].size)
            return 0;
    return 1;
}

/* Why addresses of the object's code stay at home, or NULL. */
static const char *stays(const struct rimf_object *object, const struct analysis *s,
                         const char *why)
{
    int noted;

    if (!s)
        return why;
    if (!s->homes)
        return "its analysis does not say whose addresses stay";
    if (is_all_home(s))
        return "it computes with addresses of its code, or asks whose they are";
    noted = elf_note_each(&object->view, MULTIVERSE_NOTE_NAME, MULTIVERSE_NOTE_TABLES, NULL, NULL);
    return noted > 0   ? "multiverse knows its functions by their addresses"
           : noted < 0 ? "its notes do not say whether multiverse knows its functions by their addresses"
                       : NULL;
}

/* Of the list's index-th.  0, or -ENOMEM. */
static int plan(struct mvld_image *image, size_t index, const struct copy_pins *pins)
{
    struct rimf_copy *copy = &image->copies->list[index];
    struct rimf_object *object = (struct rimf_object *)copy->object;
    uintptr_t bias = object->view.bias;
    const char *why;
    const struct analysis *s = rimf_analysis_whole(image, object, &why);

    why = stays(object, s, why);
    if (why) {
        if (copies_is_first(image->copies, index))
            rimf_log(image->log, MVLD_LOG_PASSES, "%s: addresses stay at home: %s",
                     object->public.name, why);
        return 0;
    }
    take_homes(copy, s, bias);
    take_pins(copy, s, bias, pins);
    if (copy->n_homes) {
        copy->homes = rimf_heap_alloc(&image->heap, copy->n_homes * sizeof *copy->homes);
        if (!copy->homes)
            return -ENOMEM;
    }
    copy->n_homes = 0;
    take_homes(copy, s, bias);
    take_pins(copy, s, bias, pins);
    copy->moved = 1;
    return 0;
}

static void forget_plans(struct mvld_image *image)
{
    struct rimf_copies *copies = image->copies;

    for (size_t i = copies->n; i < copies->n_planned; i++) {
        struct rimf_copy *copy = &copies->list[i];

        rimf_heap_release(&image->heap, copy->homes);
        copy->homes = NULL;
        copy->n_homes = 0;
        copy->moved = 0;
    }
}

/* The words of one whose code is to be copied were led to where they stay. */
static int is_settled(const struct rimf_copies *copies)
{
    for (size_t i = copies->n; i < copies->n_planned; i++)
        if (copies->list[i].object->settled)
            return 1;
    return 0;
}

/* Why addresses stay at home, all of them, or NULL. */
static const char *stay(const struct mvld_image *image, const struct rimf_table *table)
{
    if (image->entered && is_settled(image->copies))
        return "what came with them is from an image";
    if (image->entered)
        return image->unentered ? NULL : "constructors may have run";
    for (size_t i = 0; i < table->n_objects; i++)
        if (table->objects[i]->public.flags & MVLD_OBJECT_OPAQUE &&
            !(table->objects[i]->public.flags & (MVLD_OBJECT_VDSO | MVLD_OBJECT_LOADER)))
            return "what an object holds cannot be read";
    return copy_slots_copied(image, table, NULL, NULL) < 0
               ? "a variable that was copied to the executable is not found"
               : NULL;
}

static const char *plan_all(struct mvld_image *image, const struct rimf_table *table)
{
    struct rimf_copies *copies = image->copies;
    struct copy_pins pins;
    int error = copy_pins_find(&pins, image, table);

    for (size_t i = copies->n; i < copies->n_planned && !error; i++)
        error = plan(image, i, &pins);
    copy_pins_release(&pins, image);
    return error ? "memory is short" : NULL;
}

/* ---- a batch ---------------------------------------------------------------------------------- */

/* NULL, or a sentence, and nothing is open. */
static const char *open_words(struct mvld_image *image, const struct rimf_table *table,
                              struct copy_writing **writing)
{
    const char *why;

    *writing = copy_slots_prepare(image, table);
    why = *writing ? copy_relro_open(image, table) : "memory is short";
    if (!why)
        return NULL;
    rimf_heap_release(&image->heap, *writing);
    *writing = NULL;
    return why;
}

struct copy_writing *copy_identity_plan(struct mvld_image *image)
{
    const struct rimf_table *table = rimf_table_enter(image);
    const char *why = stay(image, table);
    struct copy_writing *writing = NULL;

    if (!why)
        why = plan_all(image, table);
    if (!why)
        why = open_words(image, table, &writing);
    rimf_table_leave(image);
    if (!why)
        return writing;
    forget_plans(image);
    rimf_log(image->log, MVLD_LOG_PASSES, "copies: addresses stay at home: %s", why);
    return NULL;
}

static void settle(const struct rimf_table *table)
{
    for (size_t i = 0; i < table->n_objects; i++)
        table->objects[i]->settled = 1;
}

void copy_identity_leave(struct mvld_image *image, struct copy_writing *writing)
{
    const struct rimf_table *table = rimf_table_enter(image);

    copy_relro_close(image, table);
    rimf_table_leave(image);
    forget_plans(image);
    rimf_heap_release(&image->heap, writing);
}

void copy_identity_write(struct mvld_image *image, struct copy_writing *writing)
{
    const struct rimf_table *table = rimf_table_enter(image);

    if (writing) {
        rimf_log(image->log, MVLD_LOG_PASSES, "copies: %zu pointers lead to them",
                 copy_slots_write(writing, table));
        settle(table);
    }
    copy_relro_close(image, table);
    rimf_table_leave(image);
    rimf_heap_release(&image->heap, writing);
}

/* ---- objects without a batch -------------------------------------------------------------------- */

static int is_all_settled(const struct rimf_table *table)
{
    size_t i = 0;

    while (i < table->n_objects && table->objects[i]->settled)
        i++;
    return i == table->n_objects;
}

void rimf_image_finish(struct mvld_image *image)
{
    const struct rimf_table *table = rimf_table_enter(image);
    int write = image->copies && image->copies->n && image->entered && !is_all_settled(table);
    const char *why = image->unentered ? NULL : "constructors may have run";
    struct copy_writing *writing = NULL;

    if (write && !why)
        why = open_words(image, table, &writing);
    if (writing)
        copy_identity_write(image, writing);
    else
        settle(table);
    if (write && why)
        rimf_log(image->log, MVLD_LOG_PASSES, "copies: pointers of what came lead home: %s", why);
    rimf_table_leave(image);
    image->entered = 1;
}
