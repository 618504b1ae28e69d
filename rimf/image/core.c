/* SPDX-License-Identifier: MIT
 *
 * rimf/image/core.c: the functions that describe objects and patch them: all that the engine in
 * libmultiverse has, and the first part of the api for passes (realise/api.c).  Nothing here, and nothing
 * that this needs, depends on moved code, analyses or files: rimf/meson.build links it without them.
 */
#include "rimf/image/private.h"

#include "rimf/base/base.h"
#include "rimf/image/original.h"
#include "rimf/patch/patch.h"

#include <errno.h> /* numbers only */
#include <sys/mman.h> /* numbers only */

size_t rimf_object_count(const struct mvld_image *image)
{
    size_t n = rimf_table_enter(image)->n_objects;

    rimf_table_leave(image);
    return n;
}

const struct mvld_object *rimf_object_at(const struct mvld_image *image, size_t index)
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
    const struct rimf_object *object = rimf_table_find(rimf_table_enter(image), address);

    rimf_table_leave(image);
    return object ? &object->public : NULL;
}

int rimf_object_holds(const struct mvld_object *object, uintptr_t address, size_t length,
                      uint32_t prot)
{
    return rimf_is_object(object) && elf_holds(&rimf_object_of(object)->view, address, length, prot);
}

int rimf_note_each(const struct mvld_object *public, const char *name, uint32_t type,
                   int (*visit)(void *cookie, const void *desc, size_t size), void *cookie)
{
    const struct rimf_object *object = rimf_object_of(public);

    if (!rimf_is_object(public) || !name)
        return -EINVAL;
    if (__atomic_load_n(&object->gone, __ATOMIC_ACQUIRE))
        return 0;
    return elf_note_each(&object->view, name, type, visit, cookie);
}

void *rimf_api_alloc(struct mvld_image *image, size_t size)
{
    return image ? rimf_heap_alloc(&image->heap, size) : NULL;
}

void rimf_api_release(struct mvld_image *image, void *memory)
{
    if (image)
        rimf_heap_release(&image->heap, memory);
}

/* Written to another buffer first: concurrent readers find a terminated text. */
static int vfail(struct mvld_image *image, int err, const char *format, va_list args)
{
    char sentence[sizeof image->error];

    err = err < 0 ? err : -err;
    if (!image)
        return err;
    rimf_vformat(sentence, sizeof sentence, format ? format : "", args);
    memcpy(image->error, sentence, rimf_strlen(sentence) + 1);
    rimf_log(image->log, MVLD_LOG_WARNING, "%s", sentence);
    return err;
}

int rimf_fail(struct mvld_image *image, int err, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    err = vfail(image, err, format, args);
    va_end(args);
    return err;
}

static const char *const stages[] = {"none", "map", "relocate", "run"};

void rimf_image_set_stage(struct mvld_image *image, enum rimf_stage stage, const struct mvld_context *ctx)
{
    image->stage = stage;
    image->running = ctx;
    image->n_spliced = 0;
    image->unfinished = stage == RIMF_STAGE_RUN ? ctx : NULL;
    image->runner = stage == RIMF_STAGE_RUN && !image->heap.alone ? (uint32_t)SYS3(image->sys, SYS_gettid, 0, 0, 0) : 0;
    if (stage != RIMF_STAGE_NONE) /* this sentence belongs to this stage and pass */
        image->error[0] = '\0';
}

const char *rimf_image_running(const struct mvld_image *image)
{
    return image->running ? image->running->pass : NULL;
}

int rimf_only_in(struct mvld_image *image, enum rimf_stage stage, const char *who)
{
    return !image ? -EINVAL : image->stage == stage ? 0
                                 : rimf_fail(image, EPERM, "%s: an edit of the stage %s, in the stage %s", who,
                                             stages[stage], stages[image->stage]);
}

const char *rimf_last_error(const struct mvld_image *image)
{
    return image ? image->error : "";
}

void rimf_api_log(const struct mvld_image *image, uint32_t category, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    rimf_vlog(image && format ? image->log : NULL, category, format, args);
    va_end(args);
}

int rimf_api_log_enabled(const struct mvld_image *image, uint32_t category)
{
    return image && rimf_log_enabled(image->log, category);
}

/* ---- patches ---------------------------------------------------------------------------
 *
 * What the patch engine must know about the image.
 */

static void *host_alloc(void *cookie, size_t size)
{
    return rimf_heap_alloc(&((struct mvld_image *)cookie)->heap, size);
}

static void host_release(void *cookie, void *memory)
{
    rimf_heap_release(&((struct mvld_image *)cookie)->heap, memory);
}

/* The memory of all moved code, of which there is some. */
static struct mvld_segment moved_segment(const struct moved_code *moved)
{
    size_t n = __atomic_load_n(&moved->n, __ATOMIC_ACQUIRE);
    const struct moved_fragment *last = __atomic_load_n(&moved->list, __ATOMIC_ACQUIRE) + n - 1;

    return (struct mvld_segment){.start = moved->region.code, .end = rimf_page_up(last->at + last->size),
                                 .prot = PROT_READ | PROT_EXEC};
}

static int host_segment(void *cookie, uintptr_t address, struct mvld_segment *out)
{
    const struct mvld_object *object = rimf_object_find(cookie, address);
    const struct mvld_segment *segment;

    if (!object || object->flags & MVLD_OBJECT_VDSO)
        return -ENOENT;
    if (rimf_original_of(cookie, address)) {
        *out = moved_segment(((struct mvld_image *)cookie)->moved);
        return 0;
    }
    segment = elf_segment_at(&rimf_object_of(object)->view, address);
    if (!segment)
        return -ENOENT;
    *out = *segment;
    if (((struct mvld_image *)cookie)->stage == RIMF_STAGE_RUN) {
        ((struct rimf_object *)rimf_object_of(object))->code.patched |= OBJECT_PATCHED;
        ((struct rimf_object *)rimf_object_of(object))->code.patched_by = ((struct mvld_image *)cookie)->running;
    }
    return 0;
}

/* If the bytes belong to several functions, the first or the last function may have moved. */
static uintptr_t host_copy(void *cookie, uintptr_t address, size_t length)
{
    const struct mvld_image *image = cookie;
    const struct moved_code *moved = __atomic_load_n(&image->moved, __ATOMIC_ACQUIRE);
    uintptr_t copy = 0;

    if (moved && moved->find(image, address, length, &copy) != 2 && !copy)
        moved->find(image, address, 1, &copy);
    if (moved && !copy && moved->find(image, address + length - 1, 1, &copy) != 2 && copy)
        copy -= length - 1;
    return copy;
}

static void host_say(void *cookie, int err, const char *format, va_list args)
{
    struct mvld_image *image = cookie;

    if (err)
        vfail(image, err, format, args);
    else
        rimf_vlog(image->log, MVLD_LOG_PATCH, format, args);
}

/* The engine of this image; the first of several concurrent callers makes it. */
static struct rimf_patcher *patcher_of(struct mvld_image *image)
{
    struct rimf_patch_host host = {
        .sys = image->sys,
        .lock = &image->patch_lock,
        .cookie = image,
        .alloc = host_alloc,
        .release = host_release,
        .segment = host_segment,
        .copy = host_copy,
        .say = host_say,
    };
    struct rimf_patcher *patcher = __atomic_load_n(&image->patcher, __ATOMIC_ACQUIRE), *made;

    if (patcher)
        return patcher;
    made = rimf_patcher_create(&host);
    if (!made)
        return NULL;
    if (__atomic_compare_exchange_n(&image->patcher, &patcher, made, 0, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
        return made;
    rimf_patcher_destroy(made);
    return patcher;
}

struct mvld_batch *rimf_patch_begin(struct mvld_image *image)
{
    struct rimf_patcher *patcher = patcher_of(image);

    return patcher ? rimf_patcher_begin(patcher) : NULL;
}

struct mvld_batch *rimf_api_patch_begin(struct mvld_image *image)
{
    struct mvld_batch *batch = NULL;

    if (!image)
        return NULL;
    if (image->stage == RIMF_STAGE_MAP || image->stage == RIMF_STAGE_RELOCATE)
        rimf_fail(image, EPERM, "code is changed in the stage run, or later");
    else
        batch = rimf_patch_begin(image);
    if (batch)
        rimf_patch_all_copies(batch);
    return batch;
}

void rimf_patch_often(struct mvld_image *image)
{
    struct rimf_patcher *patcher = image ? patcher_of(image) : NULL;

    if (patcher)
        rimf_patcher_often(patcher);
}

int rimf_image_set_patch_method(struct mvld_image *image, const char *name)
{
    struct rimf_patcher *patcher = patcher_of(image);

    return patcher ? rimf_patcher_set_method(patcher, name) : -ENOMEM;
}

void rimf_patch_forget(struct mvld_image *image)
{
    rimf_patcher_destroy(image->patcher);
    image->patcher = NULL;
}

/* ---- the table of functions -------------------------------------------------------------- */

/* No code was moved. */
static int moved_find(const struct mvld_image *image, uintptr_t original, size_t length,
                      uintptr_t *to)
{
    (void)image;
    (void)original;
    (void)length;
    if (to)
        *to = 0;
    return 2;
}

/* The rest does not exist here, and must not be called: see image.h. */
static const struct mvld_api api = {RIMF_API_CORE, .patch_begin = rimf_api_patch_begin, .moved_find = moved_find};

const struct mvld_api *rimf_api_core(void)
{
    return &api;
}

/* ---- original addresses ------------------------------------------------------------------------
 *
 * Maps moved code to original addresses.  All readers of addresses call this, and
 * most processes have no moved code: so it depends only on the list.
 */

/* May run during any change of the list, on this thread (a signal handler) or another:
 *
 *   - the list is never shorter than the count: read the count first, then the list
 *   - a counted entry does not change, except that its size may become 0
 *   - a failed batch is not counted any more; a reader with the larger count finds in
 *     its entries addresses above all that run, and looks for one below
 */

uintptr_t rimf_original_of(const struct mvld_image *image, uintptr_t address)
{
    const struct moved_code *moved = image ? __atomic_load_n(&image->moved, __ATOMIC_ACQUIRE) : NULL;
    size_t n = moved ? __atomic_load_n(&moved->n, __ATOMIC_ACQUIRE) : 0;
    /* After the count: a longer list is published before it is counted. */
    const struct moved_fragment *list = n ? __atomic_load_n(&moved->list, __ATOMIC_ACQUIRE) : NULL;
    size_t begun = RIMF_BISECT(i, n, list[i].at <= address);
    const struct moved_fragment *last = begun ? &list[begun - 1] : NULL;

    if (!last || address - last->at >= __atomic_load_n(&last->size, __ATOMIC_RELAXED))
        return 0;
    return last->original + (address - last->at);
}

uintptr_t rimf_unmoved(const struct mvld_image *image, uintptr_t address)
{
    uintptr_t original = rimf_original_of(image, address);

    return original ? original : address;
}

int rimf_has_moved(const struct mvld_image *image, const struct rimf_object *object)
{
    const struct moved_code *moved = __atomic_load_n(&image->moved, __ATOMIC_ACQUIRE);

    return moved && object->moved && object->moved <= __atomic_load_n(&moved->n, __ATOMIC_ACQUIRE);
}
