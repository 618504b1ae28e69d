/* SPDX-License-Identifier: MIT
 *
 * rimf/image_thaw_pointers.c: relocated words lead to copies of code that a frozen image holds
 * (frozen.h, IDENTITY).
 *
 * Each is a word that the host loader has written, so its page is this process's own already.
 */
#include "thaw.h"

#include "base.h"
#include "copies.h"

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
        copy_slots_writable(w->object, word, &w->start, &w->end);
    return word - w->start < w->end - w->start;
}

int thaw_compare_pointers(struct thaw *t)
{
    struct writable w = {.object = NULL};

    for (uint32_t i = 0; i < t->frozen->header->n_pointers; i++) {
        const struct frozen_pointer *p = &t->frozen->pointers[i];
        const struct frozen_copy *copy = &t->frozen->copies[p->copy];
        struct rimf_object *object = t->table->objects[p->object];
        uintptr_t word = object->public.bias + p->linked, value;

        if (object != w.object) {
            w = (struct writable){.object = object};
            w.relro_size = copy_relro(object, &w.relro);
        }
        if (!may_write(&w, word))
            return thaw_refuse(t, object, "a pointer lies where it cannot be written");
        memcpy(&value, (const void *)word, sizeof value);
        if (value != t->table->objects[copy->object]->public.bias + copy->home + p->offset)
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

        error = object->to_open ? copy_relro_open_one(t->image, object) : 0;
        if (!error)
            continue;
        t->why = "RELRO cannot be written";
        t->object = &object->public;
    }
    return error;
}

void thaw_close_pointers(struct thaw *t)
{
    copy_relro_close(t->image, t->table);
}

void thaw_write_pointers(struct thaw *t)
{
    const struct frozen *frozen = t->frozen;
    uintptr_t region =
        frozen->region ? t->table->objects[frozen->region->object]->public.bias : 0;

    for (uint32_t i = 0; i < frozen->header->n_pointers; i++) {
        const struct frozen_pointer *p = &frozen->pointers[i];
        uintptr_t word = t->table->objects[p->object]->public.bias + p->linked;
        uintptr_t to = region + frozen->copies[p->copy].at + p->offset;

        memcpy((void *)word, &to, sizeof to);
    }
    if (frozen->header->n_pointers)
        rimf_log(t->image->log, MVLD_LOG_PASSES, "copies: %u pointers lead to them",
                 frozen->header->n_pointers);
}
