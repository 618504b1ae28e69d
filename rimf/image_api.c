/* SPDX-License-Identifier: MIT
 *
 * rimf/image_api.c: the functions that passes are given (mvld/pass.h).
 */
#include "image_private.h"

#include "base.h"
#include "copies.h"
#include "patch.h"
#include "symfile.h"

#include <errno.h> /* numbers only */

static size_t object_count(const struct mvld_image *image)
{
    size_t n = rimf_table_enter(image)->n_objects;

    rimf_table_leave(image);
    return n;
}

static const struct mvld_object *object_at(const struct mvld_image *image, size_t index)
{
    const struct rimf_table *table = rimf_table_enter(image);
    const struct mvld_object *object = NULL;

    if (index < table->n_objects)
        object = &table->objects[index]->public;
    rimf_table_leave(image);
    return object;
}

const struct mvld_object *rimf_object_find(const struct mvld_image *image, uintptr_t address)
{
    const struct rimf_place *place = rimf_table_find(rimf_table_enter(image), address);
    const struct mvld_object *object = place ? &place->object->public : NULL;

    rimf_table_leave(image);
    return object;
}

static int object_holds(const struct mvld_object *object, uintptr_t address, size_t length,
                        uint32_t prot)
{
    return elf_holds(&rimf_object_of(object)->view, address, length, prot);
}

static int note_each(const struct mvld_object *public, const char *name, uint32_t type,
                     int (*visit)(void *cookie, const void *desc, size_t size), void *cookie)
{
    const struct rimf_object *object = rimf_object_of(public);

    if (__atomic_load_n(&object->gone, __ATOMIC_ACQUIRE))
        return 0;
    return elf_note_each(&object->view, name, type, visit, cookie);
}

static void *api_alloc(struct mvld_image *image, size_t size)
{
    return rimf_heap_alloc(&image->heap, size);
}

static void api_release(struct mvld_image *image, void *memory)
{
    rimf_heap_release(&image->heap, memory);
}

/* Written aside first: who reads it meanwhile finds a terminated text. */
int rimf_vfail(struct mvld_image *image, int err, const char *format, va_list args)
{
    char sentence[sizeof image->error];

    rimf_vformat(sentence, sizeof sentence, format, args);
    memcpy(image->error, sentence, rimf_strlen(sentence) + 1);
    rimf_log(image->log, MVLD_LOG_WARNING, "%s", sentence);
    return err < 0 ? err : -err;
}

int rimf_fail(struct mvld_image *image, int err, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    err = rimf_vfail(image, err, format, args);
    va_end(args);
    return err;
}

void rimf_image_set_planned(struct mvld_image *image,
                            int (*planned)(const void *cookie, const char *pass),
                            const void *cookie)
{
    image->planned = planned;
    image->planned_cookie = cookie;
}

int rimf_pass_planned(const struct mvld_image *image, const char *name)
{
    return image->planned && image->planned(image->planned_cookie, name);
}

static const char *last_error(const struct mvld_image *image)
{
    return image->error;
}

static void api_vlog(const struct mvld_image *image, uint32_t category, const char *format,
                     va_list args)
{
    rimf_vlog(image->log, category, format, args);
}

__attribute__((format(printf, 3, 4))) static void
api_log(const struct mvld_image *image, uint32_t category, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    rimf_vlog(image->log, category, format, args);
    va_end(args);
}

static int api_log_enabled(const struct mvld_image *image, uint32_t category)
{
    return rimf_log_enabled(image->log, category);
}

static const struct mvld_api api = {
    .object_count = object_count,
    .object_at = object_at,
    .object_find = rimf_object_find,
    .object_holds = object_holds,
    .note_each = note_each,
    .symbol_find = rimf_symbol_find,
    .symbol_resolve = rimf_symbol_resolve,
    .plt_target = rimf_plt_target,
    .patch_begin = rimf_patch_begin,
    .patch_add = rimf_patch_add,
    .patch_commit = rimf_patch_commit,
    .patch_count = rimf_patch_count,
    .patch_at = rimf_patch_at,
    .patch_end = rimf_patch_end,
    .alloc = api_alloc,
    .release = api_release,
    .fail = rimf_fail,
    .last_error = last_error,
    .log = api_log,
    .log_enabled = api_log_enabled,
    .vlog = api_vlog,
    .slot_at = rimf_slot_at,
    .slot_find = rimf_slot_find,
    .plt_watcher = rimf_plt_watcher,
    .reference_each = rimf_reference_each,
    .patch_often = rimf_patch_often,
    .depends = rimf_depends,
    .patch_add_words = rimf_patch_add_words,
    .region_set = rimf_region_set,
    .copy_add = rimf_copy_add,
    .copies_commit = rimf_copies_commit,
    .copy_home = rimf_copy_home,
    .copies_forget = rimf_copies_forget,
    .copy_names = rimf_copy_names,
    .copies_debug = rimf_copies_debug,
    .copy_pieces = rimf_copy_pieces,
    .copy_add_piece = rimf_copy_add_piece,
    .region_pages = rimf_region_pages,
    .copy_find = rimf_copy_find,
    .pass_planned = rimf_pass_planned,
    .copy_in_line = rimf_copy_in_line,
    .region_hot = rimf_region_hot,
    .slot_name = rimf_slot_name,
    .section_add = rimf_section_add,
    .symbol_bind = rimf_symbol_redirect,
    .symbol_hide = rimf_symbol_hide,
    .calls_retarget = rimf_calls_retarget,
};

const struct mvld_api *rimf_api(void)
{
    return &api;
}
