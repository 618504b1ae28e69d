/* SPDX-License-Identifier: MIT
 *
 * rimf/store/apply_alone.c: overlays that need no manifest of the program (manifest.h, ALONE), laid over objects
 * whose calls are to be changed.
 *
 * The object's slots are read, not asked for: a word that holds the address in question leads there, whoever
 * wrote it.  The rule is asked for those that hold something else, because they wait for the first call, and those that
 * stay writable, which a pass may be told to leave.
 *
 * Code is exchanged as a whole.  So it must be what the file says until then: whoever
 * has changed it (a pass, the loader, a debugger, a probe) has made a page of it the process's own,
 * of which the kernel tells.
 */
#include "rimf/store/alone.h"
#include "rimf/store/apply.h"
#include "rimf/store/writer.h"

#include "rimf/base/base.h"
#include "rimf/base/status.h"
#include "rimf/image/edits.h"
#include "rimf/image/original.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

#define PATH_SIZE 1024u

void rimf_image_set_overlays(struct mvld_image *image, const struct rimf_overlay_places *places)
{
    image->overlays = *places;
}

void rimf_image_set_writes(struct mvld_image *image, int writes)
{
    const struct rimf_table *table;

    image->writes = writes;
    if (!writes)
        return;
    table = rimf_table_enter(image);
    for (size_t i = 0; i < table->n_objects; i++)
        if (table->objects[i]->identified && !table->objects[i]->number)
            writer_unsettled(image, table->objects[i]);
    rimf_table_leave(image);
}

/* ---- which ------------------------------------------------------------------------- */

/* 1: of these rights.  What lies side by side lies in one segment, `in`, and leads into one. */
static int is_in(const struct rimf_object *object, const struct mvld_segment **in, uintptr_t address, size_t size,
                 uint32_t prot)
{
    if (!*in || address < (*in)->start || address >= (*in)->end)
        *in = elf_segment_at(&object->view, address);
    return *in && size <= (*in)->end - address && (*in)->prot & prot;
}

static uint64_t mix_slots(const struct rimf_object *object, const Elf64_Rela *table, size_t n, uint64_t key)
{
    const struct mvld_segment *data = NULL, *code = NULL;

    for (size_t i = 0; i < n; i++) {
        uint32_t type = ELF64_R_TYPE(table[i].r_info);
        uintptr_t at = object->view.bias + table[i].r_offset, value;

        if ((type != R_X86_64_JUMP_SLOT && type != R_X86_64_IRELATIVE && type != R_X86_64_GLOB_DAT) ||
            !is_in(object, &data, at, sizeof value, PROT_READ))
            continue;
        value = *(const uintptr_t *)at;
        key = rimf_mix(key, is_in(object, &code, value, 1, PROT_EXEC) ? value - object->view.bias : 0);
    }
    return key;
}

static uint64_t own_key(const struct rimf_object *object)
{
    const struct elf_view *view = &object->view;
    uint64_t key = mix_slots(object, view->plt_relocations, view->n_plt_relocations, 0);

    return mix_slots(object, view->relocations + view->n_relative, view->n_relocations - view->n_relative, key);
}

const struct rimf_object *rimf_alone_program(const struct mvld_image *image)
{
    const struct rimf_table *table = rimf_table_enter(image);
    const struct rimf_object *program = NULL;

    for (size_t i = 0; i < table->n_objects && !program; i++)
        if (table->objects[i]->public.flags & MVLD_OBJECT_MAIN)
            program = table->objects[i];
    rimf_table_leave(image);
    return program && program->identified ? program : NULL;
}

uint64_t rimf_alone_key(const struct mvld_image *image, const struct rimf_object *object,
                        enum alone_reach reach)
{
    const struct rimf_object *program = reach == ALONE_ALL ? rimf_alone_program(image) : NULL;

    if (reach == ALONE_OWN)
        return own_key(object);
    return program ? rimf_mix(rimf_mix(ALONE_ALL, program->identity.device),
                                 program->identity.inode)
                   : ALONE_NO_KEY;
}

/* ---- comparing -------------------------------------------------------------------- */

/* The object of that file, where the entry says, seen from object 0; or NULL. */
static struct rimf_object *other_at(const struct applying *a, const struct manifest_object *entry)
{
    uintptr_t bias = a->objects[0]->public.bias + (uintptr_t)entry->distance;
    const struct mvld_object *to = a->image->layout_seed ? NULL : rimf_object_find(a->image, bias + entry->first);
    const struct rimf_table *table = rimf_table_enter(a->image);

    for (size_t i = 0; a->image->layout_seed && !to && i < table->n_objects; i++)
        if (file_id_same(&table->objects[i]->identity, &entry->file))
            to = &table->objects[i]->public;
    rimf_table_leave(a->image);
    return to && alone_distance(a->image, a->objects[0], to) == entry->distance
               ? (struct rimf_object *)rimf_object_of(to) : NULL;
}

/* Objects that its calls lead to lie where they lay. */
static int find_others(struct applying *a, struct rimf_object **objects)
{
    for (uint32_t i = 1; i < a->m->header->n_objects; i++) {
        objects[i] = other_at(a, &a->m->objects[i]);
        if (!objects[i] || objects[i]->public.flags & ALONE_UNFIT)
            return apply_refuse(a, objects[0], "an object that its calls lead to lies elsewhere");
        if (apply_compare_file(a, i))
            return -ESTALE;
    }
    return 0;
}

/* Calls that are left stay, as the rule has it here; counted where that is wanted. */
static int compare_left(struct applying *a, int counted)
{
    struct rimf_object *object = a->objects[0];

    for (uint32_t i = 0; i < a->m->header->n_left; i++) {
        const struct manifest_left *left = &a->m->left[i];
        struct rimf_wanted wanted = rimf_edit_wanted(a->image, object, object->public.bias + left->slot);

        if (wanted.target)
            return apply_refuse(a, object, "a call leads elsewhere");
        for (struct rimf_edit *edit = object->edit; edit && counted; edit = rimf_edit_behind(a->image, edit)) {
            rimf_edit_left(edit, wanted.why, left->calls);
            edit->now.sites += left->calls;
        }
    }
    return 0;
}

static int compare_overlay(struct mvld_image *image, const struct rimf_object *object,
                           const struct manifest_file *file, int counted, const char **why)
{
    const struct manifest_header *h = file->view.header;
    struct rimf_object **objects = rimf_heap_alloc(&image->heap, h->n_objects * sizeof *objects);
    struct applying a = {.image = image, .file = file, .m = &file->view, .objects = objects, .alone = 1};
    int error;

    *why = "out of memory";
    if (!objects)
        return -ENOMEM;
    objects[0] = (struct rimf_object *)object;
    error = h->made_by == image->overlays.made_by ? apply_compare_file(&a, 0)
                                                  : apply_refuse(&a, object, "it was made by another mvld");
    if (!error)
        error = apply_compare_texts(&a, 0);
    if (!error)
        error = find_others(&a, objects);
    if (!error)
        error = apply_compare_words(&a, a.m->words, h->n_words);
    if (!error && a.m->objects[0].flags & MANIFEST_SINGLES && !rimf_edit_singles(image, object))
        error = apply_refuse(&a, object, "functions of a single instruction stay calls");
    if (!error)
        error = compare_left(&a, counted);
    rimf_heap_release(&image->heap, objects);
    *why = a.why;
    return error;
}

static int find_at(struct mvld_image *image, const struct rimf_object *object, uint64_t key,
                   const struct analysis_place *place, struct manifest_file *file, int counted, const char **why)
{
    char path[PATH_SIZE];
    int error = -ENOENT;

    if (key != ALONE_NO_KEY &&
        overlay_path(path, sizeof path, place->folder, &object->identity, key, object->public.name))
        error = manifest_map_alone(file, image->sys, path, place->user, object->identity.size,
                                   !image->filtered, why);
    if (error)
        return error;
    file->filtered = image->filtered;
    error = compare_overlay(image, object, file, counted, why);
    if (error)
        manifest_unmap(file, image->sys);
    return error;
}

/* The first that fits. */
static int find_overlay(struct mvld_image *image, const struct rimf_object *object, uint64_t key,
                        struct manifest_file *file, int counted)
{
    rimf_places_ask(image);
    for (size_t i = 0; i < image->overlays.n; i++) {
        const char *why;
        int error = find_at(image, object, key, &image->overlays.places[i], file, counted, &why);

        if (!error)
            return 0;
        if (error != -ENOENT)
            rimf_log(image->log, MVLD_LOG_PASSES, "ready code of %s: not used: %s: %s",
                     object->public.name, image->overlays.places[i].folder, why);
    }
    return -ENOENT;
}

/* While calls lead to moved code (concat), those to other objects are not what they were; and where
 * distances are drawn, code for those of a start without a manifest leads to nowhere. */
static int find_any(struct mvld_image *image, const struct rimf_object *object, struct manifest_file *file)
{
    if (!(image->moved && image->moved->n) && !image->layout_seed &&
        !find_overlay(image, object, rimf_alone_key(image, object, ALONE_ALL), file, 1))
        return 0;
    return find_overlay(image, object, rimf_alone_key(image, object, ALONE_OWN), file, 1);
}

int rimf_alone_exists(struct mvld_image *image, struct rimf_object *object, uint64_t key)
{
    struct manifest_file file;
    int exists = object->identified && !find_overlay(image, object, key, &file, 0), same;

    if (!exists)
        return 0;
    same = file.view.objects[0].analysis == rimf_analysis_key(&object->public);
    manifest_unmap(&file, image->sys);
    return same;
}

/* ---- laying it over ------------------------------------------------------------------ */

/* Nobody is in it, nor is it anybody's in this process. */
static int may_lay(const struct mvld_image *image, const struct rimf_object *object)
{
    return image->overlays.n && !image->watch && object->identified && !object->moved &&
           !object->public.why &&
           rimf_object_unentered(image, object) &&
           !rimf_image_is_traced(image);
}

static int lay(struct applying *a, const struct rimf_object *object)
{
    int error;

    for (uint32_t i = 0; i < a->m->header->n_texts; i++)
        if (!status_is_unwritten(a->image->sys, object->view.bias + a->m->texts[i].linked,
                                 a->m->texts[i].size))
            return apply_refuse(a, object, "its code was changed");
    error = apply_texts(a, 0, a->file->folder);
    return a->mapped ? 0 : error;
}

/* Its calls are the object's until analyses are closed. */
static void use(struct mvld_image *image, struct rimf_object *object)
{
    struct manifest_file file;
    struct applying a = {.image = image, .file = &file, .m = &file.view, .objects = &object};

    if (!may_lay(image, object) || find_any(image, object, &file))
        return;
    if (lay(&a, object)) {
        rimf_log(image->log, MVLD_LOG_PASSES, "ready code of %s: not used: %s", object->public.name, a.why);
        manifest_unmap(&file, image->sys);
        return;
    }
    manifest_close(&file, image->sys);
    object->left = (struct left_calls){file.view.calls, file.view.header->n_calls, file.map, file.size};
    for (struct rimf_edit *edit = object->edit; edit; edit = rimf_edit_behind(image, edit)) {
        edit->now.sites += file.view.objects[0].n_calls;
        edit->now.made += file.view.objects[0].n_calls;
    }
    rimf_log(image->log, MVLD_LOG_PASSES, "ready code of %s: laid over, %s through %u slots",
             object->public.name, overlay_reach_name(file.view.header->n_reads != 0),
             file.view.header->n_words);
}

const struct analysis_call *rimf_alone_calls(struct mvld_image *image, struct rimf_object *object,
                                             size_t *n, const char **why)
{
    const struct analysis *s;

    int is_first = !rimf_edit_was_emitted(object);

    if (!object->left.map && is_first)
        use(image, object);
    if (object->left.map && is_first) {
        *n = object->left.n;
        return object->left.at;
    }
    s = rimf_analysis_calls(image, object, why);
    *n = s ? s->n_calls : 0;
    return s ? s->calls : NULL;
}
