/* SPDX-License-Identifier: MIT
 *
 * An object with a variation point goes while call sites that lead into it remain:
 * they get back the linker's bytes, and its own memory is not touched.  (The object
 * stays mapped here; for the engine it is gone.)
 */
#include <sys/mman.h>

#include "check.h"
#include "own_sources.h"

#include "passes/multiverse/engine/engine.h"
#include "rimf/base/log.h"

static const struct rimf_log no_log = {.sys = &rimf_sys_kernel, .fd = -1};

const char *multiverse_error(void) { return ""; }
const char *multiverse_report(void) { return ""; }

static void save(unsigned char (*bytes)[8])
{
    for (size_t i = 0; callers[i].name; i++)
        memcpy(bytes[i], callers[i].site, 8);
}

int main(void)
{
    unsigned char before[32][8], bound[32][8], after[32][8], entry[16];
    struct own_sources sources, rest = {.n = 0};
    struct rimf_change change;
    struct mvld_image *image;
    struct mv_engine *engine;
    struct mv_call call = {.operation = MV_IS_COMMITTED};
    int (*volatile function)(void) = decide;

    own_sources_read(&sources);
    CHECK(rimf_image_create(&rimf_sys_kernel, &no_log, &image) == 0);
    CHECK(rimf_image_update(image, sources.at, sources.n, &change) == 0);
    CHECK(mv_create(image, rimf_api(), &rimf_sys_kernel, &engine) == 0);
    CHECK(mv_added(engine, change.added, change.n_added) == 0);

    save(before);
    CHECK(mv_ops_apply(engine, MV_COMMIT, MV_ALL, NULL, NULL) == 1);
    check_calls("committed", 1000, 1000);
    save(bound);
    CHECK(memcmp(before, bound, sizeof before[0]) != 0);
    memcpy(entry, (void *)function, sizeof entry);

    for (size_t i = 0; i < sources.n; i++)
        if (!strstr(sources.at[i].name, "libpart_function"))
            rest.at[rest.n++] = sources.at[i];
    CHECK(rimf_image_update(image, rest.at, rest.n, &change) == 0);
    CHECK(change.n_removed == 1);
    mv_removed(engine, change.removed, change.n_removed);
    save(after);
    for (size_t i = 0; callers[i].name; i++)
        CHECK(!memcmp(before[i], after[i], 8), "(%s leads into what is gone)", callers[i].name);
    CHECK(!memcmp(entry, (void *)function, sizeof entry), "a closed object was written to");
    call.what = (void *)function;
    CHECK(mv_ops_of(engine)->call(engine, &call, NULL) == -EINVAL);
    CHECK(mv_ops_apply(engine, MV_COMMIT, MV_ALL, NULL, NULL) == 0);
    CHECK(mv_ops_apply(engine, MV_REVERT, MV_ALL, NULL, NULL) == 0);
    return 0;
}
