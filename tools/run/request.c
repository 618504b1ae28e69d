/* SPDX-License-Identifier: MIT
 *
 * request.c: see request.h.  Everything is passed in the environment variables that the loader
 * reads, and the loader's own code makes the plan: so `mvld pipeline` prints what happens.
 */
#include "tools/run/request.h"
#include "tools/common/paths.h"
#include "tools/common/tools.h"

#include "loader/config/config.h"
#include "rimf/base/log.h"
#include "loader/manager/pipeline.h"
#include "rimf/base/sys.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

/* ':' separates settings in MVLD_TUNABLES; a backslash takes that away. */
static char *escaped(const char *text)
{
    char *to = must_alloc(2 * strlen(text) + 1, 1), *at = to;
    for (; *text; text++) {
        if (*text == ':' || *text == '\\')
            *at++ = '\\';
        *at++ = *text;
    }
    return to;
}

static void add_tunable(struct request *r, const char *prefix, const char *text)
{
    char *value = escaped(text);
    char *all = must_print("%s%s%s%s", r->tunables ? r->tunables : "", r->tunables ? ":" : "",
                           prefix, value);
    free(value);
    free(r->tunables);
    r->tunables = all;
}

static void add_pass(struct request *r, const char *pass)
{
    char *all = must_print("%s%s%s", r->passes ? r->passes : "", r->passes ? ", " : "", pass);
    free(r->passes);
    r->passes = all;
}

int request_option(struct request *r, const char *subcommand, int option, const char *value)
{
    const char *equals = value ? strchr(value, '=') : NULL;
    const char *dot = value ? strchr(value, '.') : NULL;

    switch (option) {
    case 'p':
        add_pass(r, value);
        return 0;
    case 's':
        if (!equals || equals == value || !equals[1]) {
            complain(subcommand, "--set %s: not SWITCH=VALUE", value);
            return -1;
        }
        add_tunable(r, "multiverse.set.", value);
        r->sets = 1;
        return 0;
    case 'o':
        if (!equals || !dot || dot == value || equals <= dot + 1) {
            complain(subcommand, "--option %s: not PASS.OPTION=VALUE", value);
            return -1;
        }
        add_tunable(r, "", value);
        return 0;
    case 'a':
        add_tunable(r, "app.placement=", value);
        return 0;
    case 'c': {
        char *path = realpath(value, NULL);
        setenv("MVLD_CONFIG", path ? path : value, 1);
        free(path);
        return 0;
    }
    case 'd':
        setenv("MVLD_DEBUG", value, 1);
        return 0;
    default:
        return 1;
    }
}

int request_is_empty(const struct request *r)
{
    return !r->passes && !r->tunables;
}

/* The loader's facts about the program; `real` is its path. */
static struct pipeline_query query_of(const struct program *p, const struct rimf_log *log,
                                      char *real)
{
    return (struct pipeline_query){
        .sys = &rimf_sys_kernel,
        .log = log,
        .envp = environ,
        .secure = p->kind == PROGRAM_SECURE,
        .program = real,
        .name = p->path,
        .build_id = p->build_id_size ? p->build_id : NULL,
        .build_id_size = p->build_id_size,
        .musl = p->musl,
    };
}

int request_plan(const struct program *p, struct pipeline **out, char *why, size_t why_size)
{
    struct rimf_log log = {.sys = &rimf_sys_kernel, .fd = -1};
    char *real = realpath(p->path, NULL);
    struct pipeline_query query = query_of(p, &log, real);
    int error = pipeline_plan(&query, out, why, why_size);
    free(real);
    return error;
}

static int names_pass(const char *list, const char *pass)
{
    size_t n = strlen(pass);
    for (const char *at = list; (at = strstr(at, pass)); at += n)
        if ((at == list || strchr(", \t", at[-1])) && (!at[n] || strchr(", \t", at[n])))
            return 1;
    return 0;
}

/* The list of passes with multiverse added, or NULL: it is there already.  Without --pass the
 * configured ones stay. */
static char *with_multiverse(const struct request *r, const struct program *p,
                             const char **wrong)
{
    static char why_text[512];
    struct rimf_log log = {.sys = &rimf_sys_kernel, .fd = -1};
    struct why why = {why_text, sizeof why_text};
    struct rimf_heap heap;
    struct config_environment environment;
    struct config config;
    char *list = NULL, *real;

    if (r->passes)
        return names_pass(r->passes, "multiverse") ? NULL : must_print("%s, multiverse", r->passes);
    real = realpath(p->path, NULL);
    struct pipeline_query query = query_of(p, &log, real);
    rimf_heap_init(&heap, &rimf_sys_kernel);
    config_environment(&query, &environment);
    int found = config_read(&query, &environment, &heap, &config, &why);
    if (found < 0) {
        *wrong = why_text;
    } else {
        const struct config_entry *e = found ? config_find(&config, "app", "passes") : NULL;
        char *old = e ? must_print("%.*s", (int)e->raw.length, e->raw.at) : must_print("%s", "");
        if (!names_pass(old, "multiverse"))
            list = must_print("%s%smultiverse", old, *old ? ", " : "");
        free(old);
    }
    rimf_heap_destroy(&heap);
    free(real);
    return list;
}

const char *request_apply(const struct request *r, const struct program *p)
{
    const char *before = getenv("MVLD_TUNABLES"), *wrong = NULL;
    const char *folders = path_pass_folders();
    char *passes = r->passes ? must_print("%s", r->passes) : NULL;

    if (folders && !getenv("MVLD_PASS_PATH"))
        setenv("MVLD_PASS_PATH", folders, 1);
    if (r->sets) {
        char *list = with_multiverse(r, p, &wrong);
        if (list) {
            free(passes);
            passes = list;
        }
    }
    if (!wrong && (passes || r->tunables)) {
        char *all = must_print("%s%s%s%s%s%s", before && *before ? before : "",
                               before && *before ? ":" : "", passes ? "app.passes=" : "",
                               passes ? passes : "", passes && r->tunables ? ":" : "",
                               r->tunables ? r->tunables : "");
        setenv("MVLD_TUNABLES", all, 1);
        free(all);
    }
    free(passes);
    return wrong;
}
