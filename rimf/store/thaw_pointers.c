/* SPDX-License-Identifier: MIT
 *
 * rimf/store/thaw_pointers.c: relocated words lead to copies of code that a frozen image holds
 * (frozen.h, IDENTITY).
 *
 * Where tables of ours were relocated, most lead there already, and one of each object is looked
 * at.  The others hold what the host loader found, or a resolver returned: the address
 * of a copy, then nothing is left to do, or the one at home.  Each is a word that the host loader
 * has written, so its page is this process's own already.
 */
#include "rimf/store/thaw.h"

#include "rimf/base/base.h"
#include "rimf/moved/moved.h"

#include <errno.h> /* numbers only */

/* Where the words of one object may be written. */
struct writable {
    struct rimf_object *object;
    uintptr_t start, end; /* of the segment at hand: first bytes of words */
    uintptr_t relro;
    size_t relro_size;
};

static int may_write(struct writable *w, uintptr_t word)
{
    if (word - w->start >= w->end - w->start)
        moved_slots_writable(w->object, word, &w->start, &w->end);
    return word - w->start < w->end - w->start;
}

static uintptr_t region_bias(const struct thaw *t)
{
    return t->table->objects[t->frozen->region->object]->public.bias;
}

/* Words that follow each other mostly lead to the same one. */
static const struct frozen_copy *copy_at(struct thaw *t, uint64_t linked)
{
    if (!t->led_to || linked - t->led_to->at >= t->led_to->code)
        t->led_to = frozen_copy_at(t->frozen, linked);
    return t->led_to;
}

uintptr_t thaw_home(struct thaw *t, uintptr_t word)
{
    const struct frozen_copy *copy = t->file->laid.led ? copy_at(t, word - region_bias(t)) : NULL;

    return copy ? t->table->objects[copy->object]->public.bias + copy->original +
                      (word - region_bias(t) - copy->at)
                : word;
}

static uintptr_t copy_of(const struct thaw *t, const struct frozen_pointer *p)
{
    return region_bias(t) + t->frozen->copies[p->copy].at + p->offset;
}

/* The first of each object's, from `first` to `end`. */
static int compare_first(struct thaw *t, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i = frozen_next_object(t->frozen, i, end)) {
        const struct frozen_pointer *p = &t->frozen->pointers[i];
        struct rimf_object *object = t->table->objects[p->object];
        uintptr_t value;

        memcpy(&value, (const void *)(object->public.bias + p->linked), sizeof value);
        if (value != copy_of(t, p))
            return thaw_refuse(t, object, "relocation did not lead a pointer to the copy");
    }
    return 0;
}

/* Relocation has led those that it should: where it did so with one of an object's, it did with all
 * that are in the same list. */
static int compare_led(struct thaw *t)
{
    const struct frozen_header *h = t->frozen->header;
    uint32_t led = h->n_addends + h->n_tabled;
    int error = compare_first(t, 0, h->n_addends);

    if (!error)
        error = compare_first(t, h->n_addends, led);
    t->first_pointer = error ? t->first_pointer : led;
    return error;
}

int thaw_compare_pointers(struct thaw *t)
{
    struct writable w = {.object = NULL};

    if (t->file->laid.led && t->file->laid.whole && compare_led(t))
        return -ESTALE;
    for (uint32_t i = t->first_pointer; i < t->frozen->header->n_pointers; i++) {
        const struct frozen_pointer *p = &t->frozen->pointers[i];
        const struct frozen_copy *copy = &t->frozen->copies[p->copy];
        struct rimf_object *object = t->table->objects[p->object];
        uintptr_t word = object->public.bias + p->linked, value;

        if (object != w.object) {
            w = (struct writable){.object = object};
            w.relro_size = elf_relro(&object->view, &w.relro);
        }
        if (!may_write(&w, word))
            return thaw_refuse(t, object, "a pointer lies where it cannot be written");
        memcpy(&value, (const void *)word, sizeof value);
        if (value == copy_of(t, p))
            continue;
        if (value != t->table->objects[copy->object]->public.bias + copy->original + p->offset)
            return thaw_refuse(t, object, "a pointer leads elsewhere");
        /* It may begin before. */
        object->to_open |= word + sizeof value - 1 - w.relro < w.relro_size ||
                           word - w.relro < w.relro_size;
    }
    return 0;
}

int thaw_open_pointers(struct thaw *t)
{
    int error = 0;

    for (size_t i = 0; i < t->table->n_objects && !error; i++) {
        struct rimf_object *object = t->table->objects[i];

        error = object->to_open ? moved_relro_open_one(t->image, object) : 0;
        if (!error)
            continue;
        t->why = "RELRO cannot be written";
        t->object = &object->public;
    }
    return error;
}

void thaw_close_pointers(struct thaw *t)
{
    moved_relro_close(t->image, t->table);
}

void thaw_write_pointers(struct thaw *t)
{
    const struct frozen *frozen = t->frozen;
    uintptr_t now;

    for (uint32_t i = t->first_pointer; i < frozen->header->n_pointers; i++) {
        const struct frozen_pointer *p = &frozen->pointers[i];
        uintptr_t word = t->table->objects[p->object]->public.bias + p->linked;
        uintptr_t to = copy_of(t, p);

        memcpy(&now, (const void *)word, sizeof now);
        if (now != to) /* else it may lie where nothing was opened */
            memcpy((void *)word, &to, sizeof to);
    }
    if (frozen->header->n_pointers)
        rimf_log(t->image->log, MVLD_LOG_PASSES, "copies: %u pointers lead to them",
                 frozen->header->n_pointers);
}
