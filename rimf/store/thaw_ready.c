/* SPDX-License-Identifier: MIT
 *
 * rimf/store/thaw_ready.c: ready code laid over an object's; when that is right is told in ready.h.
 *
 * The object's slots are read, not asked for: a word that holds the address in question leads there,
 * whoever wrote it, if that is code of a library.  The rule is asked for those that hold something else,
 * because they wait for the first call, those that stay writable, which a pass may be told to leave, and those
 * that lead to the executable, whose PLT may stand for a function of somebody else.
 *
 * Code is exchanged as a whole.  So it must be what the file says until then: whoever
 * has changed it (a pass, the loader, a debugger, a probe) has made a page of it the process's own,
 * of which the kernel tells.
 */
#include "rimf/realise/changes.h"

#include "rimf/base/base.h"
#include "rimf/moved/moved.h"
#include "rimf/base/status.h"
#include "rimf/store/thaw.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

#define PATH_SIZE 1024u

/* Code that was found last, of a library; slots that lie side by side often lead to the same. */
struct found {
    uintptr_t start, end;
};

void rimf_image_set_ready(struct mvld_image *image, const struct rimf_ready_places *places)
{
    image->ready = *places;
}

void rimf_image_set_writes(struct mvld_image *image, int writes)
{
    image->writes = writes;
}

/* ---- where slots lead -------------------------------------------------------------- */

static const struct mvld_segment *segment_at(const struct mvld_object *object, uintptr_t address,
                                             uint32_t prot)
{
    for (size_t i = 0; i < object->n_segments; i++) {
        const struct mvld_segment *segment = &object->segments[i];

        if (address >= segment->start && address < segment->end)
            return (segment->prot & prot) == prot ? segment : NULL;
    }
    return NULL;
}

/* A call of the object may lead straight there, however it came to: it is code of its own, or of
 * a library that lies where it lies each time. */
static int is_library(const struct mvld_image *image, const struct rimf_object *object,
                      uintptr_t address, struct found *found)
{
    const uint32_t others = MVLD_OBJECT_MAIN | MVLD_OBJECT_VDSO | MVLD_OBJECT_LOADER | MVLD_OBJECT_UNPLACED;
    const struct mvld_object *holder;
    const struct mvld_segment *code;

    if (address >= found->start && address < found->end)
        return 1;
    holder = rimf_object_find(image, address);
    if (!holder || (holder != &object->public && holder->flags & others))
        return 0;
    code = segment_at(holder, address, PROT_EXEC);
    if (code)
        *found = (struct found){code->start, code->end};
    return code != NULL;
}

static int is_own(const struct rimf_object *object, uintptr_t address)
{
    return address >= object->public.start && address < object->public.end;
}

/* ---- comparing -------------------------------------------------------------------- */

static const char *other_object(const struct mvld_image *image, const struct rimf_object *object,
                                const struct ready *r)
{
    const struct rimf_object *program = r->header->reach == READY_ALL ? rimf_ready_program(image) : NULL;
    size_t n = 0;

    if (r->header->made_by != image->ready.made_by)
        return "it was made by another mvld";
    if (!file_id_same(&r->header->file, &object->identity) ||
        r->header->build_id != frozen_build_id(&object->public))
        return "it is of another file";
    if (r->header->reach == READY_ALL &&
        (!program || !file_id_same(&r->header->program, &program->identity)))
        return "it is of another program";
    for (size_t i = 0; i < object->public.n_segments; i++)
        n += (object->public.segments[i].prot & PROT_EXEC) != 0;
    for (uint32_t i = 0; i < r->header->n_texts; i++)
        if (!thaw_is_text(object, &r->texts[i]))
            return "its code lies elsewhere";
    return n == r->header->n_texts ? NULL : "its code lies elsewhere";
}

/* Those that hold what they held, so that their calls stay as they are, need not be code. */
static const char *other_slots(struct mvld_image *image, const struct rimf_object *object,
                               const struct ready *r)
{
    uintptr_t bias = object->view.bias, relro;
    size_t relro_size = elf_relro(&object->view, &relro); /* slots there are read-only by now */
    struct found found = {0, 0};

    for (uint32_t i = 0; i < r->header->n_slots; i++) {
        const struct ready_slot *slot = &r->slots[i];
        uintptr_t at = bias + slot->slot, leads;
        int left = (slot->calls & READY_LEFT) != 0;

        if (!elf_holds(&object->view, at, sizeof at, PROT_READ))
            return "a slot lies outside the object";
        leads = *(const uintptr_t *)at;
        if (at - relro < relro_size && rimf_ready_distance(image, object, leads) == slot->leads &&
            (left || is_library(image, object, leads, &found)))
            continue;
        leads = rimf_edit_end(image, object, at);
        if (left ? leads != 0 : !leads || rimf_ready_distance(image, object, leads) != slot->leads)
            return "a call leads elsewhere";
    }
    return r->header->singles && !rimf_edit_end(image, object, 0)
               ? "functions of a single instruction stay calls" : NULL;
}

/* ---- which ------------------------------------------------------------------------- */

static int is_in(const struct mvld_segment *segment, uintptr_t address, size_t size)
{
    return segment && address >= segment->start && address < segment->end &&
           size <= segment->end - address;
}

/* What lies side by side lies in one segment. */
static uint64_t mix_slots(const struct mvld_image *image, const struct rimf_object *object,
                          const Elf64_Rela *table, size_t from, size_t end, uint64_t key)
{
    const struct mvld_segment *data = NULL;
    struct found found = {0, 0};

    for (size_t i = from; i < end; i++) {
        uint32_t type = ELF64_R_TYPE(table[i].r_info);
        uintptr_t at = object->view.bias + table[i].r_offset, value;

        if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_IRELATIVE && type != R_X86_64_GLOB_DAT)
            continue;
        if (!is_in(data, at, sizeof value))
            data = segment_at(&object->public, at, PROT_READ);
        if (!is_in(data, at, sizeof value))
            continue;
        value = *(const uintptr_t *)at;
        key = rimf_mix(key, is_own(object, value) && is_library(image, object, value, &found)
                                   ? value - object->view.bias : 0);
    }
    return key;
}

static uint64_t own_key(const struct mvld_image *image, const struct rimf_object *object)
{
    const struct elf_view *view = &object->view;
    uint64_t key = mix_slots(image, object, view->plt_relocations, 0, view->n_plt_relocations, 0);

    return mix_slots(image, object, view->relocations, view->n_relative, view->n_relocations, key);
}

const struct rimf_object *rimf_ready_program(const struct mvld_image *image)
{
    const struct rimf_table *table = rimf_table_enter(image);
    const struct rimf_object *program = NULL;

    for (size_t i = 0; i < table->n_objects && !program; i++)
        if (table->objects[i]->public.flags & MVLD_OBJECT_MAIN)
            program = table->objects[i];
    rimf_table_leave(image);
    return program && program->identified ? program : NULL;
}

uint64_t rimf_ready_key(const struct mvld_image *image, const struct rimf_object *object,
                        enum ready_reach reach)
{
    const struct rimf_object *program = reach == READY_ALL ? rimf_ready_program(image) : NULL;

    if (reach == READY_OWN)
        return own_key(image, object);
    return program ? rimf_mix(rimf_mix(READY_ALL, program->identity.device),
                                 program->identity.inode)
                   : READY_NO_KEY;
}

static int find_at(struct mvld_image *image, const struct rimf_object *object, uint64_t key,
                   enum ready_reach reach, const struct analysis_place *place,
                   struct ready_file *file, const char **why)
{
    char path[PATH_SIZE];
    int error = -ENOENT;

    if (key != READY_NO_KEY &&
        ready_path(path, sizeof path, place->folder, &object->identity, key, object->public.name))
        error = ready_map(file, image->sys, path, place->user, object->identity.size, !image->filtered, why);
    if (error)
        return error;
    *why = file->view.header->reach == reach ? other_object(image, object, &file->view)
                                             : "it has another file's name";
    if (!*why)
        *why = other_slots(image, object, &file->view);
    if (!*why)
        return 0;
    ready_unmap(file, image->sys);
    return -ESTALE;
}

/* The first that fits. */
static int find(struct mvld_image *image, const struct rimf_object *object, enum ready_reach reach,
                uint64_t key, struct ready_file *file)
{
    for (size_t i = 0; i < image->ready.n; i++) {
        const char *why;
        int error = find_at(image, object, key, reach, &image->ready.places[i], file, &why);

        if (!error)
            return 0;
        if (error != -ENOENT)
            rimf_log(image->log, MVLD_LOG_PASSES, "ready code of %s: not used: %s: %s",
                     object->public.name, image->ready.places[i].folder, why);
    }
    return -ENOENT;
}

/* While calls lead to copies of functions (concat), those to other objects are not what they were; and where
 * distances are drawn, code for those of a start without an image leads to nowhere. */
static int find_any(struct mvld_image *image, const struct rimf_object *object,
                    struct ready_file *file)
{
    if (!image->has_moved && !image->layout_seed &&
        !find(image, object, READY_ALL, rimf_ready_key(image, object, READY_ALL), file))
        return 0;
    return find(image, object, READY_OWN, rimf_ready_key(image, object, READY_OWN), file);
}

int rimf_ready_exists(struct mvld_image *image, struct rimf_object *object, enum ready_reach reach,
                      uint64_t key)
{
    struct ready_file file;
    int exists = object->identified && !find(image, object, reach, key, &file);

    if (exists)
        ready_unmap(&file, image->sys);
    return exists;
}

/* ---- laying it over ------------------------------------------------------------------ */

/* Nobody is in it, nor is it anybody's in this process. */
static int may_lay(const struct mvld_image *image, const struct rimf_object *object)
{
    return image->ready.n && !image->watch && object->identified && !object->moved &&
           !object->public.why &&
           rimf_object_unentered(image, object) &&
           !rimf_image_is_traced(image);
}

static int is_unwritten(const struct mvld_image *image, const struct rimf_object *object,
                        const struct ready *r)
{
    for (uint32_t i = 0; i < r->header->n_texts; i++)
        if (!status_is_unwritten(image->sys, object->view.bias + r->texts[i].linked,
                                 r->texts[i].size))
            return 0;
    return 1;
}

/* A text that is mapped is right, whether the next one can be or not. */
static int map_texts(struct mvld_image *image, struct rimf_object *object,
                     const struct ready_file *file)
{
    for (uint32_t i = 0; i < file->view.header->n_texts; i++) {
        const struct frozen_text *text = &file->view.texts[i];
        long at = frozen_map_text(image->sys, object->view.bias, text, file->fd);

        if (sys_failed(at) && !i)
            return (int)at;
        if (!sys_failed(at))
            frozen_want_large(image->sys, image->filtered, (uintptr_t)at, text->size);
        object->code_known = 1;
    }
    return 0;
}

/* Calls that are direct now, and those that stay. */
static void count(struct mvld_image *image, const struct rimf_object *object, const struct ready *r)
{
    for (uint32_t i = 0; i < r->header->n_slots; i++) {
        uint32_t calls = ready_calls(&r->slots[i]);

        rimf_edit_made(image, object, object->view.bias + r->slots[i].slot, calls,
                       r->slots[i].calls & READY_LEFT ? 0 : calls, 0);
    }
    if (r->header->singles)
        rimf_edit_made(image, object, 0, r->header->singles, r->header->singles, 0);
}

static int lay(struct mvld_image *image, struct rimf_object *object, struct ready_file *file)
{
    const char *why = is_unwritten(image, object, &file->view) ? NULL : "its code was changed";

    if (!why && map_texts(image, object, file))
        why = "it cannot be mapped";
    if (why)
        rimf_log(image->log, MVLD_LOG_PASSES, "ready code of %s: not used: %s",
                 object->public.name, why);
    return why ? -ESTALE : 0;
}

/* Its tables are the object's until analyses are closed. */
static void use(struct mvld_image *image, struct rimf_object *object)
{
    struct ready_file file, *kept;

    if (!may_lay(image, object) || find_any(image, object, &file))
        return;
    kept = rimf_heap_alloc(&image->heap, sizeof *kept);
    if (!kept || lay(image, object, &file)) {
        rimf_heap_release(&image->heap, kept);
        ready_unmap(&file, image->sys);
        return;
    }
    ready_close(&file, image->sys);
    *kept = file;
    object->ready = kept;
    rimf_log(image->log, MVLD_LOG_PASSES, "ready code of %s: laid over, %s through %u slots",
             object->public.name,
             ready_reach_name((enum ready_reach)file.view.header->reach),
             file.view.header->n_slots);
    count(image, object, &file.view);
}

void rimf_ready_forget(struct mvld_image *image, struct rimf_object *object)
{
    if (object->ready)
        ready_unmap(object->ready, image->sys);
    rimf_heap_release(&image->heap, object->ready);
    object->ready = NULL;
}

const struct analysis_call *rimf_ready_calls(struct mvld_image *image, struct rimf_object *object,
                                            size_t *n, const char **why)
{
    const struct analysis *s;

    if (!object->ready)
        use(image, object);
    if (object->ready) {
        *n = object->ready->view.header->n_rest;
        return object->ready->view.rest;
    }
    s = rimf_analysis_calls(image, object, why);
    *n = s ? s->n_calls : 0;
    return s ? s->calls : NULL;
}
