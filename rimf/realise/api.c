/* SPDX-License-Identifier: MIT
 *
 * rimf/realise/api.c: the functions for passes (mvld/pass.h): those of image/core.c, and further queries.
 */
#include "rimf/image/private.h"

#include "rimf/code/code.h"
#include "rimf/moved/moved.h"
#include "rimf/patch/patch.h"
#include "rimf/realise/realise.h"

static struct mvld_batch *patch_begin(struct mvld_image *image)
{
    if (image)
        rimf_image_emit_before(image);
    return rimf_api_patch_begin(image);
}

static int moved_find(const struct mvld_image *image, uintptr_t original, size_t length, uintptr_t *moved)
{
    if (image)
        rimf_image_emit_before((struct mvld_image *)image);
    return rimf_moved_find(image, original, length, moved);
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
    .slot_find = rimf_slot_find,
    .symbol_find = rimf_symbol_find,
    .symbol_resolve = rimf_symbol_resolve,
    .auditor = rimf_auditor,
    .reference_each = rimf_reference_each,
    .depends = rimf_depends,
    .region_open = region_open,
    .fragments = rimf_fragments,
    .fragment_move = rimf_fragment_move,
    .moved_find = moved_find,
    .file_read = rimf_file_read,
    .random = rimf_random,
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
    .setting_symbol = rimf_setting_symbol,
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
