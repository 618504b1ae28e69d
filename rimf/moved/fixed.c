/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/fixed.c: finds addresses that must stay the originals (moved/canonical.c).
 *
 * A function's address is fixed if its original must run, or if a word has it that certainly cannot be
 * changed: in memory that is not writable as linked, or in the initial image of thread-local variables, of
 * which the first thread already has a copy.
 */
#include "rimf/moved/moved.h"

#include "rimf/base/base.h"
#include "rimf/image/private.h"

#include <errno.h> /* numbers only */

struct fixing {
    struct mvld_image *image;
    struct fixed_addresses *fixed;
    const struct rimf_object *object;
    uintptr_t locals, locals_end; /* PT_TLS */
    struct moved_open open;
    int failed;
};

static void add(struct fixing *p, uintptr_t address)
{
    p->failed |= rimf_words_add(p->image, &p->fixed->at, &p->fixed->n, &p->fixed->room, address) != 0;
}

static int look(void *cookie, uintptr_t slot)
{
    struct fixing *p = cookie;
    uintptr_t value;

    if (moved_slot_is_open(p->object, slot, &p->open) && slot - p->locals >= p->locals_end - p->locals)
        return 0;
    if (elf_room(&p->object->view, slot) < sizeof value)
        return 0;
    memcpy(&value, (const void *)slot, sizeof value);
    add(p, value);
    return 0;
}

static void look_at(struct fixing *p, const struct rimf_object *object)
{
    const Elf64_Phdr *locals = 
        elf_phdr_last(object->view.phdr, object->view.phnum, PT_TLS);

    p->object = object;
    p->open = (struct moved_open){0, 0};
    p->locals = locals ? object->view.bias + locals->p_vaddr : 0;
    p->locals_end = locals ? p->locals + locals->p_filesz : 0;
    moved_slots_each(object, look, p);
}

int fixed_addresses_find(struct fixed_addresses *fixed, struct mvld_image *image,
                   const struct rimf_table *table)
{
    struct fixing p = {.image = image, .fixed = fixed};

    *fixed = (struct fixed_addresses){.at = NULL};
    for (size_t i = 0; i < table->n_objects; i++)
        if (moved_slots_held(table->objects[i]))
            look_at(&p, table->objects[i]);
    for (size_t i = 0; i < RIMF_KEPT_ORIGINALS; i++)
        if (image->kept[i])
            add(&p, image->kept[i]);
    fixed->n = rimf_watch_sort(fixed->at, fixed->n);
    return p.failed ? -ENOMEM : 0;
}

void fixed_addresses_release(struct fixed_addresses *fixed, struct mvld_image *image)
{
    rimf_heap_release(&image->heap, fixed->at);
    *fixed = (struct fixed_addresses){.at = NULL};
}
