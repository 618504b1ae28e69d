/* SPDX-License-Identifier: MIT
 *
 * rimf/realise/api.c: the functions that passes are given (mvld/pass.h); those of
 * image/core.c, and what there is to ask beyond them.
 */
#include "rimf/image/private.h"

#include "rimf/moved/moved.h"
#include "rimf/patch/patch.h"
#include "rimf/moved/symfile.h"
#include "rimf/realise/realise.h"

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

static const struct mvld_api api = {
    RIMF_API_CORE,
    .slot_at = rimf_slot_at,
    .slot_find = rimf_slot_find,
    .auditor = rimf_auditor,
    .reference_each = rimf_reference_each,
    .depends = rimf_depends,
    .region_set = rimf_region_set,
    .copy_add = rimf_copy_add,
    .copies_commit = rimf_realise_moved,
    .copies_forget = rimf_copies_forget,
    .copy_names = rimf_copy_names,
    .copies_debug = rimf_copies_debug,
    .copy_fragments = rimf_copy_fragments,
    .copy_add_fragment = rimf_copy_add_fragment,
    .region_pages = rimf_region_pages,
    .copy_find = rimf_copy_find,
    .pass_planned = rimf_pass_planned,
    .copy_in_line = rimf_copy_in_line,
    .region_hot = rimf_region_hot,
    .slot_name = rimf_slot_name,
    .symbol_each = rimf_symbol_each,
    .domain_count = rimf_domain_count,
    .domain_at = rimf_domain_at,
    .domain_add = rimf_domain_add,
    .domain_of = rimf_domain_of,
    .domain_move = rimf_domain_move,
    .section_at = rimf_section_at,
    .section_find = rimf_section_find,
    .section_set_pages = rimf_section_set_pages,
    .section_add = rimf_section_add,
    .symbol_bind = rimf_symbol_redirect,
    .symbol_hide = rimf_symbol_hide,
    .calls_retarget = rimf_calls_retarget,
    .reference_retarget = rimf_reference_retarget,
};

const struct mvld_api *rimf_api(void)
{
    return &api;
}
