/* SPDX-License-Identifier: MIT
 *
 * rimf/image/binding.c: where a call through a slot is certain to end.
 *
 * An executable at a fixed address has its own PLT entries stand for functions whose address it
 * takes, and the host loader binds other objects' slots to them: such an entry jumps through a
 * slot for the same symbol, and the way goes on there.  (A function that only jumps to another
 * one looks alike, but that one has another name.)
 */
#include "rimf/image/edits.h"

#include "rimf/base/base.h"

static void note(struct bound *b, const struct mvld_slot *slot, const struct mvld_object *holder)
{
    b->shown[b->n++] = slot->shown;
    b->binding.target = slot->target;
    b->binding.holder = holder;
    b->binding.flags = (b->binding.flags & slot->flags & MVLD_SLOT_RELRO) |
                       ((b->binding.flags | slot->flags) & MVLD_SLOT_LAZY);
}

const char *rimf_bind_slot(struct mvld_image *image, const struct rimf_object *object,
                           uintptr_t address, struct bound *out)
{
    const struct mvld_object *at = &object->public, *holder;
    const char *first = NULL, *name;
    struct mvld_slot slot;

    *out = (struct bound){.binding = {.slot = address, .flags = MVLD_SLOT_RELRO}};
    if (rimf_slot_target(image, at, address, &slot, &holder))
        return "the host loader fills no such slot";
    while (!slot.why && out->n < EDIT_STEPS) {
        note(out, &slot, holder);
        if (!holder || !(holder->flags & MVLD_OBJECT_MAIN))
            return NULL;
        first = first ? first : rimf_slot_name(image, at, address);
        at = holder;
        address = rimf_plt_slot(at, slot.target);
        name = address ? rimf_slot_name(image, at, address) : NULL;
        if (!first || !name || !rimf_streq(name, first) ||
            rimf_slot_target(image, at, address, &slot, &holder))
            return NULL;
    }
    return slot.why ? slot.why : "PLT entries lead to each other";
}
