/* SPDX-License-Identifier: MIT
 *
 * rimf/store/apply.c: checks whether an overlay's dependencies hold in this process, and maps its texts over
 * those of the object; manifest.h tells when that is right.
 */
#include "rimf/store/apply.h"

#include "rimf/base/base.h"
#include "rimf/moved/moved.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

int apply_refuse(struct applying *a, const struct rimf_object *object, const char *why)
{
    a->why = why;
    a->object = object ? &object->public : NULL;
    return -ESTALE;
}

/* ---- comparing -------------------------------------------------------------------- */

int apply_compare_file(struct applying *a, uint32_t number)
{
    const struct manifest_object *entry = manifest_object(a->m, number);
    const struct rimf_object *object = a->objects[number];

    if (!object->file.known)
        return apply_refuse(a, object, "its file is not known");
    if (!file_id_same(&object->file.id, &entry->file) ||
        manifest_build_id(&object->public) != entry->build_id)
        return apply_refuse(a, object, "its file is another one");
    return 0;
}

int apply_compare_texts(struct applying *a, uint32_t number)
{
    const struct rimf_object *object = a->objects[number];
    uint32_t n;

    for (const struct manifest_text *text = manifest_texts_of(a->m, number, &n); n--; text++)
        if (object->public.why || !object->public.phdr ||
            !overlay_is_text(object->public.phdr, object->public.phnum, text))
            return apply_refuse(a, object, "its code lies elsewhere");
    return 0;
}

static uintptr_t word_at(struct applying *a, uintptr_t address)
{
    if (a->image->moved)
        return moved_word(a->image, address);
    return apply_original(a, *(const uintptr_t *)address);
}

int apply_compare_words(struct applying *a, const struct manifest_word *word, uint32_t n)
{
    uintptr_t readable = 0, room = 0; /* words that begin in the `room` bytes there are readable */

    for (; n--; word++) {
        const struct rimf_object *object = a->objects[word->object], *to = a->objects[word->to_object];
        uintptr_t address, expected;

        if (!object || !to)
            return apply_refuse(a, object, "an object that its calls lead to is not there");
        address = object->public.bias + word->linked;
        expected = to->public.bias + word->to_linked;
        if (address - readable >= room) {
            if (!elf_holds(&object->view, address, sizeof address, PROT_READ))
                return apply_refuse(a, object, "a word lies outside it");
            readable = address;
            room = elf_room(&object->view, address) - (sizeof address - 1);
        }
        if (word_at(a, address) != expected)
            return apply_refuse(a, object, "a call leads elsewhere");
    }
    return 0;
}

/* ---- mapping ---------------------------------------------------------------------- */

long apply_open(struct applying *a, uint32_t number)
{
    const struct manifest_object *entry = manifest_object(a->m, number);
    long fd = manifest_open_part(a->file, a->image->sys, a->m->names + entry->overlay_name, &entry->overlay,
                                 &a->why);

    if (sys_failed(fd))
        a->object = &a->objects[number]->public;
    return fd;
}

/* The kernel checks what may forbid it (no-exec mounts, security modules) before it removes the old mapping. */
int apply_texts(struct applying *a, uint32_t number, int fd)
{
    struct rimf_object *object = a->objects[number];
    uint32_t n, laid = 0;
    const struct manifest_text *text = manifest_texts_of(a->m, number, &n);
    int error = manifest_lay_over(a->file, a->image->sys, object->public.bias, text, n, fd, &laid);

    if (error)
        apply_refuse(a, object, "its overlay cannot be mapped");
    if (laid) /* it was the file's when this was written; and calls are, perhaps */
        object->code.known = object->code.calls_direct = 1;
    a->mapped += laid;
    return error;
}
