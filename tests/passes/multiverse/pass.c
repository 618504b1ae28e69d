/* SPDX-License-Identifier: MIT
 *
 * The pass under a pass manager made of this test: options, the first commit,
 * objects that come and go, and the link to libmultiverse.
 * Arguments: the pass, a library with a variation point.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../check.h"
#include "passes/multiverse/engine/interface.h"
#include "own_sources.h"
#include "rimf/base/log.h"
#include "rimf/base/sys.h"

struct caller {
    const char *name;
    int (*call)(void);
    unsigned char *site;
};
extern int mode;
extern const struct caller callers[];

/* What libmultiverse has; and one that is of another version. */
__attribute__((used)) static struct mv_link engine_link = {sizeof(struct mv_link),
    MV_LINK_ABI, NULL};
__attribute__((used)) static struct mv_link other_link = {sizeof(struct mv_link),
    99, NULL};
__asm__(".pushsection .note.multiverse.library,\"a\",@note\n"
        ".irp link, engine_link, other_link\n"
        ".balign 4\n"
        ".long 11, 8, 2\n"
        ".asciz \"Multiverse\"\n"
        ".balign 4\n"
        ".long " MV_TEXT(MV_LINK_ABI) ", \\link - .\n"
        ".endr\n"
        ".popsection\n");

static const struct mvld_pass *pass;
static const struct rimf_log no_log = {.sys = &rimf_sys_kernel, .fd = 2,
                                       .categories = MVLD_LOG_PASSES};
static void *state;

static void gives(const struct caller *c, const char *when, int want)
{
    for (; c->name; c++)
        CHECK(c->call() == want, "(%s: %s gives %d, want %d)", when, c->name, c->call(), want);
}

static struct rimf_change update(struct mvld_image *image, const char *without)
{
    struct own_sources sources, kept = {.n = 0};
    struct rimf_change change;

    own_sources_read(&sources);
    for (size_t i = 0; i < sources.n; i++) {
        const char *name = sources.at[i].name;

        if ((without && !strcmp(name, without)) ||
            (strstr(name, "multiverse.so") && !strstr(name, "libmultiverse")))
            continue; /* the pass is no object of the program */
        kept.at[kept.n++] = sources.at[i];
    }
    CHECK(rimf_image_update(image, kept.at, kept.n, &change) == 0);
    return change;
}

static struct mvld_context context(struct mvld_image *image, const struct mvld_setting *settings,
                                   size_t n)
{
    return (struct mvld_context){.pass = "multiverse",
                                 .api = rimf_api(),
                                 .image = image,
                                 .state = &state,
                                 .settings = settings,
                                 .n_settings = n};
}

static int start(const struct mvld_pass *pass, const struct mvld_context *ctx)
{
    size_t n;
    const struct mvld_object *const *objects = rimf_image_objects(ctx->image, &n);

    return pass->run(ctx, objects, n);
}

int main(int argc, char **argv)
{
    static const struct mvld_setting settings[] = {
        {.name = "commit", .text = "before-constructors", .file = ""},
        {.name = "set.mode", .text = "1", .file = "test.conf", .line = 1},
        {.name = "set.nothing", .text = "1", .file = "test.conf", .line = 2},
        {.name = "bind.mode", .text = "1", .file = "test.conf", .line = 3},
        {.name = "set.mode", .text = "99999999999", .file = "test.conf", .line = 4},
    };
    static const struct mvld_setting manual[] = {
        {.name = "commit", .text = "manual", .number = 1, .file = ""}};
    struct mvld_image *image;
    struct mvld_context ctx;
    struct rimf_change change;
    void *handle, *library;
    struct mv_engine *first;

    CHECK(argc == 3);
    handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    CHECK(handle, "(%s)", dlerror());
    pass = dlsym(handle, "mvld_pass");
    CHECK(pass && !strcmp(pass->name, "multiverse") && pass->abi == MVLD_PASS_ABI);
    CHECK(rimf_image_create(&rimf_sys_kernel, &no_log, &image) == 0);

    /* manual: nothing is bound */
    update(image, NULL);
    ctx = context(image, manual, 1);
    CHECK(start(pass, &ctx) == 0);
    gives(callers, "manual", 100);
    first = engine_link.engine;
    CHECK(first && first == state, "libmultiverse was not given the engine");
    CHECK(mv_ops_apply(first, MV_COMMIT, MV_ALL, NULL, NULL) == 1);
    gives(callers, "by the library", 1000);
    CHECK(mv_ops_apply(first, MV_REVERT, MV_ALL, NULL, NULL) == 1);
    CHECK(!other_link.engine);
    state = NULL;
    ctx = context(image, settings, sizeof settings / sizeof *settings);
    CHECK(start(pass, &ctx) == -EALREADY, "two engines in one process");
    state = NULL;
    engine_link.engine = NULL;

    /* set., then the first commit, by a second instance as of another process */
    ctx = context(image, settings, sizeof settings / sizeof *settings);
    CHECK(start(pass, &ctx) == 0, "(%s)", rimf_api()->last_error(image));
    CHECK(mode == 1);
    gives(callers, "committed before the constructors", 1001);

    /* an object that comes is bound to the state in force, one that goes forgotten */
    mode = 0;
    library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
    CHECK(library, "(%s)", dlerror());
    change = update(image, NULL);
    CHECK(change.n_added == 1 && change.n_removed == 0);
    ctx.later = 1;
    CHECK(pass->run(&ctx, change.added, change.n_added) == 0);
    gives(dlsym(library, "callers"), "added", 1001);
    CHECK(dlclose(library) == 0);
    change = update(image, NULL);
    CHECK(change.n_removed == 1);
    pass->removed(&ctx, change.removed, change.n_removed);

    return 0;
}
