/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/debug.c: tells debuggers about moved code, by GDB's JIT interface: a list of ELF files in memory
 * (symfile.h).
 *
 *     frames:          table →        ← symbols, names | symbols, names | .eh_frame of moved code →
 *
 * A batch has one file.  Code without space for its names has none.
 */
#include "rimf/moved/symfile.h"

#include "rimf/base/base.h"
#include "rimf/moved/moved.h"
#include "rimf/image/private.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

struct jit_entry {
    struct jit_entry *next, *before;
    const void *file;
    uint64_t size;
};

struct jit_descriptor {
    uint32_t version, action; /* 1; 1: an entry was added */
    struct jit_entry *at_hand, *first;
};

/* A debugger that attaches walks the list; an attached one has a breakpoint in a function that we call after
 * each change. */
struct debugger {
    struct mvld_image *image;
    struct jit_descriptor *descriptor;
    void (*changed)(void);
};

static void announce(const struct debugger *d, struct jit_entry *entry, uintptr_t file)
{
    struct jit_descriptor *descriptor = d->descriptor;

    *entry = (struct jit_entry){.next = descriptor->first, .file = (const void *)file,
                                .size = d->image->moved->frames_end - file};
    if (entry->next)
        entry->next->before = entry;
    descriptor->first = descriptor->at_hand = entry;
    descriptor->action = 1;
    d->changed();
}

/* The lowest address of files.  Half of the space is reserved for the table that unwinders search: code can
 * do without names, but not without that. */
static uintptr_t lowest(const struct moved_code *moved)
{
    size_t table = moved_frames_searched(moved->n_frames);
    size_t half = rimf_page_up(moved_frames_table(&moved->region) / 2);

    return moved->region.frames + (table > half ? table : half);
}

static int no_memory(struct mvld_image *image)
{
    return rimf_fail(image, ENOMEM, "there is no memory for the names of moved code");
}

/* Makes the file in front of the earlier ones.  0, or negative errno. */
static int make(struct mvld_image *image, struct symfile *file, uintptr_t *at)
{
    struct moved_code *moved = image->moved;
    uintptr_t end = moved->names;
    int error;

    symfile_measure(image, file);
    if (end < lowest(moved) || symfile_size(file) > end - lowest(moved))
        return rimf_fail(image, ENOSPC, "the region has no room for the names of moved code");
    *at = rimf_page_down(end - symfile_size(file));
    file->frames_offset = file->frames - *at;
    if (sys_failed(moved_pages_small(image, *at, end, PROT_READ | PROT_WRITE)))
        return no_memory(image);
    error = symfile_write(image, file, (void *)*at);
    sys_mprotect(image->sys, *at, end - *at, PROT_READ);
    return error;
}

/* The library of the region has the descriptor. */
static int find_descriptor(struct mvld_image *image, struct debugger *d)
{
    const struct mvld_object *owner = rimf_object_find(image, image->moved->region.code);
    struct mvld_symbol descriptor, changed;

    if (!owner || rimf_symbol_find(owner, MOVED_JIT, NULL, &descriptor) ||
        rimf_symbol_find(owner, MOVED_JIT_CHANGED, NULL, &changed) ||
        !rimf_object_holds(owner, descriptor.address, sizeof *d->descriptor, PROT_READ | PROT_WRITE) ||
        !rimf_object_holds(owner, changed.address, 1, PROT_READ | PROT_EXEC))
        return rimf_fail(image, ENOENT, "the library to which code moves has no descriptor for debuggers");
    d->descriptor = (struct jit_descriptor *)descriptor.address;
    d->changed = (void (*)(void))changed.address;
    return 0;
}

int moved_names_debug(struct mvld_image *image, const struct rimf_described *functions, size_t n)
{
    struct moved_code *moved = image->moved;
    struct debugger d = {.image = image};
    struct symfile file = {.first = moved->n_named, .end = n ? moved->n_named : moved->n,
                           .functions = functions, .n_functions = n,
                           .frames = moved->frames_named,
                           .frames_size = moved->frames_end - moved->frames_named};
    struct jit_entry *entry;
    uintptr_t at = 0;
    int error;

    if (file.first == file.end && !n)
        return 0;
    error = find_descriptor(image, &d);
    if (error)
        return error;
    entry = rimf_heap_alloc(&image->heap, sizeof *entry);
    error = entry ? make(image, &file, &at) : no_memory(image);
    if (error) {
        rimf_heap_release(&image->heap, entry);
        return error;
    }
    moved->names = at;
    moved->n_named = file.end;
    moved->frames_named = moved->frames_end;
    announce(&d, entry, at);
    return 0;
}
