/* SPDX-License-Identifier: MIT
 *
 * tests/loader/manager/support.h: what the tests of the pass manager share: a world with probes
 * among its passes, an image as far as the manager needs one, plans.
 */
#ifndef TESTS_LOADER_PIPELINE_SUPPORT_H
#define TESTS_LOADER_PIPELINE_SUPPORT_H

#include "world.h"

static struct world world, *w = &world;
static char why[512], last_error[256];

/* ---- the image, as far as the manager needs one ------------------------------ */

static int fake_fail(struct mvld_image *image, int err, const char *format, ...)
{
    va_list arguments;

    (void)image;
    va_start(arguments, format);
    rimf_vformat(last_error, sizeof(last_error), format, arguments);
    va_end(arguments);
    return -err;
}

static const char *fake_last_error(const struct mvld_image *image)
{
    (void)image;
    return last_error;
}

static void fake_log(const struct mvld_image *image, uint32_t category, const char *format, ...)
{
    va_list arguments;

    (void)image;
    va_start(arguments, format);
    rimf_vlog(&w->log, category, format, arguments);
    va_end(arguments);
}

const struct mvld_api *rimf_api(void)
{
    static const struct mvld_api api = {
        .fail = fake_fail, .last_error = fake_last_error, .log = fake_log};

    return &api;
}

const struct mvld_object *const *rimf_image_objects(const struct mvld_image *image, size_t *n)
{
    (void)image;
    *n = 0;
    return NULL;
}

int rimf_pass_ran(struct mvld_image *image, const struct mvld_context *ctx)
{
    (void)image;
    (void)ctx;
    return 0;
}

void rimf_pass_failed(struct mvld_image *image, const struct mvld_context *ctx)
{
    (void)image;
    (void)ctx;
}

int rimf_image_emit(struct mvld_image *image)
{
    (void)image;
    return 0;
}

int rimf_image_has_region(const struct mvld_image *image)
{
    (void)image;
    return 0;
}

void rimf_moved_finish(struct mvld_image *image)
{
    (void)image;
}

void rimf_image_finish(struct mvld_image *image)
{
    (void)image;
}

void rimf_file_close(struct mvld_image *image)
{
    (void)image;
}

struct rimf_feeder *rimf_image_feeder(struct mvld_image *image)
{
    static struct rimf_feeder feeder;

    (void)image;
    return &feeder;
}

void rimf_image_set_stage(struct mvld_image *image, enum rimf_stage stage, const struct mvld_context *ctx)
{
    (void)image;
    (void)stage;
    (void)ctx;
}

const char *rimf_image_running(const struct mvld_image *image)
{
    (void)image;
    return NULL;
}

int rimf_image_realise_symbols(struct mvld_image *image, int failed)
{
    (void)image;
    (void)failed;
    return 0;
}

/* ---- planning ------------------------------------------------------------------ */

#define APP "[app]\nmatch = program\n"
#define CONF MVLD_SYSCONF_DIR "/mvld.conf:"

static struct pipeline *plan(const char *text)
{
    struct pipeline_query q = {.sys = &w->sys, .log = &w->log, .envp = w->env,
                               .program = "/usr/bin/program", .name = "program"};
    struct pipeline *p = NULL;

    if (text)
        world_system(w, text);
    world_log(w);
    int error = pipeline_plan(&q, &p, why, sizeof(why));
    if (error) {
        CHECK(!p && *why, "no plan and no reason");
        CHECK(w->maps == 0, "%ld bytes stay mapped after '%s'", w->maps, why);
        CHECK(strstr(world_log(w), why), "not in the log: %s", why);
    }
    return p;
}

static void refuses(const char *text, const char *sentence)
{
    struct pipeline *p = plan(text);

    CHECK(!p && strstr(why, sentence), "got '%s', want '%s'", why, sentence);
    pipeline_free(p);
}

/* Takes them from the folder of the probes and of the bad passes. */
static void install_probes(const char *folder)
{
    static const char *const names[] = {"first", "second", "circle", "square", "failing",
                                        "relative-library", "absolute-library"};
    char from[PATH_MAX], to[PATH_MAX];

    for (size_t i = 0; i < RIMF_COUNT(names); i++) {
        snprintf(from, sizeof(from), "%s/%s.so", folder, names[i]);
        snprintf(to, sizeof(to), MVLD_PASS_DIR "/%s.so", names[i]);
        world_copy(w, to, from);
    }
    snprintf(from, sizeof(from), "%s/first.so", folder);
    world_copy(w, MVLD_PASS_DIR "/renamed.so", from);
    snprintf(from, sizeof(from), "%s/bad_option_default.so", folder);
    world_copy(w, MVLD_PASS_DIR "/bad.so", from);
}

#endif
