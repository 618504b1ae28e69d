/* SPDX-License-Identifier: MIT
 *
 * pipeline.c: `mvld pipeline`: prints the passes that would run in a program, and why.
 */
#include "loader/config/config.h"
#include "tools/analyze/analyze.h"
#include "tools/common/elf_file.h"
#include "tools/config/make.h"
#include "tools/common/paths.h"
#include "loader/manager/private.h"
#include "tools/run/program.h"
#include "tools/run/request.h"
#include "tools/common/tools.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "Usage: mvld pipeline [OPTION...] PROGRAM\n"
    "\n"
    "Says which passes the loader would run in PROGRAM, in which order, with which\n"
    "options, and which line of which file says so.  The text is a configuration: it\n"
    "can be read back.\n"
    "\n" REQUEST_USAGE
    "  --json               as JSON\n"
    "  --help               this text\n"
    "\n"
    "Exit code: 0, also when nothing is configured; 1 when the configuration or the\n"
    "pipeline is refused; 2 for wrong usage.\n";

static void print_line(void *cookie, const char *text)
{
    (void)cookie;
    print_name(stdout, text);
    putchar('\n');
}

/* Prints how the program gets its loader, as comments. */
static void print_way(const struct program *p, int planned)
{
    const char *objection = program_objection(p);
    char *reader = p->kind == PROGRAM_SCRIPT ? program_of_script(p) : NULL;
    if (p->kind == PROGRAM_SCRIPT)
        printf("; it is a script: mvld pipeline %s\n", reader ? reader : p->interpreter);
    else if (p->kind == PROGRAM_SECURE)
        puts("; it has special rights: only files of root count, and only when its interpreter "
             "is ld-mvld.so.1");
    else if (objection)
        printf("; passes cannot run in it: %s\n", objection);
    else if (planned && p->kind == PROGRAM_PLAIN)
        printf("; its interpreter is %s: this happens under `mvld run', by what `mvld enable' makes, "
               "or after `mvld set-interp'\n", p->interpreter);
    free(reader);
}

/* ---- settings that name a symbol (MVLD_OPTION_SYMBOL) --------------------------------------- */

/* 0: the file has no symbol of this name; 1: it may have one. */
static int may_define(const char *path, const char *symbol)
{
    struct elf_file f;
    char *names = NULL;
    int may = 1;

    if (!elf_file_open(&f, path) && f.strtab && (names = malloc(f.strtab_size)) &&
        !elf_read(&f, f.strtab, names, f.strtab_size))
        may = memmem(names, f.strtab_size, symbol, strlen(symbol) + 1) != NULL; /* names may share suffixes */
    free(names);
    elf_file_close(&f);
    return may;
}

static int matches(const struct mvld_setting *s, const struct paths *objects)
{
    for (size_t i = 0; i < objects->n; i++)
        if (mvld_setting_is_library(s, objects->at[i]) && may_define(objects->at[i], mvld_setting_symbol(s)))
            return 1;
    return 0;
}

/* Lists the program, its libraries, and the passes' libraries. */
static int list_objects(struct paths *to, const struct program *p, const struct pipeline *plan)
{
    if (paths_of_program(to, p->path))
        return -1;
    for (size_t i = 0; i < plan->n; i++)
        if (plan->passes[i].library)
            paths_add(to, plan->passes[i].library);
    return 0;
}

/* Lists options that match nothing at the start; a dlopen may add objects. */
static void print_unmatched(const struct program *p, const struct pipeline *plan)
{
    struct paths objects = {0};
    char *line;

    for (size_t i = 0; i < plan->n; i++)
        for (size_t k = 0; k < plan->passes[i].n_settings; k++) {
            const struct mvld_setting *s = &plan->passes[i].settings[k];

            if (!s->text || !options_is(plan->passes[i].pass, s, MVLD_OPTION_SYMBOL))
                continue;
            if (!objects.n && list_objects(&objects, p, plan))
                return;
            if (matches(s, &objects))
                continue;
            line = must_print("; %s.%s = %s: neither %s nor what it is linked with defines it",
                              plan->passes[i].name, s->name, s->text, p->path);
            print_line(NULL, line);
            free(line);
        }
    paths_free(&objects);
}

static void print_text(const struct program *p, struct pipeline *plan)
{
    print_way(p, plan != NULL);
    if (plan) {
        pipeline_print(plan, print_line, NULL);
        print_unmatched(p, plan);
    } else {
        printf("; no pipeline is configured for %s\n", p->path);
    }
}

static void json_setting(struct json *j, const struct mvld_setting *s)
{
    json_begin(j, NULL, '{');
    json_string(j, "name", s->name);
    json_string(j, "value", s->text);
    json_string(j, "file", s->file && *s->file ? s->file : NULL);
    json_unsigned(j, "line", s->line);
    json_end(j, '}');
}

static void json_pass(struct json *j, const struct planned_pass *it)
{
    json_begin(j, NULL, '{');
    json_string(j, "name", it->pass->name);
    json_string(j, "help", it->pass->help);
    json_string(j, "file", it->path);
    json_string(j, "library", it->library);
    json_string(j, "nothing_to_do", it->idle);
    json_begin(j, "options", '[');
    for (size_t i = 0; i < it->n_settings; i++)
        json_setting(j, &it->settings[i]);
    json_end(j, ']');
    json_end(j, '}');
}

static void print_json(const struct program *p, const struct pipeline *plan)
{
    struct json j = {.to = stdout};
    const struct config *c = plan ? &plan->config : NULL;
    json_begin(&j, NULL, '{');
    json_string(&j, "program", p->path);
    json_string(&j, "interpreter", *p->interpreter ? p->interpreter : NULL);
    json_string(&j, "objection", program_objection(p));
    json_string(&j, "file", c ? c->file : NULL);
    json_unsigned(&j, "line", c ? c->line : 0);
    json_string(&j, "match", c ? c->match : NULL);
    json_string(&j, "placement", plan ? pipeline_setting(plan, "placement") : NULL);
    json_string(&j, "patch", plan ? pipeline_setting(plan, "patch") : NULL);
    json_begin(&j, "passes", '[');
    for (size_t i = 0; plan && i < plan->n; i++)
        json_pass(&j, &plan->passes[i]);
    json_end(&j, ']');
    json_end(&j, '}');
}

static int explain_program(const struct request *r, const char *name, int as_json)
{
    struct program p;
    struct pipeline *plan = NULL;
    char why[512];
    char *path = program_find(name);

    if (!path || program_open(&p, path)) {
        complain("pipeline", "%s: %s", name, strerror(errno));
        return TOOL_FAILED;
    }
    const char *wrong = request_apply(r, &p);
    if (!wrong && request_plan(&p, &plan, why, sizeof why))
        wrong = why;
    if (wrong) {
        complain("pipeline", "%s: the program would run untransformed", wrong);
        return TOOL_FAILED;
    }
    config_remind("pipeline");
    if (as_json)
        print_json(&p, plan);
    else
        print_text(&p, plan);
    pipeline_free(plan);
    free(path);
    free(p.path);
    return TOOL_OK;
}

int tool_pipeline(int argc, char **argv)
{
    static const struct option options[] = {REQUEST_OPTIONS,
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct request r = {0};
    int as_json = 0, c;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (c) {
        case 'j': as_json = 1; break;
        case 'h': fputs(usage, stdout); return TOOL_OK;
        default:
            if (request_option(&r, "pipeline", c, optarg))
                return TOOL_USAGE;
        }
    }
    if (optind + 1 != argc) {
        fputs(usage, stderr);
        return TOOL_USAGE;
    }
    return explain_program(&r, argv[optind], as_json);
}
