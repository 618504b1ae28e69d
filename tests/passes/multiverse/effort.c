/* SPDX-License-Identifier: MIT
 *
 * What an operation asks of the kernel and of the patch engine: one that changes nothing asks
 * only which thread this is (for the lock); one on all sites by their switch hands over arrays,
 * as one on everything does.  Calls through the PLT are read without a search for the relocation of each slot,
 * which would make a first commit grow with the square of what an object calls.
 */
#include "check.h"
#include "own_sources.h"

#include "passes/multiverse/engine/engine.h"
#include "rimf/base/log.h"

const char *multiverse_error(void) { return ""; }
const char *multiverse_report(void) { return ""; }

static int n_calls, n_added, n_searches;

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

static uintptr_t search(const struct mvld_image *image, uintptr_t address)
{
    n_searches++;
    return rimf_api()->plt_target(image, address);
}

static int asked(struct mv_engine *engine, enum mv_action action, enum mv_scope scope, void *what,
                 int changed)
{
    n_calls = n_added = 0;
    CHECK(mv_ops_apply(engine, action, scope, what, NULL) == changed);
    return n_calls;
}

/* A commit that changed nothing: the next one does not look at the functions, unless anything else was done. */
static void settles(struct mv_engine *engine, void *function)
{
    struct mv_reply reply;

    for (int i = 0; i < 4; i++) {
        memset(&reply, 0, sizeof reply);
        CHECK(!engine->settled == !i);
        CHECK(mv_ops_apply(engine, MV_COMMIT, MV_ALL, NULL, &reply) == 0);
        CHECK(reply.status.n_unchanged == 1 && !reply.status.n_changed && !reply.status.n_generic);
    }
    CHECK(asked(engine, MV_COMMIT, MV_FUNCTION, function, 0) == 0 && !engine->settled);
    CHECK(asked(engine, MV_COMMIT, MV_ALL, NULL, 0) == 0 && engine->settled == 1);
    mode = 1;
    CHECK(asked(engine, MV_COMMIT, MV_ALL, NULL, 1) > 0 && !engine->settled);
    check_calls("after it was settled", 1001, 1001);
    mode = 0;
    CHECK(asked(engine, MV_COMMIT, MV_ALL, NULL, 1) > 0 && !engine->settled);
    CHECK(asked(engine, MV_COMMIT, MV_ALL, NULL, 0) == 0 && engine->settled == 1);
    CHECK(asked(engine, MV_REVERT, MV_ALL, NULL, 1) > 0 && !engine->settled);
    CHECK(asked(engine, MV_COMMIT, MV_ALL, NULL, 1) > 0 && !engine->settled);
    check_calls("settled and reverted", 1000, 1000);
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
    api.plt_target = search;
    own_sources_read(&sources);
    CHECK(rimf_image_create(&counted, &no_log, &image) == 0);
    CHECK(rimf_image_update(image, sources.at, sources.n, &change) == 0);
    CHECK(mv_create(image, &api, &counted, &engine) == 0);
    CHECK(mv_added(engine, change.added, change.n_added) == 0);

    CHECK(asked(engine, MV_REVERT, MV_ALL, NULL, 0) == 0);
    CHECK(asked(engine, MV_COMMIT, MV_ALL, NULL, 1) > 0 && n_added == 0);
    check_calls("committed", 1000, 1000);
    CHECK(n_searches == 0, "%d searches for relocations", n_searches);
    CHECK(asked(engine, MV_COMMIT, MV_ALL, NULL, 0) == 0);
    CHECK(asked(engine, MV_COMMIT, MV_REFS, &mode, 0) == 0);
    CHECK(asked(engine, MV_COMMIT, MV_FUNCTION, (void *)function, 0) == 0);
    settles(engine, (void *)function);
    mode = 1;
    CHECK(asked(engine, MV_COMMIT, MV_REFS, &mode, 1) > 0);
    CHECK(n_added == 0, "%d patches one by one", n_added);
    check_calls("by its switch", 1001, 1001);
    CHECK(asked(engine, MV_REVERT, MV_REFS, &mode, 1) > 0 && n_added == 0);
    CHECK(asked(engine, MV_REVERT, MV_ALL, NULL, 0) == 0);
    check_calls("reverted", 101, 101);
    return 0;
}
