/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/slots.c: writes canonical addresses of moved code into the relocated words of objects
 * (moved/moved.h).
 *
 * A word is recognised by its relocation: RELATIVE (of DT_RELA and DT_RELR), 64, GLOB_DAT, JUMP_SLOT,
 * IRELATIVE.  Its value decides, by whatever rule it was bound: an address of code whose canonical address is
 * another one is replaced.  A PLT entry that stands for a function is not such an address, nor is an unbound
 * slot's path to the resolver.
 *
 * If the executable has a copy of a library's variable (R_X86_64_COPY), it has the same words, at the same
 * distances from its start.
 *
 * No code of these objects has run.
 */
#include "rimf/moved/moved.h"

#include "rimf/base/base.h"
#include "rimf/image/private.h"
#include "rimf/patch/private.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

int moved_slots_held(const struct mvld_image *image, const struct rimf_object *object)
{
    return !rimf_object_is_finished(image, object) &&
           !(object->public.flags & (MVLD_OBJECT_OPAQUE | MVLD_OBJECT_VDSO | MVLD_OBJECT_LOADER));
}

/* ---- which ------------------------------------------------------------------------- */

static int holds_address(const Elf64_Rela *relocation)
{
    switch (ELF64_R_TYPE(relocation->r_info)) {
    case R_X86_64_64:
    case R_X86_64_GLOB_DAT:
    case R_X86_64_JUMP_SLOT:
    case R_X86_64_RELATIVE:
    case R_X86_64_IRELATIVE: return 1;
    default: return 0;
    }
}

static void each_relocated(const struct elf_view *view, const Elf64_Rela *relocations, size_t n,
                           int (*visit)(void *cookie, uintptr_t slot), void *cookie)
{
    for (size_t i = 0; i < n; i++)
        if (holds_address(&relocations[i]))
            visit(cookie, view->bias + relocations[i].r_offset);
}

void moved_slots_each(const struct rimf_object *object,
                     int (*visit)(void *cookie, uintptr_t slot), void *cookie)
{
    const struct elf_view *view = &object->view;

    each_relocated(view, view->relocations, view->n_relocations, visit, cookie);
    each_relocated(view, view->plt_relocations, view->n_plt_relocations, visit, cookie);
    elf_relr_each(view, visit, cookie);
}

int moved_slots_open(const struct rimf_object *object, uintptr_t slot, struct moved_open *out)
{
    const struct mvld_segment *s = elf_segment_at(&object->view, slot);

    if (s && (s->prot & (PROT_READ | PROT_WRITE | PROT_EXEC)) == (PROT_READ | PROT_WRITE) &&
        s->end - slot >= sizeof slot) {
        *out = (struct moved_open){s->start, s->end - sizeof slot + 1}; /* behind the first byte of the last word */
        return 1;
    }
    return 0;
}

/* ---- variables that were copied -------------------------------------------------------- */

/* The definition, and the size that was copied.  0, or -ENOENT. */
static int copied_from(const struct mvld_image *image, const struct rimf_object *object,
                       const Elf64_Rela *relocation, struct copied_variable *out)
{
    size_t index = ELF64_R_SYM(relocation->r_info);
    struct mvld_symbol symbol;
    Elf64_Sym own;

    if (elf_symbol_at(&object->view, index, &own) ||
        rimf_symbol_copied(image, object, index, &symbol))
        return -ENOENT;
    *out = (struct copied_variable){
        .from = symbol.address,
        .to = object->view.bias + relocation->r_offset,
        .size = own.st_size < symbol.size ? own.st_size : symbol.size,
    };
    return elf_holds(&object->view, out->to, out->size, PROT_READ | PROT_WRITE) &&
                   elf_holds(&rimf_object_of(symbol.object)->view, out->from, out->size, PROT_READ)
               ? 0
               : -ENOENT;
}

long moved_slots_copied(const struct mvld_image *image, const struct rimf_table *table,
                       void (*found)(void *cookie, const struct copied_variable *), void *cookie)
{
    long n = 0;

    for (size_t i = 0; i < table->n_objects; i++) {
        const struct rimf_object *object = table->objects[i];

        for (size_t k = object->view.n_relative;
             moved_slots_held(image, object) && k < object->view.n_relocations; k++) {
            struct copied_variable variable;

            if (ELF64_R_TYPE(object->view.relocations[k].r_info) != R_X86_64_COPY)
                continue;
            if (copied_from(image, object, &object->view.relocations[k], &variable))
                return -ENOENT;
            if (found && variable.size)
                found(cookie, &variable);
            n += variable.size != 0;
        }
    }
    return n;
}

/* ---- RELRO ------------------------------------------------------------------------------- *
 *
 * Words that the host loader protected after relocation are made writable for a moment.
 */
static int protect(const struct mvld_image *image, const struct rimf_object *object, int prot)
{
    uintptr_t start;
    size_t size = elf_relro(&object->view, &start);

    return size && sys_failed(sys_mprotect(image->sys, start, size, prot)) ? -EPERM : 0;
}

int moved_relro_open_one(const struct mvld_image *image, struct rimf_object *object)
{
    int error = object->relro.open ? 0 : protect(image, object, PROT_READ | PROT_WRITE);

    object->relro.open = !error;
    return error;
}

/* The host loader protects RELRO after relocating an object.  It has not yet done so if a program's malloc,
 * called inside one dlopen, calls another: the inner one's objects are announced while the outer one's are
 * still to be written. */
int moved_relro_is_relocated(struct mvld_image *image, const struct rimf_object *object)
{
    struct patch_maps *maps;
    struct patch_vma vma = {.prot = PROT_WRITE};
    uintptr_t start;

    if (!elf_relro(&object->view, &start))
        return 1;
    maps = rimf_heap_alloc(&image->heap, sizeof *maps);
    if (maps && !patch_maps_open(maps, image->sys, image->heap.alone)) {
        if (patch_maps_find(maps, start, &vma, NULL, 0))
            vma.prot = PROT_WRITE;
        patch_maps_close(maps);
    }
    rimf_heap_release(&image->heap, maps);
    return !(vma.prot & PROT_WRITE);
}

void moved_relro_close(struct mvld_image *image, const struct rimf_table *table)
{
    for (size_t i = 0; i < table->n_objects; i++) {
        struct rimf_object *object = table->objects[i];

        if (object->relro.open && protect(image, object, PROT_READ))
            rimf_log(image->log, MVLD_LOG_WARNING, "%s: its RELRO stays writable",
                     object->public.name);
        object->relro.open = 0;
    }
}

const char *moved_relro_open(struct mvld_image *image, const struct rimf_table *table)
{
    const char *why = NULL;

    for (size_t i = 0; i < table->n_objects && !why; i++) {
        struct rimf_object *object = table->objects[i];

        if (!moved_slots_held(image, object))
            continue;
        if (image->entered && !moved_relro_is_relocated(image, object))
            why = "an object is not relocated yet";
        else if (moved_relro_open_one(image, object))
            why = "RELRO cannot be written";
    }
    if (why)
        moved_relro_close(image, table);
    return why;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* An object whose code moved. */
struct moved_range {
    uintptr_t start, end;
    struct rimf_object *object;
};

struct moved_writing {
    struct mvld_image *image;
    const struct moved_code *moved;
    const struct rimf_object *object; /* the object whose words are written */
    int calls; /* these are the words of its PLT, which only calls read */
    struct moved_open open;
    struct moved_range *ranges; /* ascending */
    size_t n_ranges;
    const struct moved_fragment *last; /* found last */
    struct copied_variable *copied; /* ascending by `from` */
    size_t n_copied;
    size_t n; /* number of written words */
};

/* The code that moved, by its original address. */
static const struct moved_fragment *fragment_at(struct moved_writing *w, uintptr_t value)
{
    const struct moved_fragment *fragment;
    size_t i;

    if (w->last && value - w->last->original < w->last->code)
        return w->last;
    i = RIMF_BISECT(k, w->n_ranges, w->ranges[k].end <= value);
    if (i == w->n_ranges || value < w->ranges[i].start)
        return NULL;
    fragment = moved_fragment_at(w->moved, w->ranges[i].object, value);
    if (fragment)
        w->last = fragment;
    return fragment;
}

/* Writes the executable's copies of this word.  More than one symbol may have been copied from the same
 * address. */
static void write_copied(struct moved_writing *w, uintptr_t slot, uintptr_t value, uintptr_t canonical)
{
    uintptr_t now;

    for (size_t i = 0; i < w->n_copied && w->copied[i].from <= slot; i++) {
        const struct copied_variable *v = &w->copied[i];
        uint8_t *to = (uint8_t *)v->to + (slot - v->from);

        if (slot - v->from >= v->size || v->size - (slot - v->from) < sizeof now)
            continue;
        memcpy(&now, to, sizeof now);
        if (now != value)
            continue;
        memcpy(to, &canonical, sizeof canonical);
        rimf_watch_pointer(w->image, (uintptr_t)to);
        w->n++;
    }
}

static int write_slot(void *cookie, uintptr_t slot)
{
    struct moved_writing *w = cookie;
    const struct moved_fragment *fragment;
    uintptr_t value, canonical;

    if (!moved_slot_is_open(w->object, slot, &w->open))
        return 0;
    memcpy(&value, (const void *)slot, sizeof value);
    fragment = fragment_at(w, value);
    canonical = fragment ? canonical_address(fragment, value) : value;
    if (canonical == value) {
        if (fragment && fragment->object->held && !w->calls)
            move_entries_held(w->image, (struct rimf_object *)fragment->object, value);
        return 0;
    }
    if (w->n_copied)
        write_copied(w, slot, value, canonical);
    memcpy((void *)slot, &canonical, sizeof canonical);
    rimf_watch_pointer(w->image, slot);
    w->n++;
    return 0;
}

static void note_copied(void *cookie, const struct copied_variable *variable)
{
    struct moved_writing *w = cookie;

    w->copied[w->n_copied++] = *variable;
}

static void note_moved(struct moved_writing *w)
{
    for (size_t i = 0; i < w->moved->n; i++) {
        struct rimf_object *object = (struct rimf_object *)w->moved->list[i].object;

        if (moved_is_first(w->moved, i))
            w->ranges[w->n_ranges++] = (struct moved_range){object->public.start, object->public.end, object};
    }
    rimf_sort(w->ranges, w->n_ranges, sizeof *w->ranges);
}

struct moved_writing *moved_slots_prepare(struct mvld_image *image, const struct rimf_table *table)
{
    long n = moved_slots_copied(image, table, NULL, NULL);
    size_t n_copied = n > 0 ? (size_t)n : 0, n_ranges = table->n_objects;
    struct moved_writing *w;

    w = rimf_heap_alloc(&image->heap, sizeof *w + n_copied * sizeof *w->copied +
                                          n_ranges * sizeof *w->ranges);
    if (!w)
        return NULL;
    w->image = image;
    w->moved = image->moved;
    w->copied = (struct copied_variable *)(w + 1);
    w->ranges = (struct moved_range *)(w->copied + n_copied);
    if (n_copied)
        moved_slots_copied(image, table, note_copied, w);
    rimf_sort(w->copied, w->n_copied, sizeof *w->copied);
    return w;
}

static void write_slots(struct moved_writing *w, const struct elf_view *view)
{
    each_relocated(view, view->relocations, view->n_relocations, write_slot, w);
    elf_relr_each(view, write_slot, w);
    w->calls = w->object->moved != 0; /* others' need not become direct */
    each_relocated(view, view->plt_relocations, view->n_plt_relocations, write_slot, w);
    w->calls = 0;
}

size_t moved_slots_write(struct moved_writing *w, const struct rimf_table *table)
{
    note_moved(w);
    for (size_t i = 0; i < table->n_objects && w->n_ranges; i++) {
        if (!moved_slots_held(w->image, table->objects[i]))
            continue;
        w->object = table->objects[i];
        w->open = (struct moved_open){0, 0};
        write_slots(w, &w->object->view);
    }
    return w->n;
}
