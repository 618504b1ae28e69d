/* SPDX-License-Identifier: MIT
 *
 * An object with a variation point goes while call sites that lead into it remain:
 * they get back the linker's bytes, and its own memory is not touched.  (The object
 * stays mapped here; for the engine it is gone.)
 */
#include <link.h>
#include <sys/mman.h>

#include "multiverse_check.h"

#include "engine.h"
#include "image.h"
#include "log.h"

static const struct rimf_log no_log = {.sys = &rimf_sys_kernel, .fd = -1};

const char *multiverse_error(void) { return ""; }
const char *multiverse_report(void) { return ""; }

static int list(struct dl_phdr_info *info, size_t size, void *cookie)
{
    struct rimf_source **at = cookie;
    const void *dynamic = NULL;

    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    *(*at)++ = (struct rimf_source){.name = *info->dlpi_name ? info->dlpi_name : "the test",
                                    .bias = info->dlpi_addr,
                                    .dynamic = dynamic,
                                    .phdr = info->dlpi_phdr,
                                    .phnum = info->dlpi_phnum};
    return 0;
}

static void save(unsigned char (*bytes)[8])
{
    for (size_t i = 0; callers[i].name; i++)
        memcpy(bytes[i], callers[i].site, 8);
}

int main(void)
{
    unsigned char before[32][8], bound[32][8], after[32][8], entry[16];
    struct rimf_source sources[64], *end = sources;
    struct rimf_change change;
    struct mvld_image *image;
    struct mv_engine *engine;
    const struct mv_ops *ops;
    int (*volatile function)(void) = decide;
    size_t n = 0;

    dl_iterate_phdr(list, &end);
    CHECK(rimf_image_create(&rimf_sys_kernel, &no_log, &image) == 0);
    CHECK(rimf_image_update(image, sources, (size_t)(end - sources), &change) == 0);
    CHECK(mv_create(image, rimf_api(), &rimf_sys_kernel, &engine) == 0);
    CHECK(mv_added(engine, change.added, change.n_added) == 0);
    ops = mv_ops_of(engine);

    save(before);
    CHECK(ops->apply(engine, MV_COMMIT, MV_ALL, NULL, NULL) == 1);
    check_calls("committed", 1000, 1000);
    save(bound);
    CHECK(memcmp(before, bound, sizeof before[0]) != 0);
    memcpy(entry, (void *)function, sizeof entry);

    for (struct rimf_source *s = sources; s < end; s++)
        if (!strstr(s->name, "libpart_function"))
            sources[n++] = *s;
    CHECK(rimf_image_update(image, sources, n, &change) == 0);
    CHECK(change.n_removed == 1);
    mv_removed(engine, change.removed, change.n_removed);
    save(after);
    for (size_t i = 0; callers[i].name; i++)
        CHECK(!memcmp(before[i], after[i], 8), "(%s leads into what is gone)", callers[i].name);
    CHECK(!memcmp(entry, (void *)function, sizeof entry), "a closed object was written to");
    CHECK(ops->is_committed(engine, (void *)function, NULL) == -EINVAL);
    CHECK(ops->apply(engine, MV_COMMIT, MV_ALL, NULL, NULL) == 0);
    CHECK(ops->apply(engine, MV_REVERT, MV_ALL, NULL, NULL) == 0);
    return 0;
}
