/* SPDX-License-Identifier: MIT
 *
 * passes.c: `mvld passes`: which passes there are, and their options.
 */
#include "tools/config/passes.h"
#include "tools/common/paths.h"
#include "tools/common/tools.h"

#include "loader/manager/pass_map.h"
#include "rimf/base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <glob.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "Usage: mvld passes [--json] [FOLDER...]\n"
    "\n"
    "Lists the passes and their options: those in MVLD_PASS_PATH and the installed\n"
    "ones, or those in FOLDER.\n"
    "\n"
    "  --json  as JSON\n"
    "  --help  this text\n"
    "\n"
    "Exit code: 0, 1 when a file is no pass that this mvld can run or there is none,\n"
    "2 for wrong usage.\n";

typedef void visitor(void *cookie, const char *file, const struct mvld_pass *, const char *why);

static void visit_file(const char *file, visitor *visit, void *cookie)
{
    char text[512] = "";
    struct why why = {text, sizeof text};
    struct pass_object object;
    const char *base = strrchr(file, '/') + 1;
    char *name = must_print("%.*s", (int)(strlen(base) - strlen(".so")), base);
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0) {
        visit(cookie, file, NULL, strerror(errno));
    } else if (pass_map(&rimf_sys_kernel, fd, file, name, &object, &why)) {
        /* Our sentence names the file already. */
        size_t n = strlen(file);
        int doubled = !strncmp(text, file, n) && !strncmp(text + n, ": ", 2);
        visit(cookie, file, NULL, doubled ? text + n + 2 : text);
    } else {
        visit(cookie, file, object.pass, NULL);
        pass_unmap(&rimf_sys_kernel, &object);
    }
    if (fd >= 0)
        close(fd);
    free(name);
}

size_t passes_each(const char *folders, visitor *visit, void *cookie)
{
    size_t n = 0;
    for (const char *end; *folders; folders = *end ? end + 1 : end) {
        glob_t found = {0};
        end = strchrnul(folders, ':');
        char *pattern = must_print("%.*s/*.so", (int)(end - folders), folders);
        if (glob(pattern, 0, NULL, &found))
            found.gl_pathc = 0;
        for (size_t i = 0; i < found.gl_pathc; i++) {
            const char *file = found.gl_pathv[i];
            if (!strncmp(strrchr(file, '/') + 1, "lib", 3))
                continue; /* the library of a pass may lie beside it */
            visit_file(file, visit, cookie);
            n++;
        }
        globfree(&found);
        free(pattern);
    }
    return n;
}

static const char *type_name(enum mvld_option_type type)
{
    static const char *const names[] = {"?", "bool", "number", "word", "text", "prefix", "file", "symbol", "gone"};
    return names[type < sizeof names / sizeof *names ? type : 0];
}

struct listing {
    struct json *json;
    int refused;
};

static void print_option(const struct mvld_option *o)
{
    printf("    %s = ", o->name);
    if (o->type == MVLD_OPTION_WORD)
        for (size_t i = 0; o->words && o->words[i]; i++)
            printf("%s%s", i ? " | " : "", o->words[i]);
    else if (o->type == MVLD_OPTION_INT)
        printf("%" PRId64 " to %" PRId64, o->min, o->max);
    else
        fputs(o->type == MVLD_OPTION_BOOL ? "yes | no" : o->type == MVLD_OPTION_FILE ? "path"
              : o->type == MVLD_OPTION_SYMBOL ? "library:symbol" : o->type == MVLD_OPTION_GONE ? "(ignored)" : "text", stdout);
    if (o->initial)
        printf("; default %s", *o->initial ? o->initial : "\"\"");
    printf("\n        %s\n", o->help ? o->help : "");
}

static void json_names(struct json *j, const char *key, const char *const *names)
{
    json_begin(j, key, '[');
    for (; names && *names; names++)
        json_string(j, NULL, *names);
    json_end(j, ']');
}

static void json_option(struct json *j, const struct mvld_option *o)
{
    json_begin(j, NULL, '{');
    json_string(j, "name", o->name);
    json_string(j, "type", type_name(o->type));
    json_string(j, "default", o->initial);
    if (o->type == MVLD_OPTION_INT) {
        json_signed(j, "min", o->min);
        json_signed(j, "max", o->max);
    }
    if (o->type == MVLD_OPTION_WORD)
        json_names(j, "words", o->words);
    json_string(j, "help", o->help);
    json_end(j, '}');
}

static void json_pass(struct json *j, const char *file, const struct mvld_pass *p)
{
    json_begin(j, NULL, '{');
    json_string(j, "name", p->name);
    json_string(j, "help", p->help);
    json_string(j, "file", file);
    json_names(j, "behind", p->behind);
    json_begin(j, "options", '[');
    for (const struct mvld_option *o = p->options; o && o->name; o++)
        json_option(j, o);
    json_end(j, ']');
    json_end(j, '}');
}

static void print_names(const char *what, const char *const *names)
{
    if (!names || !*names)
        return;
    printf("    %s", what);
    for (; *names; names++)
        printf(" %s", *names);
    putchar('\n');
}

static void list(void *cookie, const char *file, const struct mvld_pass *p, const char *why)
{
    struct listing *l = cookie;
    if (!p) {
        l->refused = 1;
        complain("passes", "%s: %s", file, why);
    } else if (l->json) {
        json_pass(l->json, file, p);
    } else {
        printf("%s: %s\n    %s\n", p->name, p->help ? p->help : "", file);
        print_names("behind", p->behind);
        for (const struct mvld_option *o = p->options; o && o->name; o++)
            print_option(o);
    }
}

int tool_passes(int argc, char **argv)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {0}};
    struct json j = {.to = stdout};
    struct listing l = {0};
    size_t n = 0;
    int c;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (c) {
        case 'j': l.json = &j; break;
        case 'h': fputs(usage, stdout); return TOOL_OK;
        default: return TOOL_USAGE;
        }
    }
    if (l.json)
        json_begin(&j, NULL, '[');
    for (int i = optind; i < argc; i++) {
        int folder = open(argv[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (folder < 0)
            complain("passes", "%s: %s", argv[i], strerror(errno));
        else
            close(folder);
        l.refused |= folder < 0;
        n += folder < 0 ? 0 : passes_each(argv[i], list, &l);
    }
    if (optind == argc)
        n = passes_each(path_passes(), list, &l);
    if (l.json)
        json_end(&j, ']');
    if (!n && !l.refused)
        complain("passes", "there are none in %s", optind == argc ? path_passes() : argv[optind]);
    return n && !l.refused ? TOOL_OK : TOOL_FAILED;
}
