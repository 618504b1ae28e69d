/* SPDX-License-Identifier: MIT
 *
 * loader/manager/run.c: runs a plan.
 *
 * A pass that fails is reported; the others and the program continue.
 */
#include "rimf/base/base.h"
#include "loader/config/config.h"
#include "loader/manager/private.h"
#include "rimf/moved/moved.h"
#include "rimf/patch/crash.h"
#include "rimf/realise/realise.h"

#include <errno.h>
#include <sys/mman.h> /* numbers only */
#include <time.h>

static uint64_t now(const struct pipeline *p)
{
    struct timespec t = {0};

    if (!rimf_log_enabled(&p->log, MVLD_LOG_STATISTICS))
        return 0;
    SYS3(p->sys, SYS_clock_gettime, CLOCK_MONOTONIC, &t, 0);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void set_context(struct planned_pass *it, struct mvld_image *image)
{
    it->context = (struct mvld_context){
        .pass = it->name,
        .api = rimf_api(),
        .image = image,
        .state = &it->state,
        .settings = it->settings,
        .n_settings = it->n_settings,
        .matched = &it->matched,
    };
}

/* Returns 0, or negative errno with a sentence: a function of a pass that returns any other number has
 * failed. */
static int result_of(const struct planned_pass *it, struct mvld_image *image, const char *function, int value)
{
    if (value < 0 && !*rimf_api()->last_error(image))
        return rimf_api()->fail(image, -value, "%s: %s gave error %d, and no reason", it->name, function, -value);
    return value <= 0 ? value : rimf_api()->fail(image, EPROTO, "%s: %s gave %d, which is neither 0 nor a negative errno",
                                                 it->name, function, value);
}

/* ---- crashes ------------------------------------------------------------------------ */

void pipeline_on_crash(struct pipeline *p, const struct rimf_sys *sys, void (*say)(void *cookie, const char *why),
                       void *cookie)
{
    p->watching = sys;
    p->say = say;
    p->cookie = cookie;
}

static void crashed(void *pipeline, int signal, uintptr_t at)
{
    const struct pipeline *p = pipeline;
    const struct pass_object *object;
    const char *running = rimf_image_running(p->image);
    char why[512];
    size_t i = 0;

    while (i < p->n && !(p->passes[i].pass && pass_holds(&p->passes[i].object, at, 1, PROT_EXEC)))
        i++;
    object = &p->passes[i].object;
    if (i < p->n)
        rimf_format(why, sizeof why, "the pass '%s' crashed (signal %d) at 0x%lx of %s", p->passes[i].name, signal,
                    at - object->base, object->path);
    else if (running)
        rimf_format(why, sizeof why, "the pass '%s' crashed (signal %d) at 0x%lx, in what it called", running, signal,
                    at);
    else
        return;
    rimf_log(&p->log, MVLD_LOG_WARNING, "mvld: %s", why);
    p->say(p->cookie, why);
}

/* Called before a function of a pass.  Crashes are watched until the event's last function has returned,
 * because starting and ending this takes 13 system calls. */
static void enter(struct pipeline *p, struct planned_pass *it, struct mvld_image *image, enum rimf_stage stage)
{
    if (p->watching && p->image != image) {
        p->image = image;
        p->crash = (struct rimf_crash){.sys = p->watching, .tell = crashed, .cookie = p};
        rimf_crash_watch(&p->crash);
    }
    set_context(it, image);
    rimf_image_set_stage(image, stage, &it->context);
}

static void unwatch(struct pipeline *p)
{
    if (p->image)
        rimf_crash_leave(&p->crash);
    p->image = NULL;
}

/* ---- the stages ---------------------------------------------------------------------- */

/* Whether its stage `map` is called: independent of its other stages. */
static int looks_at_files(const struct planned_pass *it)
{
    return it->pass && it->pass->map && it->status != PASS_IDLE;
}

int pipeline_wants_files(const struct pipeline *p)
{
    size_t i = 0;

    while (i < p->n && !looks_at_files(&p->passes[i]))
        i++;
    return i < p->n;
}

int pipeline_map_file(struct pipeline *p, struct mvld_image *image, const struct mvld_file *file)
{
    int error = 0;

    for (size_t i = 0; i < p->n && error >= 0; i++) {
        struct planned_pass *it = &p->passes[i];

        if (!looks_at_files(it))
            continue;
        enter(p, it, image, RIMF_STAGE_MAP);
        error = result_of(it, image, "map", it->pass->map(&it->context, file));
        rimf_file_close(image);
        if (error < 0)
            rimf_log(&p->log, MVLD_LOG_PASSES, "pass %s: refuses %s", it->name, file->name);
    }
    rimf_image_set_stage(image, RIMF_STAGE_NONE, NULL);
    unwatch(p);
    return error < 0 ? error : 0;
}

void pipeline_relocate(struct pipeline *p, struct mvld_image *image,
                       const struct mvld_object *const *objects, size_t n, int later)
{
    for (size_t i = 0; i < p->n; i++) {
        struct planned_pass *it = &p->passes[i];
        int error, failed;

        if (!pipeline_changes_symbols(it))
            continue;
        enter(p, it, image, RIMF_STAGE_RELOCATE);
        it->context.later = later;
        error = result_of(it, image, "relocate", it->pass->relocate(&it->context, objects, n));
        failed = rimf_image_realise_symbols(image, error < 0);
        if (error < 0 || failed)
            rimf_log(&p->log, MVLD_LOG_WARNING, "mvld: the pass '%s' changed no symbol (error %d): %s",
                     it->name, error < 0 ? -error : -failed, rimf_api()->last_error(image));
    }
    rimf_image_set_stage(image, RIMF_STAGE_NONE, NULL);
    unwatch(p);
}

/* A pass that failed for a dlopen is still called for later ones. */
static void fail_pass(struct pipeline *p, struct planned_pass *it, struct mvld_image *image, int error)
{
    it->status = it->context.later ? it->status : PASS_FAILED;
    rimf_log(&p->log, MVLD_LOG_WARNING, "mvld: the pass '%s' failed%s (error %d): %s", it->name,
             it->context.later ? " for added objects" : "", -error, rimf_api()->last_error(image));
}

/* An edit of a pass could not be made. */
static void has_failed(void *pipeline, const struct mvld_context *ctx, int error)
{
    struct pipeline *p = pipeline;

    for (size_t i = 0; i < p->n; i++)
        if (&p->passes[i].context == ctx)
            fail_pass(p, &p->passes[i], ctx->image, error);
}

int pipeline_emit(struct pipeline *p, struct mvld_image *image)
{
    uint64_t began = now(p);
    int error;

    if (!p->unemitted)
        return 0;
    p->unemitted = 0;
    error = rimf_image_emit(image);
    p->emission += now(p) - began;
    return error ? -ECANCELED : 0;
}

/* Runs a pass for the objects of the start, or of a dlopen.  Its declared edits are wanted from here on, if
 * it did not fail. */
static int run_for(struct pipeline *p, size_t i, struct mvld_image *image,
                   const struct mvld_object *const *objects, size_t n, int later)
{
    struct planned_pass *it = &p->passes[i];
    int error = 0;

    enter(p, it, image, RIMF_STAGE_RUN);
    p->unemitted = 1;
    it->context.later = later;
    rimf_image_feeder(image)->pipeline = p;
    rimf_image_feeder(image)->failed = has_failed;
    if (it->pass->run)
        error = result_of(it, image, "run", it->pass->run(&it->context, objects, n));
    rimf_image_set_stage(image, RIMF_STAGE_NONE, &it->context);
    if (error >= 0)
        error = rimf_pass_ran(image, &it->context);
    else
        rimf_pass_failed(image, &it->context);
    rimf_image_set_stage(image, RIMF_STAGE_NONE, NULL);
    return error;
}

static void run_one(struct pipeline *p, size_t i, struct mvld_image *image)
{
    struct planned_pass *it = &p->passes[i];
    const char *name = it->name;
    uint64_t began = now(p);
    const struct mvld_object *const *objects;
    size_t n;
    int error;

    rimf_log(&p->log, MVLD_LOG_PASSES, "pass %s: runs", name);
    objects = rimf_image_objects(image, &n);
    error = run_for(p, i, image, objects, n, 0);
    it->nanoseconds = now(p) - began;
    it->status = PASS_RAN;
    if (error < 0)
        fail_pass(p, it, image, error);
    else
        rimf_log(&p->log, MVLD_LOG_PASSES, "pass %s: done", name);
}

static void print_statistics(const struct pipeline *p)
{
    uint64_t total = 0;

    if (!rimf_log_enabled(&p->log, MVLD_LOG_STATISTICS))
        return;
    for (size_t i = 0; i < p->n; i++)
        total += p->passes[i].nanoseconds;
    total += p->emission;
    rimf_log(&p->log, MVLD_LOG_STATISTICS, "pass statistics:");
    rimf_log(&p->log, MVLD_LOG_STATISTICS, "  total time in passes: %lu ns, %lu of it to make what they want", total,
             p->emission);
    for (size_t i = 0; i < p->n; i++) {
        const struct planned_pass *it = &p->passes[i];
        uint64_t mille = total ? it->nanoseconds * 1000 / total : 0;
        if (it->status == PASS_SKIPPED || it->status == PASS_IDLE)
            rimf_log(&p->log, MVLD_LOG_STATISTICS, "  time in %s: %s", it->name,
                     it->status == PASS_IDLE ? "nothing to do" : "skipped");
        else
            rimf_log(&p->log, MVLD_LOG_STATISTICS, "  time in %s: %lu ns (%lu.%lu%%)%s",
                     it->name, it->nanoseconds, mille / 10, mille % 10,
                     it->status == PASS_FAILED ? ", failed" : "");
    }
}

static void say_unmatched(const struct pipeline *p, const struct planned_pass *it)
{
    for (size_t i = 0; it->pass && it->status == PASS_RAN && i < it->n_settings && i < RIMF_SETTINGS_MATCHED; i++) {
        const struct mvld_setting *s = &it->settings[i];

        if (s->text && options_is(it->pass, s, MVLD_OPTION_SYMBOL) && !(it->matched >> i & 1))
            rimf_log(&p->log, MVLD_LOG_WARNING, "mvld: %s:%u: %s.%s = %s: no object of the start defines it",
                     s->file, s->line, it->name, s->name, s->text);
    }
}

int pipeline_run(struct pipeline *p, struct mvld_image *image, size_t end)
{
    int result = 0;

    for (size_t i = 0; i < end && i < p->n; i++) {
        if (p->passes[i].status != PASS_PLANNED)
            continue;
        run_one(p, i, image);
        if (p->passes[i].status != PASS_RAN)
            result = -ECANCELED;
    }
    if (end > p->n) {
        if (pipeline_emit(p, image))
            result = -ECANCELED;
        for (size_t i = 0; i < p->n; i++)
            say_unmatched(p, &p->passes[i]);
        print_statistics(p);
    }
    return result;
}

void pipeline_rest(struct pipeline *p, struct mvld_image *image)
{
    if (rimf_image_has_region(image))
        rimf_moved_finish(image);
    rimf_image_finish(image);
    unwatch(p);
}

void pipeline_added(struct pipeline *p, struct mvld_image *image,
                    const struct mvld_object *const *objects, size_t n, size_t first, size_t end)
{
    if (p->late && first < p->n && pipeline_map_late(p))
        return; /* these objects are not changed */
    for (size_t i = first; i < end && i < p->n; i++) {
        struct planned_pass *it = &p->passes[i];
        if (it->status != PASS_RAN || !it->pass->run)
            continue;
        uint64_t began = now(p);
        int error = run_for(p, i, image, objects, n, 1);
        uint64_t took = now(p) - began;
        rimf_log(&p->log, MVLD_LOG_STATISTICS, "time in %s for %zu added objects: %lu ns",
                 it->name, n, took);
        if (error < 0)
            fail_pass(p, it, image, error);
    }
    if (end >= p->n)
        pipeline_emit(p, image);
}

void pipeline_applied(struct pipeline *p, struct mvld_image *image, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p->passes[i].status == PASS_IDLE)
            continue;
        set_context(&p->passes[i], image);
        p->passes[i].status = PASS_RAN;
        rimf_log(&p->log, MVLD_LOG_PASSES, "pass %s: its work is in the snapshot", p->passes[i].name);
    }
}

void pipeline_leave(struct pipeline *p, size_t n, const char *why)
{
    for (size_t i = 0; i < n; i++) {
        if (p->passes[i].status == PASS_IDLE)
            continue;
        p->passes[i].status = PASS_SKIPPED;
        rimf_log(&p->log, MVLD_LOG_PASSES, "pass %s: skipped: %s", p->passes[i].name, why);
    }
}

/* For that stage's image. */
static int knows_objects(const struct planned_pass *it, enum rimf_stage stage)
{
    return stage == RIMF_STAGE_RELOCATE ? pipeline_changes_symbols(it)
                                        : it->pass && it->pass->run && it->status == PASS_RAN;
}

void pipeline_removed(struct pipeline *p, struct mvld_image *image, enum rimf_stage stage,
                      const struct mvld_object *const *objects, size_t n)
{
    for (size_t i = p->n; i-- > 0;) { /* the last pass forgets first */
        struct planned_pass *it = &p->passes[i];
        if (!knows_objects(it, stage) || !it->pass->removed)
            continue;
        enter(p, it, image, RIMF_STAGE_NONE);
        it->pass->removed(&it->context, objects, n);
        rimf_image_set_stage(image, RIMF_STAGE_NONE, NULL);
    }
    unwatch(p);
}
