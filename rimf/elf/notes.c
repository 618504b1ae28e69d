/* SPDX-License-Identifier: MIT
 *
 * rimf/elf/notes.c: notes, with alignment 4 and 8.
 *
 * A note is three words (sizes of name and descriptor, type), the name, and the descriptor, both
 * padded to the alignment of the PT_NOTE: 4, or 8 for .note.gnu.property.  mold puts notes of both
 * alignments into one PT_NOTE of 8, with gaps of zeros.  .note.gnu.property reads the same with
 * either alignment, so such a segment is read in steps of 4 if that reaches its end exactly.
 */
#include "rimf/elf/view.h"

#include "rimf/elf/headers.h"

#include "rimf/base/base.h"

#include <errno.h> /* numbers only */

struct visitor {
    const char *name;
    size_t name_size; /* NUL included */
    uint32_t type;
    int (*visit)(void *cookie, const void *desc, size_t size);
    void *cookie;
};

static size_t pad(size_t size, size_t alignment)
{
    return (size + alignment - 1) & ~(alignment - 1);
}

/* A note without a name is four bytes of gap before one of alignment 8. */
static int is_mixed(uintptr_t at, size_t left)
{
    while (left >= sizeof(Elf64_Nhdr)) {
        const Elf64_Nhdr *note = (const Elf64_Nhdr *)at;
        size_t size = 4;

        if (note->n_namesz)
            size = pad(pad(sizeof *note + (size_t)note->n_namesz, 4) + note->n_descsz, 4);
        if (size > left)
            return 0;
        at += size;
        left -= size;
    }
    return left == 0;
}

/* One PT_NOTE.  0, or what the visitor returned. */
static int walk(const struct visitor *visitor, uintptr_t at, size_t left, size_t alignment,
                int mixed, int *truncated)
{
    while (left >= sizeof(Elf64_Nhdr)) {
        const Elf64_Nhdr *note = (const Elf64_Nhdr *)at;
        const char *name = (const char *)(note + 1);
        /* 32-bit sizes: none of these sums overflows. */
        size_t name_size = note->n_namesz, desc_size = note->n_descsz;
        size_t desc = pad(sizeof *note + name_size, alignment);
        int result;

        if (mixed && !note->n_namesz) {
            at += 4;
            left -= 4;
            continue;
        }
        if (desc > left || desc_size > left - desc) {
            *truncated = 1;
            return 0;
        }
        if (note->n_type == visitor->type && name_size == visitor->name_size &&
            memcmp(name, visitor->name, name_size) == 0) {
            result = visitor->visit
                         ? visitor->visit(visitor->cookie, (const void *)(at + desc), desc_size)
                         : 1;
            if (result)
                return result;
        }
        desc = pad(desc + desc_size, alignment);
        if (desc > left) /* the last one may lack its padding */
            return 0;
        at += desc;
        left -= desc;
    }
    *truncated |= left != 0;
    return 0;
}

static int walk_segment(const struct visitor *visitor, uintptr_t at, size_t size, uint64_t alignment, int *truncated)
{
    int mixed = alignment == 8 && is_mixed(at, size);

    return walk(visitor, at, size, alignment == 8 && !mixed ? 8 : 4, mixed, truncated);
}

int elf_note_each(const struct elf_view *view, const char *name, uint32_t type,
                  int (*visit)(void *cookie, const void *desc, size_t size), void *cookie)
{
    struct visitor visitor = {name, rimf_strlen(name) + 1, type, visit, cookie};
    const Elf64_Phdr *phdr;
    int truncated = 0;

    for (size_t i = 0; (phdr = elf_phdr(view, PT_NOTE, i)); i++) {
        uintptr_t at = view->bias + phdr->p_vaddr;
        size_t size = phdr->p_memsz < phdr->p_filesz ? phdr->p_memsz : phdr->p_filesz;
        int result;

        if (!size)
            continue;
        if (at % 4 != 0 || elf_room(view, at) < size) {
            truncated = 1;
            continue;
        }
        result = walk_segment(&visitor, at, size, phdr->p_align, &truncated);
        if (result)
            return result;
    }
    return truncated ? -ENOEXEC : 0;
}

struct descriptor {
    const uint8_t *bytes;
    size_t size;
};

static int keep_descriptor(void *cookie, const void *desc, size_t size)
{
    *(struct descriptor *)cookie = (struct descriptor){desc, size};
    return 1;
}

const uint8_t *elf_build_id(const struct elf_view *view, size_t *size)
{
    struct descriptor found = {NULL, 0};

    elf_note_each(view, "GNU", NT_GNU_BUILD_ID, keep_descriptor, &found);
    *size = found.size;
    return found.bytes;
}

/* ---- without a view --------------------------------------------------------- */

const uint8_t *elf_note_in(const void *notes, size_t size, uint64_t alignment, const char *name, uint32_t type,
                           size_t *desc_size)
{
    struct descriptor found = {NULL, 0};
    struct visitor visitor = {name, rimf_strlen(name) + 1, type, keep_descriptor, &found};
    int truncated = 0;

    walk_segment(&visitor, (uintptr_t)notes, size, alignment, &truncated);
    *desc_size = found.size;
    return found.bytes;
}

const uint8_t *elf_head_note(const void *head, size_t size, const char *name, uint32_t type, size_t *desc_size)
{
    size_t n;
    const Elf64_Phdr *ph = elf_headers(head, size, &n);
    const uint8_t *found = NULL;

    *desc_size = 0;
    for (size_t i = 0; i < n && !found; i++) {
        size_t room;

        if (ph[i].p_type != PT_NOTE || ph[i].p_offset >= size || ph[i].p_offset % 4 != 0)
            continue;
        room = size - ph[i].p_offset;
        found = elf_note_in((const uint8_t *)head + ph[i].p_offset, ph[i].p_filesz < room ? ph[i].p_filesz : room,
                            ph[i].p_align, name, type, desc_size);
    }
    return found;
}

#define NOTES_MOST 65536u /* bytes of a PT_NOTE: its segment may be longer than the file */

const uint8_t *elf_mapped_build_id(const struct rimf_sys *sys, const Elf64_Phdr *ph, size_t n, uintptr_t bias,
                                   size_t *size)
{
    const uint8_t *found = NULL;

    *size = 0;
    for (size_t i = 0; i < n && !found; i++) {
        uintptr_t at = bias + ph[i].p_vaddr, first = rimf_page_down((uintptr_t)ph);
        size_t length = ph[i].p_filesz;

        if (ph[i].p_type == PT_NOTE && at % 4 == 0 && length <= NOTES_MOST &&
            ((at - first < RIMF_PAGE && length <= RIMF_PAGE - (at - first)) || elf_readable(sys, at, length)))
            found = elf_note_in((const void *)at, length, ph[i].p_align, "GNU", NT_GNU_BUILD_ID, size);
    }
    return found;
}
