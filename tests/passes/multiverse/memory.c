/* SPDX-License-Identifier: MIT
 *
 * Every allocation of the engine fails once, each in a process of its own: calls
 * give what some binding gives that is right, the failed operation says so, and the
 * next one, with memory, does all of it; or every commit says that it could not.
 */
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "own_sources.h"

#include "passes/multiverse/engine/engine.h"
#include "rimf/base/log.h"

#define MOST 200   /* allocations, far more than there are */
#define REACHED 42 /* exit status of a child in which one failed */

static const struct rimf_log no_log = {.sys = &rimf_sys_kernel, .fd = -1};
static const struct mvld_api *real;
static int left = -1; /* allocations until one fails; -1: none does */
static int has_failed;

const char *multiverse_error(void) { return ""; }
const char *multiverse_report(void) { return ""; }

static void *alloc(struct mvld_image *image, size_t size)
{
    if (left >= 0 && left-- == 0) {
        has_failed = 1;
        return NULL;
    }
    return real->alloc(image, size);
}

static struct mvld_batch *begin(struct mvld_image *image)
{
    if (left >= 0 && left-- == 0) {
        has_failed = 1;
        return NULL;
    }
    return real->patch_begin(image);
}

static void check_each(int generic, int variant)
{
    for (const struct caller *c = callers; c->name; c++) {
        int is = c->call();

        CHECK(is == generic || is == variant, "(%s gives %d)", c->name, is);
    }
}

/* 1 when the allocation was reached. */
static int run(int which)
{
    struct own_sources sources;
    struct rimf_change change;
    struct mvld_image *image;
    struct mv_engine *engine;
    struct mvld_api api;
    int added, done;

    own_sources_read(&sources);
    CHECK(rimf_image_create(&rimf_sys_kernel, &no_log, &image) == 0);
    CHECK(rimf_image_update(image, sources.at, sources.n, &change) == 0);
    real = rimf_api();
    api = *real;
    api.alloc = alloc;
    api.patch_begin = begin;
    left = which;
    if (mv_create(image, &api, &rimf_sys_kernel, &engine))
        return has_failed;
    added = mv_added(engine, change.added, change.n_added);
    mode = 1;
    done = mv_ops_apply(engine, MV_COMMIT, MV_ALL, NULL, NULL);
    CHECK(done >= 0 || has_failed);
    CHECK(added != -ENOMEM || done == -ENOMEM); /* not all is known, for good */
    check_each(101, 1001);
    left = -1; /* once more, with memory: all is changed, or nothing, since not all is known */
    done = mv_ops_apply(engine, MV_COMMIT, MV_ALL, NULL, NULL);
    CHECK(done >= 0 || (done == -ENOMEM && has_failed));
    check_each(done < 0 ? 101 : 1001, done < 0 ? 101 : 1001);
    CHECK(mv_ops_apply(engine, MV_REVERT, MV_ALL, NULL, NULL) >= 0);
    mode = 0;
    check_each(100, 100);
    return has_failed;
}

int main(void)
{
    int which, status = REACHED << 8;

    for (which = 0; which < MOST && status == REACHED << 8; which++) {
        pid_t child = fork();

        if (!child)
            _exit(run(which) ? REACHED : 0);
        CHECK(waitpid(child, &status, 0) == child);
    }
    CHECK(status == 0, "(allocation %d: status %x)", which - 1, (unsigned)status);
    CHECK(which > 5, "(only %d allocations)", which);
    return 0;
}
