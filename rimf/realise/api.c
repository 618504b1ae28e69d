/* SPDX-License-Identifier: MIT
 *
 * rimf/realise/api.c: the functions for passes (mvld/pass.h), and what passes need of the kernel, so that no pass makes
 * a system call.
 */
#include "rimf/image/private.h"

#include "rimf/base/base.h"
#include "rimf/code/code.h"
#include "rimf/moved/moved.h"
#include "rimf/patch/patch.h"
#include "rimf/realise/realise.h"

#include <errno.h>    /* numbers only */
#include <fcntl.h>    /* numbers only */
#include <sys/stat.h> /* numbers only */

#define RANDOM_MAX 256u /* getrandom gives up to this at once, or nothing */

static char *read_text(struct mvld_image *image, int fd, size_t *size, int *error)
{
    struct stat st;
    char *text = NULL;
    long got;

    *error = (int)SYS3(image->sys, SYS_fstat, fd, &st, 0);
    if (!*error && !S_ISREG(st.st_mode))
        *error = -EINVAL;
    if (!*error && st.st_size > (off_t)MVLD_FILE_MAX)
        *error = -EFBIG;
    if (*error)
        return NULL;
    *size = (size_t)st.st_size;
    text = rimf_heap_alloc(&image->heap, *size + 1);
    got = text ? sys_read_all(image->sys, fd, text, *size) : -ENOMEM;
    *error = got < 0 ? (int)got : (size_t)got < *size ? -EIO : 0;
    if (!*error)
        return text;
    rimf_heap_release(&image->heap, text);
    return NULL;
}

static char *file_read(const struct mvld_context *ctx, const struct mvld_setting *setting, size_t *size)
{
    struct mvld_image *image = rimf_context_image(ctx);
    int error;
    char *text;
    long fd;

    if (!image || !setting || !size)
        return rimf_fail(image, EINVAL, "no file is named that could be read"), NULL;
    fd = sys_openat(image->sys, setting->text ? setting->text : "", O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
    error = sys_failed(fd) ? (int)fd : 0;
    text = error ? NULL : read_text(image, (int)fd, size, &error);
    if (!sys_failed(fd))
        sys_close(image->sys, (int)fd);
    if (!text)
        rimf_fail(image, -error, "%s: the %s %s cannot be read (error %d)", ctx->pass, setting->name,
                  setting->text, -error);
    return text;
}

static int setting_symbol(const struct mvld_context *ctx, const struct mvld_setting *setting, struct mvld_symbol *out)
{
    size_t index = 0, n = rimf_context_image(ctx) && out ? ctx->n_settings : 0;

    while (index < n && &ctx->settings[index] != setting)
        index++;
    if (index == n || !mvld_setting_symbol(setting))
        return -EINVAL;
    for (size_t i = 0; i < rimf_object_count(ctx->image); i++) {
        const struct mvld_object *object = rimf_object_at(ctx->image, i);

        if (!mvld_setting_is_library(setting, object->name) ||
            rimf_symbol_find(object, mvld_setting_symbol(setting), NULL, out))
            continue;
        if (index < RIMF_SETTINGS_MATCHED)
            *ctx->matched |= 1ul << index;
        return 0;
    }
    return -ENOENT;
}

static int random(const struct mvld_image *image, void *to, size_t size)
{
    if (!image || !to || size > RANDOM_MAX)
        return -EINVAL;
    return SYS3(image->sys, SYS_getrandom, to, size, 1 /* GRND_NONBLOCK */) == (long)size ? 0 : -EAGAIN;
}

/* ---- before what depends on actual bytes ------------------------------------------------- */

static struct mvld_batch *patch_begin(struct mvld_image *image)
{
    if (image)
        rimf_image_emit_before(image);
    return rimf_api_patch_begin(image);
}

/* Only one pass at a time moves code. */
static int region_open(const struct mvld_context *ctx, enum mvld_pages pages, uint32_t names, const char **why)
{
    const struct moved_code *moved = ctx && ctx->image ? ctx->image->moved : NULL;

    if (moved && moved->mover && moved->mover != ctx)
        rimf_image_emit_before(ctx->image);
    return rimf_region_open(ctx, pages, names, why);
}

static const struct mvld_api api = {
    RIMF_API_CORE,
    .patch_begin = patch_begin,
    .slot_at = rimf_slot_at,
    .symbol_find = rimf_symbol_find,
    .symbol_resolve = rimf_symbol_resolve,
    .reference_each = rimf_reference_each,
    .depends = rimf_depends,
    .region_open = region_open,
    .fragments = rimf_fragments,
    .fragment_move = rimf_fragment_move,
    .moved_find = rimf_moved_find,
    .file_read = file_read,
    .random = random,
    .file_object = rimf_file_object,
    .slot_name = rimf_slot_name,
    .symbol_each = rimf_symbol_each,
    .domain_add = rimf_domain_add,
    .domain_of = rimf_domain_of,
    .domain_move = rimf_domain_move,
    .section_at = rimf_section_at,
    .section_protect = rimf_section_protect,
    .key_add = rimf_key_add,
    .section_add = rimf_section_add,
    .section_remove = rimf_section_remove,
    .code_add = rimf_code_add,
    .symbol_bind = rimf_symbol_redirect,
    .symbol_hide = rimf_symbol_hide,
    .calls_retarget = rimf_calls_retarget,
    .reference_retarget = rimf_reference_retarget,
    .setting_symbol = setting_symbol,
    .function_each = rimf_function_each,
    .function_find = rimf_function_find,
    .instruction_each = rimf_instruction_each,
    .code_splice = rimf_code_splice,
    .code_remove = rimf_code_remove,
};

const struct mvld_api *rimf_api(void)
{
    return &api;
}
