/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/pointers.c: decides which functions have their moved code as the canonical address (the psABI's word
 * for the address that all objects use for a function), and writes that address into all pointers.
 *
 * The decision precedes the first byte of a batch, because operands of moved code depend on it:
 *
 *     canonical_plan      no code of the objects has run; words that hold addresses can be
 *                             read, and are writable (RELRO is opened)
 *     …                       moved code, caller hooks, operands of originals
 *     canonical_end       all slots are written, of all objects that hold any, or after a failure none;
 *                             RELRO is closed
 *
 * A snapshot contains the decision and the words (store/apply_moved.c).
 *
 * The canonical address is the original if the object's analysis says so (analysis/analysis.h, FIXED_CODE),
 * if the original must run, or if a slot holds it that cannot be changed for certain: in memory that is not
 * writable as linked, or in the initial image of thread-local variables, which the first thread has already
 * copied.
 */
#include "rimf/moved/moved.h"

#include "rimf/base/base.h"
#include "rimf/elf/headers.h"
#include "rimf/image/private.h"
#include "mvld/descriptor.h"

#include <errno.h> /* numbers only */

/* ---- the canonical address --------------------------------------------------------------------- */

int canonical_stays(const struct moved_fragment *fragment, uintptr_t offset)
{
    size_t begun = RIMF_BISECT(i, fragment->n_fixed, fragment->fixed[i].start <= offset);

    return begun && offset - fragment->fixed[begun - 1].start < fragment->fixed[begun - 1].size;
}

uintptr_t canonical_address(const struct moved_fragment *fragment, uintptr_t original)
{
    uintptr_t offset = original - fragment->original;

    return fragment->is_canonical && offset < fragment->code &&
                   __atomic_load_n(&fragment->size, __ATOMIC_RELAXED) &&
                   !canonical_stays(fragment, offset)
               ? fragment->at + offset
               : original;
}

uintptr_t moving_canonical(const struct moving *c, uintptr_t original)
{
    const struct moved_fragment *fragment = c->fragment; /* most likely */

    if (!fragment || original - fragment->original >= fragment->code)
        fragment = moved_fragment_at(c->image->moved, c->object, original);
    return fragment ? canonical_address(fragment, original) : original;
}

/* As rimf_moved_find, in any thread. */
uintptr_t rimf_canonical_address(const struct mvld_image *image, uintptr_t original)
{
    const struct moved_code *moved = __atomic_load_n(&image->moved, __ATOMIC_ACQUIRE);
    const struct moved_fragment *fragment =
        moved ? moved_fragment_made(moved, rimf_object_find(image, original), original, 1) : NULL;

    return fragment ? canonical_address(fragment, original) : original;
}

uintptr_t moved_word(const struct mvld_image *image, uintptr_t word)
{
    uintptr_t value;

    memcpy(&value, (const void *)word, sizeof value);
    return rimf_unmoved(image, value);
}

int rimf_is_kept_original(const struct mvld_image *image, uintptr_t function)
{
    for (size_t i = 0; i < RIMF_KEPT_ORIGINALS; i++)
        if (image->feeder.kept[i].at == function)
            return 1;
    return 0;
}

/* ---- addresses that must stay ------------------------------------------------------------------ */

struct fixing {
    struct mvld_image *image;
    struct rimf_word_list *fixed;
    const struct rimf_object *object;
    uintptr_t locals, locals_end; /* PT_TLS */
    struct moved_open open;
    int failed;
};

static void add_address(struct fixing *p, uintptr_t address)
{
    p->failed |= rimf_words_add(p->image, p->fixed, address) != 0;
}

static int look_at_slot(void *cookie, uintptr_t slot)
{
    struct fixing *p = cookie;
    uintptr_t value;

    if (moved_slot_is_open(p->object, slot, &p->open) && slot - p->locals >= p->locals_end - p->locals)
        return 0;
    if (elf_room(&p->object->view, slot) < sizeof value)
        return 0;
    memcpy(&value, (const void *)slot, sizeof value);
    add_address(p, value);
    return 0;
}

static void look_at(struct fixing *p, const struct rimf_object *object)
{
    const Elf64_Phdr *locals = elf_phdr_last(object->view.phdr, object->view.phnum, PT_TLS);

    p->object = object;
    p->open = (struct moved_open){0, 0};
    p->locals = locals ? object->view.bias + locals->p_vaddr : 0;
    p->locals_end = locals ? p->locals + locals->p_filesz : 0;
    moved_slots_each(object, look_at_slot, p);
}

/* `fixed` is empty.  0, or -ENOMEM. */
static int fixed_addresses_find(struct rimf_word_list *fixed, struct mvld_image *image, const struct rimf_table *table)
{
    struct fixing p = {.image = image, .fixed = fixed};

    for (size_t i = 0; i < table->n_objects; i++)
        if (moved_slots_held(image, table->objects[i]))
            look_at(&p, table->objects[i]);
    for (size_t i = 0; i < RIMF_KEPT_ORIGINALS; i++)
        if (image->feeder.kept[i].at)
            add_address(&p, image->feeder.kept[i].at);
    rimf_words_sort(fixed);
    return p.failed ? -ENOMEM : 0;
}

/* ---- the plan of one fragment ------------------------------------------------------------------ */

/* Inserts in order.  While there is no array, only counts. */
static void add_fixed(struct moved_fragment *fragment, uint32_t start, uint32_t size)
{
    size_t at = fragment->n_fixed++;

    for (; fragment->fixed && at && fragment->fixed[at - 1].start > start; at--)
        fragment->fixed[at] = fragment->fixed[at - 1];
    if (fragment->fixed)
        fragment->fixed[at] = (struct analysis_fixed){start, size};
}

static void take_fixed(struct moved_fragment *fragment, const struct analysis *s, uintptr_t bias)
{
    uint64_t first = fragment->original - bias, end = first + fragment->code;
    size_t i = RIMF_BISECT(k, s->n_fixed, (uint64_t)s->fixed[k].start + s->fixed[k].size <= first);

    for (; i < s->n_fixed && s->fixed[i].start < end; i++) {
        uint64_t from = s->fixed[i].start, to = from + s->fixed[i].size;

        from = from < first ? first : from;
        to = to > end ? end : to;
        if (from < to)
            add_fixed(fragment, (uint32_t)(from - first), (uint32_t)(to - from));
    }
}

static void take_addresses(struct moved_fragment *fragment, const struct analysis *s, uintptr_t bias,
                           const struct rimf_word_list *fixed)
{
    for (size_t i = rimf_words_first(fixed, fragment->original);
         i < fixed->n && fixed->at[i] - fragment->original < fragment->code; i++) {
        const struct analysis_unit *unit = analysis_unit_at(s, (uint32_t)(fixed->at[i] - bias));
        uint32_t start = unit ? (uint32_t)(bias + unit->start - fragment->original) : 0;

        if (unit && !(fragment->fixed && canonical_stays(fragment, start)))
            add_fixed(fragment, start, unit->size);
    }
}

static void take_all(struct moved_fragment *fragment, const struct analysis *s, uintptr_t bias,
                     const struct rimf_word_list *fixed)
{
    fragment->n_fixed = 0;
    take_fixed(fragment, s, bias);
    take_addresses(fragment, s, bias, fixed);
}

static int is_all_fixed(const struct analysis *s)
{
    for (size_t i = 0; i < s->n_segments; i++)
        if (i >= s->n_fixed || s->fixed[i].start != s->segments[i].start ||
            s->fixed[i].size < s->segments[i].size)
            return 0;
    return 1;
}

/* Why canonical addresses of the object's code are the originals, or NULL. */
static const char *stays(const struct rimf_object *object, const struct analysis *s,
                         const char *why)
{
    int noted;

    if (!s)
        return why;
    if (is_all_fixed(s))
        return "it computes with addresses of its code, or asks whose they are";
    noted = elf_note_each(&object->view, MULTIVERSE_NOTE_NAME, MULTIVERSE_NOTE_TABLES, NULL, NULL);
    return noted > 0   ? "multiverse knows its functions by their addresses"
           : noted < 0 ? "its notes do not say whether multiverse knows its functions by their addresses"
                       : NULL;
}

/* Plans the list's fragment with this index.  0, or -ENOMEM. */
static int plan(struct mvld_image *image, size_t index, const struct rimf_word_list *fixed)
{
    struct moved_fragment *fragment = &image->moved->list[index];
    struct rimf_object *object = (struct rimf_object *)fragment->object;
    uintptr_t bias = object->view.bias;
    const char *why;
    const struct analysis *s = rimf_analysis_whole(image, object, &why);

    why = stays(object, s, why);
    if (why) {
        if (moved_is_first(image->moved, index))
            rimf_log(image->log, MVLD_LOG_PASSES, "%s: its addresses stay: %s",
                     object->public.name, why);
        return 0;
    }
    take_all(fragment, s, bias, fixed);
    if (fragment->n_fixed) {
        fragment->fixed = rimf_heap_alloc(&image->heap, fragment->n_fixed * sizeof *fragment->fixed);
        if (!fragment->fixed)
            return -ENOMEM;
        take_all(fragment, s, bias, fixed);
    }
    fragment->is_canonical = 1;
    return 0;
}

static void forget_plans(struct mvld_image *image)
{
    struct moved_code *moved = image->moved;

    for (size_t i = moved->n; i < moved->n_planned; i++) {
        struct moved_fragment *fragment = &moved->list[i];

        rimf_heap_release(&image->heap, fragment->fixed);
        fragment->fixed = NULL;
        fragment->n_fixed = 0;
        fragment->is_canonical = 0;
    }
}

/* Returns 1 if a planned fragment's object already has its final words. */
static int is_finished(const struct mvld_image *image)
{
    for (size_t i = image->moved->n; i < image->moved->n_planned; i++)
        if (rimf_object_is_finished(image, image->moved->list[i].object))
            return 1;
    return 0;
}

/* Why all addresses are the originals, or NULL. */
static const char *stay(const struct mvld_image *image, const struct rimf_table *table)
{
    if (image->entered && is_finished(image))
        return "what came with them is from a snapshot";
    if (image->entered)
        return image->feeder.unentered ? NULL : "constructors may have run";
    for (size_t i = 0; i < table->n_objects; i++)
        if (table->objects[i]->public.flags & MVLD_OBJECT_OPAQUE &&
            !(table->objects[i]->public.flags & (MVLD_OBJECT_VDSO | MVLD_OBJECT_LOADER)))
            return "what an object holds cannot be read";
    return moved_slots_copied(image, table, NULL, NULL) < 0
               ? "a variable that was copied to the executable is not found"
               : NULL;
}

static const char *plan_all(struct mvld_image *image, const struct rimf_table *table)
{
    struct moved_code *moved = image->moved;
    struct rimf_word_list fixed = {.at = NULL};
    int error = fixed_addresses_find(&fixed, image, table);

    for (size_t i = moved->n; i < moved->n_planned && !error; i++)
        error = plan(image, i, &fixed);
    rimf_heap_release(&image->heap, fixed.at);
    return error ? "memory is short" : NULL;
}

/* ---- a batch ---------------------------------------------------------------------------------- */

/* NULL, or a sentence; then nothing is open. */
static const char *open_words(struct mvld_image *image, const struct rimf_table *table,
                              struct moved_writing **writing)
{
    const char *why;

    *writing = moved_slots_prepare(image, table);
    why = *writing ? moved_relro_open(image, table) : "memory is short";
    if (!why)
        return NULL;
    rimf_heap_release(&image->heap, *writing);
    *writing = NULL;
    return why;
}

struct moved_writing *canonical_plan(struct mvld_image *image)
{
    const struct rimf_table *table = rimf_table_enter(image);
    const char *why = stay(image, table);
    struct moved_writing *writing = NULL;

    if (!why)
        why = plan_all(image, table);
    if (!why)
        why = open_words(image, table, &writing);
    rimf_table_leave(image);
    if (!why)
        return writing;
    forget_plans(image);
    rimf_log(image->log, MVLD_LOG_PASSES, "moved code: all addresses stay: %s", why);
    return NULL;
}

void canonical_end(struct mvld_image *image, struct moved_writing *writing, int failed)
{
    const struct rimf_table *table = rimf_table_enter(image);

    if (writing && !failed) {
        rimf_log(image->log, MVLD_LOG_PASSES, "moved code: %zu pointers lead to it",
                 moved_slots_write(writing, table));
        image->finished = image->updates;
    }
    moved_relro_close(image, table);
    rimf_table_leave(image);
    if (failed)
        forget_plans(image);
    rimf_heap_release(&image->heap, writing);
}

/* ---- objects without a batch -------------------------------------------------------------------- */

void rimf_moved_finish(struct mvld_image *image)
{
    const char *why = image->feeder.unentered ? NULL : "constructors may have run";
    struct moved_writing *writing = NULL;
    const struct rimf_table *table;

    if (!image->moved->n || !image->entered || image->finished == image->updates)
        return;
    table = rimf_table_enter(image);
    if (!why)
        why = open_words(image, table, &writing);
    if (writing)
        canonical_end(image, writing, 0);
    if (why)
        rimf_log(image->log, MVLD_LOG_PASSES, "moved code: pointers of what came lead to the originals: %s", why);
    rimf_table_leave(image);
}
