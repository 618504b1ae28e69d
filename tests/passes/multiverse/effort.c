/* SPDX-License-Identifier: MIT
 *
 * What an operation asks of the kernel and of the patch engine: one that changes nothing asks
 * only which thread this is (for the lock); one on all sites by their switch hands over arrays,
 * as one on everything does.
 */
#include "check.h"
#include "own_sources.h"

#include "passes/multiverse/engine/engine.h"
#include "rimf/base/log.h"

const char *multiverse_error(void) { return ""; }
const char *multiverse_report(void) { return ""; }

static int n_calls, n_added;

static long call(const struct rimf_sys *sys, long nr, long a, long b, long c, long d, long e,
                 long f)
{
    n_calls += nr != SYS_gettid;
    return rimf_sys_kernel.call(sys, nr, a, b, c, d, e, f);
}

static int add(struct mvld_batch *batch, uintptr_t address, const void *expect,
               const void *replace, size_t length)
{
    n_added++;
    return rimf_api()->patch_add(batch, address, expect, replace, length);
}

static int asked(struct mv_engine *engine, enum mv_action action, enum mv_scope scope, void *what,
                 int changed)
{
    n_calls = n_added = 0;
    CHECK(mv_ops_of(engine)->apply(engine, action, scope, what, NULL) == changed);
    return n_calls;
}

int main(void)
{
    static const struct rimf_log no_log = {.sys = &rimf_sys_kernel, .fd = -1};
    const struct rimf_sys counted = {call};
    int (*volatile function)(void) = decide;
    struct own_sources sources;
    struct rimf_change change;
    struct mvld_image *image;
    struct mv_engine *engine;
    struct mvld_api api = *rimf_api();

    api.patch_add = add;
    own_sources_read(&sources);
    CHECK(rimf_image_create(&counted, &no_log, &image) == 0);
    CHECK(rimf_image_update(image, sources.at, sources.n, &change) == 0);
    CHECK(mv_create(image, &api, &counted, &engine) == 0);
    CHECK(mv_added(engine, change.added, change.n_added) == 0);

    CHECK(asked(engine, MV_REVERT, MV_ALL, NULL, 0) == 0);
    CHECK(asked(engine, MV_COMMIT, MV_ALL, NULL, 1) > 0 && n_added == 0);
    check_calls("committed", 1000, 1000);
    CHECK(asked(engine, MV_COMMIT, MV_ALL, NULL, 0) == 0);
    CHECK(asked(engine, MV_COMMIT, MV_REFS, &mode, 0) == 0);
    CHECK(asked(engine, MV_COMMIT, MV_FUNCTION, (void *)function, 0) == 0);
    mode = 1;
    CHECK(asked(engine, MV_COMMIT, MV_REFS, &mode, 1) > 0);
    CHECK(n_added == 0, "%d patches one by one", n_added);
    check_calls("by its switch", 1001, 1001);
    CHECK(asked(engine, MV_REVERT, MV_REFS, &mode, 1) > 0 && n_added == 0);
    CHECK(asked(engine, MV_REVERT, MV_ALL, NULL, 0) == 0);
    check_calls("reverted", 101, 101);
    return 0;
}
