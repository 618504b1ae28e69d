/* SPDX-License-Identifier: MIT
 *
 * loader/manager/pipeline.c: plans the passes for one program.
 *
 *     environment, files   which [app] matches, what MVLD_TUNABLES lays over it
 *     passes               each is found, mapped, checked
 *     order                each behind those that it must run behind
 *     options              each against the declaration of its pass
 *     libraries            of passes that have something to do with these options
 *
 * A pass that has nothing to do (idle) stays in the plan, which a snapshot is made for and `mvld pipeline`
 * prints.  It is unmapped, its library is not added, and it is never called.  If all passes are idle, there
 * is no pipeline.
 *
 * If a snapshot may hold all work of the passes, only their files are looked up first; they are mapped if
 * there is no snapshot, or when an object comes later (manager/snapshot.c).
 *
 * Nothing of the program is changed, and of a pass only `idle` runs, so a refusal at any step leaves the
 * program unchanged.
 */
#include "rimf/base/base.h"
#include "loader/config/config.h"
#include "loader/manager/private.h"

#include <errno.h>

static int no_memory(const struct why *why)
{
    return refuse(why, ENOMEM, "there is no memory for the pipeline");
}

static size_t count_names(struct ini_slice list)
{
    struct ini_slice element;
    size_t n = 0;

    while (ini_list_next(&list, &element))
        n++;
    return n;
}

/* Finds the file of each pass. */
static int find_passes(struct pipeline *p, const struct why *why)
{
    struct ini_slice list = p->order->raw, element;

    for (p->n = 0; ini_list_next(&list, &element); p->n++) {
        char *name = rimf_heap_copy_part(&p->heap, element.at, element.length);
        int error;

        if (!name)
            return no_memory(why);
        error = pipeline_find_pass(p, name, &p->passes[p->n], why);
        if (error)
            return error;
        p->passes[p->n].said = p->n;
    }
    return 0;
}

/* Checks its options; and finds its library, or that it is idle, which is all that a snapshot needs of it. */
static int finish(struct pipeline *p, struct planned_pass *it, const struct why *why)
{
    int error = options_finish(&p->heap, it->pass, it->path, &p->config, &it->settings,
                               &it->n_settings, why);

    if (error)
        return error;
    if (it->pass->idle)
        it->idle = it->pass->idle(it->settings, it->n_settings);
    if (!it->idle)
        return pipeline_find_library(p, it, why);
    it->status = PASS_IDLE;
    it->flags = MVLD_PASS_FREEZES | MANIFEST_IDLE;
    return 0;
}

static int finish_all(struct pipeline *p, const struct why *why)
{
    int error = 0;

    for (size_t i = 0; i < p->n && !error; i++)
        error = finish(p, &p->passes[i], why);
    return error;
}

/* Unmaps idle passes.  Returns the number of others. */
static size_t unmap_idle(struct pipeline *p)
{
    size_t left = 0;

    for (size_t i = 0; i < p->n; i++) {
        struct planned_pass *it = &p->passes[i];

        if (it->status != PASS_IDLE) {
            left++;
            continue;
        }
        pass_unmap(p->sys, &it->object);
        it->pass = NULL;
        it->idle = NULL;
        it->n_settings = 0;
    }
    return left;
}

/* Reports why the passes are idle; the last one explains why there is no pipeline. */
static void say_idle(const struct pipeline *p, const struct why *why)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->passes[i].idle) {
            rimf_format(why->text, why->size, "%s: %s", p->passes[i].name, p->passes[i].idle);
            rimf_log(&p->log, MVLD_LOG_PASSES, "%s", why->text);
        }
}

static int is_planned(const struct pipeline *p, const char *name)
{
    for (size_t i = 0; i < p->n; i++)
        if (rimf_streq(p->passes[i].name, name))
            return 1;
    return 0;
}

/* Sections of passes that are not in the pipeline are allowed, so that a pass can be removed for one run;
 * but a misspelt section should be noticed. */
static void note_unused(const struct pipeline *p)
{
    const char *noted = NULL;

    for (const struct config_entry *e = p->config.entries; e; e = e->next) {
        if (rimf_streq(e->section, "app") || is_planned(p, e->section) ||
            (noted && rimf_streq(noted, e->section)))
            continue;
        noted = e->section;
        rimf_log(&p->log, MVLD_LOG_PASSES, "%s:%u: not used: the pass '%s' is not in the pipeline",
                 e->file, e->line, e->section);
    }
}

static void log_line(void *cookie, const char *text)
{
    const struct pipeline *p = cookie;

    rimf_log(&p->log, MVLD_LOG_PASSES, "%s", text);
}

static struct pipeline *new_pipeline(const struct pipeline_query *q, struct rimf_heap *heap)
{
    const char *program = pipeline_program(q);

    if (!program)
        program = q->name ? q->name : "";
    struct pipeline *p = rimf_heap_alloc(heap, sizeof(*p));

    if (!p)
        return NULL;
    p->sys = q->sys;
    p->log = q->log ? *q->log : (struct rimf_log){.sys = q->sys, .fd = -1};
    p->secure = q->secure;
    p->musl = q->musl;
    p->program = rimf_heap_copy(heap, program);
    return p->program ? p : NULL;
}

/* Maps all passes that were found, and checks everything.  0, or negative errno and the sentence. */
static int map_all(struct pipeline *p, const struct why *why)
{
    int error = 0;

    for (size_t i = 0; i < p->n && !error; i++)
        error = pipeline_map_pass(p, &p->passes[i], why);
    if (!error)
        error = pipeline_order(p, why);
    return error ? error : finish_all(p, why);
}

/* Whether a snapshot may hold all work of the passes, and nobody wants to know more of them. */
static int may_wait(const struct pipeline *p, const struct pipeline_query *q)
{
    return q->late && !p->secure && !p->musl && p->n <= MANIFEST_PASSES_MAX &&
           !rimf_log_enabled(&p->log, MVLD_LOG_PASSES);
}

/* Returns 1: there is a pipeline.  0: none is configured. */
static int plan(const struct pipeline_query *q, struct rimf_heap *heap, struct pipeline **out,
                const struct why *why)
{
    struct config_environment env;
    struct config config;
    struct pipeline *p;

    config_environment(q, &env);
    int found = config_read(q, &env, heap, &config, why);
    if (found <= 0)
        return found;
    const struct config_entry *order = config_find(&config, "app", "passes");
    if (!order || !count_names(order->raw))
        return 0;
    if (q->is_meant)
        q->is_meant(q->cookie);
    p = new_pipeline(q, heap);
    if (!p)
        return no_memory(why);
    *out = p;
    p->heap = *heap; /* the plan owns its memory from here on */
    p->config = config;
    p->order = order;
    p->passes = rimf_heap_alloc(&p->heap, count_names(order->raw) * sizeof(*p->passes));
    if (!p->passes)
        return no_memory(why);
    p->pass_path = env.pass_path;
    int error = find_passes(p, why);
    if (!error && may_wait(p, q))
        p->late = LOOKED_AT;
    else if (!error)
        error = map_all(p, why);
    return error ? error : 1;
}

static void unmap(struct pipeline *p)
{
    for (size_t i = 0; i < p->n; i++)
        pass_unmap(p->sys, &p->passes[i].object);
    p->n = 0;
}

static void say_untransformed(const struct rimf_log *log, const struct why *why)
{
    rimf_log(log, MVLD_LOG_WARNING, "mvld: %s: the program runs untransformed", why->text);
}

int pipeline_complete(struct pipeline *p, char *text, size_t size)
{
    struct why why = {text, size};
    int error;

    if (p->late == MAPPED)
        return 0;
    p->late = MAPPED;
    error = find_passes(p, &why); /* again: in their order, and without what a snapshot said of them */
    if (!error)
        error = map_all(p, &why);
    if (error) {
        unmap(p);
        say_untransformed(&p->log, &why);
    } else if (!unmap_idle(p)) {
        p->n = 0;
    }
    return error;
}

int pipeline_plan(const struct pipeline_query *q, struct pipeline **out, char *text, size_t size)
{
    char own[512];
    struct why why = text && size ? (struct why){text, size} : (struct why){own, sizeof(own)};
    struct rimf_heap heap;
    struct pipeline *p = NULL;

    *out = NULL;
    why.text[0] = 0;
    rimf_heap_init(&heap, q->sys);
    rimf_heap_seed(&heap, q->memory, q->memory_size);
    rimf_heap_set_alone(&heap, 1); /* events come one at a time */
    int planned = plan(q, &heap, &p, &why);
    if (planned > 0) {
        note_unused(p);
        if (rimf_log_enabled(&p->log, MVLD_LOG_PASSES))
            pipeline_print(p, log_line, p);
        say_idle(p, &why);
        if (!q->runs || p->late || unmap_idle(p))
            *out = p;
        else
            pipeline_free(p);
        return 0;
    }
    pipeline_free(p);
    if (!p)
        rimf_heap_destroy(&heap);
    if (planned < 0)
        say_untransformed(q->log, &why);
    else if (rimf_log_enabled(q->log, MVLD_LOG_PASSES))
        rimf_log(q->log, MVLD_LOG_PASSES, "no pipeline is configured for %s",
                 pipeline_program(q) ? pipeline_program(q) : q->name ? q->name : "this program");
    return planned;
}

void pipeline_free(struct pipeline *p)
{
    if (!p)
        return;
    unmap(p);
    rimf_heap_destroy(&p->heap);
}

/* The i-th pass with a library. */
static const struct planned_pass *brings(const struct pipeline *p, size_t i)
{
    for (size_t at = 0; at < p->n; at++)
        if (p->passes[at].library && i-- == 0)
            return &p->passes[at];
    return NULL;
}

const char *pipeline_library(const struct pipeline *p, size_t i)
{
    const struct planned_pass *pass = brings(p, i);

    return pass ? pass->library : NULL;
}

int pipeline_brings(const struct pipeline *p, const char *name)
{
    const char *library;

    for (size_t i = 0; (library = pipeline_library(p, i)); i++)
        if (rimf_streq(library, name))
            return 1;
    return 0;
}

int pipeline_library_is_spacious(const struct pipeline *p, size_t i)
{
    const struct planned_pass *pass = brings(p, i);

    /* A pass that adds code (code_add) brings concat's region, too. */
    return pass && (pass->flags & MVLD_PASS_MOVES || rimf_streq(rimf_file_name(pass->library), "libconcat.so.1"));
}

const char *pipeline_setting(const struct pipeline *p, const char *key)
{
    const struct config_entry *e = config_find(&p->config, "app", key);

    return e ? e->text : NULL;
}

int pipeline_names_writer(const struct pipeline *p, const char *file)
{
    const struct config_entry *e = config_find(&p->config, "app", "slot-writers");
    struct ini_slice list = e ? e->raw : (struct ini_slice){0}, element;
    size_t n = rimf_strlen(file);

    while (ini_list_next(&list, &element))
        if (element.length <= n && !memcmp(element.at, file, element.length))
            return 1;
    return 0;
}

uint32_t pipeline_flags(const struct pipeline *p)
{
    uint32_t flags = p->late == LOOKED_AT ? ~0u : 0; /* anything is possible */

    for (size_t i = 0; i < p->n; i++)
        flags |= p->passes[i].flags;
    return flags;
}

int pipeline_has(const void *pipeline, uint32_t flag)
{
    return (pipeline_flags(pipeline) & flag) != 0;
}

size_t pipeline_count(const struct pipeline *p)
{
    return p->n;
}

int pipeline_changes_symbols(const struct planned_pass *it)
{
    return it->pass && it->pass->relocate && (it->status == PASS_PLANNED || it->status == PASS_RAN);
}

int pipeline_wants_symbols(const struct pipeline *p)
{
    size_t i = 0;

    while (i < p->n && !pipeline_changes_symbols(&p->passes[i]))
        i++;
    return i < p->n;
}
