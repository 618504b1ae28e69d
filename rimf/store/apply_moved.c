/* SPDX-License-Identifier: MIT
 *
 * rimf/store/apply_moved.c: maps moved code from a snapshot (moved/moved.h, store/manifest.h).
 *
 * The pages are mapped over the region that a library has reserved; the image records the code as if it had
 * been moved here; and the C library is hooked for addresses in moved code.  Nothing refers to moved code yet:
 * texts and words, which come later, do.  So after any failure the pages are unmapped, and the image forgets.
 */
#include "rimf/store/apply.h"

#include "rimf/base/base.h"
#include "rimf/moved/moved.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

static const struct mvld_object *owner(const struct applying *a)
{
    return &a->objects[a->m->region->object]->public;
}

static struct rimf_region region_of(const struct applying *a)
{
    const struct manifest_region *r = a->m->region;

    return (struct rimf_region){
        .code = owner(a)->bias + r->code,
        .frames = owner(a)->bias + r->frames,
        .code_size = r->code_size,
        .frames_size = r->frames_size,
    };
}

/* ---- comparing --------------------------------------------------------------------- */

static int compare_kept(struct applying *a)
{
    for (uint32_t i = 0; i < a->m->header->n_kept; i++) {
        const struct manifest_kept *kept = &a->m->kept[i];
        const struct rimf_object *object = a->objects[kept->object];

        if (!elf_holds(&object->view, object->public.bias + kept->linked, kept->size,
                       PROT_READ | PROT_EXEC))
            return apply_refuse(a, object, "a function that is hooked lies outside it");
    }
    return 0;
}

int apply_compare_moved(struct applying *a)
{
    const struct manifest_region *r = a->m->region;
    struct rimf_region region = region_of(a);

    if (a->image->moved || !a->image->feeder.caller_hooks)
        return apply_refuse(a, NULL, "nobody tells the C library of moved code");
    /* Later moved code continues where this ends. */
    if (r->pieces[MANIFEST_TABLE].size != moved_frames_searched(r->n_frames) ||
        r->pieces[MANIFEST_FRAMES].linked != r->frames + moved_frames_table(&region))
        return apply_refuse(a, NULL, "its unwind tables lie elsewhere than they should");
    for (uint32_t i = 0; i < a->m->header->n_fragments; i++) {
        const struct manifest_fragment *fragment = &a->m->fragments[i];
        const struct rimf_object *object = a->objects[fragment->object];
        uintptr_t original = object->public.bias + fragment->original;

        if (object->public.why || !moved_fits(object, original, fragment->code))
            return apply_refuse(a, object, "code that moved lies outside it");
        if ((original - (owner(a)->bias + fragment->at)) % RIMF_MOVED_ALIGN)
            return apply_refuse(a, object, "its moved code is at no fitting place");
    }
    return compare_kept(a);
}

/* ---- the image ------------------------------------------------------------------------- */

/* Nobody else has used them. */
static void forget(struct applying *a)
{
    struct moved_code *moved = a->image->moved;

    __atomic_store_n(&a->image->moved, NULL, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < a->m->header->n_fragments; i++)
        moved_drop(a->image, a->objects[a->m->fragments[i].object]);
    if (moved)
        rimf_heap_release(&a->image->heap, moved->list);
    rimf_heap_release(&a->image->heap, moved);
}

/* Sorted, because other threads may search them later. */
static int note_fragments(struct applying *a)
{
    for (uint32_t i = 0; i < a->m->header->n_fragments; i++) {
        uint32_t index = a->m->fragments[i].sorted;
        struct rimf_object *object = a->objects[a->m->fragments[index].object];

        if (moved_note(a->image, object, index))
            return -ENOMEM;
        object->moved = index + 1 < object->moved ? index + 1 : object->moved; /* the first of the list */
    }
    return 0;
}

static int fill_list(struct applying *a, struct moved_code *moved)
{
    size_t n = a->m->header->n_fragments, n_fixed = a->m->header->n_fixed;
    struct analysis_fixed *fixed;

    moved->list = rimf_heap_alloc(&a->image->heap,
                                   n * sizeof *moved->list + n_fixed * sizeof *fixed);
    if (!moved->list)
        return -ENOMEM;
    moved->room = n;
    fixed = memcpy(moved->list + n, a->m->fixed, n_fixed * sizeof *fixed);
    for (size_t i = 0; i < n; i++) {
        const struct manifest_fragment *fragment = &a->m->fragments[i];
        struct rimf_object *object = a->objects[fragment->object];

        object->code.calls_direct = 1; /* perhaps */
        moved->list[i] = (struct moved_fragment){
            .object = object,
            .original = object->public.bias + fragment->original,
            .at = owner(a)->bias + fragment->at,
            .code = fragment->code,
            .size = fragment->size,
            .is_canonical = fragment->flags & MANIFEST_MOVED,
            .fixed = fixed,
            .n_fixed = fragment->n_fixed,
        };
        fixed += fragment->n_fixed;
    }
    return note_fragments(a);
}

static int remember(struct applying *a)
{
    const struct manifest_piece *pieces = a->m->region->pieces;
    struct rimf_region region = region_of(a);
    struct moved_code *moved;
    int error = rimf_region_set(a->image, &region);

    if (error) {
        a->why = "there is no room for moved code";
        return error;
    }
    for (uint32_t i = 0; i < a->m->header->n_kept; i++) {
        const struct manifest_kept *kept = &a->m->kept[i];

        a->image->feeder.kept[kept->number] =
            (struct rimf_kept){a->objects[kept->object]->public.bias + kept->linked, kept->size};
    }
    moved = a->image->moved;
    error = fill_list(a, moved);
    if (error) {
        a->why = a->why ? a->why : "out of memory";
        forget(a);
        return error;
    }
    moved->pages = a->m->region->pages;
    moved->hot_end = a->m->region->hot ? region.code + a->m->region->hot : 0;
    moved->n_frames = a->m->region->n_frames;
    moved->code_end = region.code + pieces[MANIFEST_CODE].size;
    moved->frames_end =
        owner(a)->bias + pieces[MANIFEST_FRAMES].linked + pieces[MANIFEST_FRAMES].size;
    moved->n_named = moved->n_planned = moved->room; /* the file has their names (symfile.h) */
    moved->frames_named = moved->frames_end;
    __atomic_store_n(&moved->n, moved->room, __ATOMIC_RELEASE);
    return 0;
}

/* ---- the pages --------------------------------------------------------------------------- */

/* Words with addresses of moved code have been restored by manifest_take_back; resolvers may have kept
 * addresses. */
static void take_away(struct applying *a)
{
    if (!a->file->early.moved)
        manifest_region_unmap(a->file, a->image->sys, owner(a)->bias, MANIFEST_PIECES);
}

static int map_file(struct applying *a)
{
    const struct manifest_piece *code = &a->m->region->pieces[MANIFEST_CODE];
    uintptr_t start = owner(a)->bias + code->linked;
    int error = a->file->early.moved
                    ? 0 : manifest_region_map(a->file, a->image->sys, owner(a)->bias, &a->why);

    if (!error)
        moved_pages_of_file(a->image, start, start + code->size, code->offset);
    return error;
}

static int open_pointers(struct applying *a)
{
    int error = 0;

    for (size_t i = 0; i < a->table->n_objects && !error; i++) {
        struct rimf_object *object = a->objects[i];

        error = object->relro.to_open ? moved_relro_open_one(a->image, object) : 0;
        if (!error)
            continue;
        a->why = "RELRO cannot be written";
        a->object = &object->public;
    }
    return error;
}

static void report(const struct applying *a)
{
    const struct moved_code *moved = a->image->moved;

    for (size_t i = 0; i < moved->n && rimf_log_enabled(a->image->log, MVLD_LOG_PASSES); i++)
        if (moved_is_first(moved, i))
            moved_report(a->image, moved->list[i].object);
}

int apply_moved(struct applying *a)
{
    int error = open_pointers(a);

    if (error)
        return error;
    a->object = NULL;
    a->why = NULL;
    error = remember(a);
    if (error)
        return error;
    error = map_file(a);
    if (!error) {
        a->why = "nobody tells the C library of moved code";
        a->image->applying = a;
        error = a->image->feeder.caller_hooks(a->image->feeder.cookie, &a->why);
        a->image->applying = NULL;
        if (!error && (error = apply_caller_texts(a)))
            a->image->feeder.caller_hooks = NULL; /* some of them may be missing: then nothing moves */
        if (error)
            take_away(a);
    }
    if (error)
        forget(a);
    else
        report(a);
    return error;
}

/* ---- words -------------------------------------------------------------------------------------
 *
 * Makes relocated words point to a manifest's moved code (manifest.h, ADDRESSES).
 *
 * With tables of ours most words already do, and one of each object is compared.  The others have what the host
 * loader found, or a resolver returned: the address of moved code, which is final, or the original one.  The
 * host loader has written each of these words, so its page is already private.
 */

/* The range where words of one object may be written. */
struct writable {
    struct rimf_object *object;
    struct moved_open open;
    uintptr_t relro;
    size_t relro_size;
};

/* Adjacent words mostly have the same target. */
static const struct manifest_fragment *fragment_at(struct applying *a, uint64_t linked)
{
    if (!a->target || linked - a->target->at >= a->target->code)
        a->target = manifest_fragment_at(a->m, linked);
    return a->target;
}

uintptr_t apply_original(struct applying *a, uintptr_t word)
{
    const struct manifest_fragment *fragment = a->file->early.moved ? fragment_at(a, word - owner(a)->bias) : NULL;

    return fragment ? a->objects[fragment->object]->public.bias + fragment->original +
                      (word - owner(a)->bias - fragment->at)
                : word;
}

static uintptr_t moved_of(const struct applying *a, const struct manifest_pointer *p)
{
    return owner(a)->bias + a->m->fragments[p->fragment].at + p->offset;
}

/* Compares the first word of each object, from `first` to `end`. */
static int compare_first(struct applying *a, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i = manifest_next_object(a->m, i, end)) {
        const struct manifest_pointer *p = &a->m->pointers[i];
        struct rimf_object *object = a->objects[p->object];
        uintptr_t value;

        memcpy(&value, (const void *)(object->public.bias + p->linked), sizeof value);
        if (value != moved_of(a, p))
            return apply_refuse(a, object, "relocation did not lead a pointer to moved code");
    }
    return 0;
}

/* Compares words that relocation wrote: if one of an object's words in a list is right, all are. */
static int compare_early(struct applying *a)
{
    const struct manifest_header *h = a->m->header;
    uint32_t relocated = h->n_addends + h->n_tabled;
    int error = compare_first(a, 0, h->n_addends);

    if (!error)
        error = compare_first(a, h->n_addends, relocated);
    a->first_pointer = error ? a->first_pointer : relocated;
    return error;
}

int apply_compare_pointers(struct applying *a)
{
    struct writable w = {.object = NULL};

    if (a->file->early.moved && a->file->early.whole && compare_early(a))
        return -ESTALE;
    for (uint32_t i = a->first_pointer; i < a->m->header->n_pointers; i++) {
        const struct manifest_pointer *p = &a->m->pointers[i];
        const struct manifest_fragment *fragment = &a->m->fragments[p->fragment];
        struct rimf_object *object = a->objects[p->object];
        uintptr_t word = object->public.bias + p->linked, value;

        if (object != w.object) {
            w = (struct writable){.object = object};
            w.relro_size = elf_relro(&object->view, &w.relro);
        }
        if (!moved_slot_is_open(object, word, &w.open))
            return apply_refuse(a, object, "a pointer lies where it cannot be written");
        memcpy(&value, (const void *)word, sizeof value);
        if (value == moved_of(a, p))
            continue;
        if (value != a->objects[fragment->object]->public.bias + fragment->original + p->offset)
            return apply_refuse(a, object, "a pointer leads elsewhere");
        /* It may begin before. */
        object->relro.to_open |= word + sizeof value - 1 - w.relro < w.relro_size ||
                           word - w.relro < w.relro_size;
    }
    return 0;
}

static void write_pointers(const struct applying *a)
{
    const struct manifest *m = a->m;
    uintptr_t now;

    for (uint32_t i = a->first_pointer; i < m->header->n_pointers; i++) {
        const struct manifest_pointer *p = &m->pointers[i];
        uintptr_t word = a->objects[p->object]->public.bias + p->linked;
        uintptr_t to = moved_of(a, p);

        memcpy(&now, (const void *)word, sizeof now);
        if (now != to) /* otherwise it may be where nothing was made writable */
            memcpy((void *)word, &to, sizeof to);
    }
    if (m->header->n_pointers)
        rimf_log(a->image->log, MVLD_LOG_PASSES, "moved code: %u pointers lead there",
                 m->header->n_pointers);
}

void apply_end_pointers(struct applying *a, int write)
{
    if (write)
        write_pointers(a);
    moved_relro_close(a->image, a->table);
}
