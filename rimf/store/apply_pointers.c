/* SPDX-License-Identifier: MIT
 *
 * rimf/store/apply_pointers.c: makes relocated words point to a manifest's moved code (manifest.h, ADDRESSES).
 *
 * With tables of ours most words already do, and one of each object is compared.  The others have what the host
 * loader found, or a resolver returned: the address of moved code, which is final, or the original one.  The
 * host loader has written each of these words, so its page is already private.
 */
#include "rimf/store/apply.h"

#include "rimf/base/base.h"
#include "rimf/moved/moved.h"

#include <errno.h> /* numbers only */

/* The range where words of one object may be written. */
struct writable {
    struct rimf_object *object;
    struct moved_open open;
    uintptr_t relro;
    size_t relro_size;
};

static uintptr_t region_bias(const struct applying *a)
{
    return a->objects[a->m->region->object]->public.bias;
}

/* Adjacent words mostly have the same target. */
static const struct manifest_fragment *fragment_at(struct applying *a, uint64_t linked)
{
    if (!a->led_to || linked - a->led_to->at >= a->led_to->code)
        a->led_to = manifest_fragment_at(a->m, linked);
    return a->led_to;
}

uintptr_t apply_original(struct applying *a, uintptr_t word)
{
    const struct manifest_fragment *fragment = a->file->laid.led ? fragment_at(a, word - region_bias(a)) : NULL;

    return fragment ? a->objects[fragment->object]->public.bias + fragment->original +
                      (word - region_bias(a) - fragment->at)
                : word;
}

static uintptr_t moved_of(const struct applying *a, const struct manifest_pointer *p)
{
    return region_bias(a) + a->m->fragments[p->fragment].at + p->offset;
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
static int compare_led(struct applying *a)
{
    const struct manifest_header *h = a->m->header;
    uint32_t led = h->n_addends + h->n_tabled;
    int error = compare_first(a, 0, h->n_addends);

    if (!error)
        error = compare_first(a, h->n_addends, led);
    a->first_pointer = error ? a->first_pointer : led;
    return error;
}

int apply_compare_pointers(struct applying *a)
{
    struct writable w = {.object = NULL};

    if (a->file->laid.led && a->file->laid.whole && compare_led(a))
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

int apply_open_pointers(struct applying *a)
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

void apply_write_pointers(struct applying *a)
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
