/* SPDX-License-Identifier: MIT
 *
 * In a program of musl's, whose loader leaves dynamic sections as they are linked, the
 * image reads the same objects and symbols.  A failure means that mvld sees no
 * functions under musl.
 */
#include "rimf/image/private.h"

#include "../../check.h"
#include "invariants.h"

#include <dlfcn.h>
#include <link.h>

static struct rimf_source sources[16];
static size_t n_sources;

static int add(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    CHECK(n_sources < 16);
    sources[n_sources] = (struct rimf_source){
        .name = info->dlpi_name,
        .bias = info->dlpi_addr,
        .link_map = &sources[n_sources],
    };
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            sources[n_sources].dynamic =
                (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    n_sources++;
    return 0;
}

int main(void)
{
    static const char *const names[] = {"puts", "malloc", "qsort", "environ", "dlsym", "no_such"};
    static const struct rimf_log log = {.sys = &rimf_sys_kernel, .fd = 2, .categories = 127};
    struct mvld_image *image;
    struct rimf_change change;

    dl_iterate_phdr(add, NULL);
    CHECK(n_sources >= 2);
    CHECK(rimf_image_create(&rimf_sys_kernel, &log, &image) == 0);
    CHECK(rimf_image_update(image, sources, n_sources, &change) == 0);
    CHECK(rimf_image_check(image) == 0);
    for (size_t i = 0; i < change.n_added; i++)
        CHECK(!(change.added[i]->flags & MVLD_OBJECT_OPAQUE), "(%s)", change.added[i]->why);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *want = dlsym(RTLD_DEFAULT, names[i]);
        struct mvld_symbol symbol = {0};

        rimf_api()->symbol_resolve(image, names[i], NULL, &symbol);
        CHECK((void *)symbol.address == want, "(%s)", names[i]);
    }
    rimf_image_destroy(image);
    return 0;
}
