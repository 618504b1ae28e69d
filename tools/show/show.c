/* SPDX-License-Identifier: MIT
 *
 * show.c: `mvld show`: switches, variation points, variants, guards and call
 * sites of ELF files, as text or JSON.
 */
#include "tools/show/descriptors.h"
#include "tools/show/disassemble.h"
#include "tools/show/show.h"
#include "tools/common/tools.h"

#include "mvld/descriptor.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "Usage: mvld show [--json] [--disassemble] [--lines] FILE...\n"
    "\n"
    "Shows what the multiverse plugin recorded in executables and shared objects:\n"
    "switches, variation points with their variants and guards, and call sites.\n"
    "Addresses are those of the file, as linked.\n"
    "\n"
    "  --json         one JSON array, an object a file\n"
    "  --disassemble  the code of generics, variants and call sites too\n"
    "  --lines        the source line of each call site, from debug information\n"
    "  --help         this text\n"
    "\n"
    "Exit code: 0, 1 when a file could not be read or is damaged, 2 for wrong usage.\n";

static int calls(const struct elf_target *callee, const struct mv_function *fn)
{
    if (fn->is_inline)
        return 0;
    if (callee->defined)
        return callee->address == fn->body;
    return callee->symbol && !strcmp(callee->symbol, fn->name);
}

const struct mv_function *show_callee_of(const struct descriptors *d,
                                         const struct elf_target *callee)
{
    for (size_t i = 0; i < d->n_functions; i++)
        if (calls(callee, &d->functions[i]))
            return &d->functions[i];
    return NULL;
}

/* "name", "0x…", or "name in another object". */
static void print_target(const struct elf_file *f, const struct elf_target *t)
{
    if (t->symbol)
        print_name(stdout, t->symbol);
    if (t->defined) {
        const struct elf_symbol *s = t->symbol ? NULL : elf_function_at(f, t->address);
        if (s && s->address == t->address)
            print_name(stdout, s->name);
        printf("%s0x%" PRIx64, t->symbol || s ? " at " : "", t->address);
    } else {
        fputs(t->symbol ? " of another object" : "nothing", stdout);
    }
}

static void print_value(const struct mv_guard *g, uint64_t value)
{
    if (g->flags & MULTIVERSE_SWITCH_SIGNED)
        printf("%" PRId64, (int64_t)value);
    else
        printf("%" PRIu64, value);
}

static void print_guard(const struct elf_file *f, const struct descriptors *d,
                        const struct mv_guard *g)
{
    const char *name = switch_name(d, &g->target);
    if (name)
        print_name(stdout, name);
    else
        print_target(f, &g->target);
    fputs(g->low == g->high ? " = " : " in ", stdout);
    print_value(g, g->low);
    if (g->low != g->high) {
        fputs("..", stdout);
        print_value(g, g->high);
    }
}

static void print_switch(const struct elf_file *f, const struct mv_switch *s)
{
    fputs("switch ", stdout);
    print_name(stdout, s->name);
    printf(": %u byte%s, %s%s%s, ", s->width, s->width == 1 ? "" : "s",
           s->flags & MULTIVERSE_SWITCH_BOOL     ? "bool"
           : s->flags & MULTIVERSE_SWITCH_SIGNED ? "signed"
                                                 : "unsigned",
           s->flags & MULTIVERSE_SWITCH_TRACKED ? ", tracked" : "",
           s->flags & MULTIVERSE_SWITCH_CONSTANT ? ", constant" : "");
    print_target(f, &s->target);
    putchar('\n');
}

static void print_place(const struct show_view *view, const char *what, uint64_t address)
{
    const struct elf_symbol *caller = elf_function_at(view->f, address);
    char line[256];

    printf("    %s 0x%" PRIx64, what, address);
    if (caller) {
        fputs(" in ", stdout);
        print_name(stdout, caller->name);
        printf("+0x%" PRIx64, address - caller->address);
    }
    lines_find(view->lines, address, line, sizeof line);
    if (*line) {
        fputs(" at ", stdout);
        print_name(stdout, line);
    }
}

static void print_site(const struct show_view *view, const struct mv_site *s)
{
    print_place(view, s->instruction == MV_READ ? "read" : "call site", s->address);
    if (s->instruction == MV_READ)
        printf(": %u bytes\n", s->length);
    else
        printf(": %s%s\n", instruction_name(s->instruction),
               s->instruction != MV_UNKNOWN && !s->one_word ? ", across two words" : "");
    if (view->code)
        disassemble_range(view->f, s->address, s->length);
}

static void print_variant(const struct show_view *view, const struct mv_function *fn,
                          const struct mv_variant *v)
{
    printf(fn->is_inline ? "        arm " : "    variant ");
    if (v->name) {
        print_name(stdout, v->name);
        printf(" at ");
    }
    printf("0x%" PRIx64, v->body);
    if (v->size)
        printf(", %u bytes", v->size);
    for (size_t k = 0; k < v->n_guards; k++) {
        fputs(k ? " and " : ", when ", stdout);
        print_guard(view->f, view->d, &fn->guards[v->first_guard + k]);
    }
    putchar('\n');
    if (view->code && !fn->is_inline)
        disassemble_function(view->f, v->body, v->size);
}

static void print_inline(const struct show_view *view, const struct mv_function *fn)
{
    print_place(view, "inline call", fn->pad);
    printf(": generic at 0x%" PRIx64 "\n", fn->body);
    if (view->code)
        disassemble_range(view->f, fn->pad, 5);
    for (size_t i = 0; i < fn->n_variants; i++)
        print_variant(view, fn, &fn->variants[i]);
}

static void print_function(const struct show_view *view, const struct mv_function *fn)
{
    printf("%s ", fn->is_pointer ? "function pointer" : "function");
    print_name(stdout, fn->name);
    if (fn->is_pointer) {
        printf(": stub at 0x%" PRIx64 ", variable ", fn->body);
        print_target(view->f, &fn->pointer);
        putchar('\n');
    } else {
        printf(": generic at 0x%" PRIx64 ", entry pad at 0x%" PRIx64 "\n", fn->body, fn->pad);
    }
    if (view->code)
        disassemble_function(view->f, fn->body, 0);
    for (size_t i = 0; i < fn->n_variants; i++)
        print_variant(view, fn, &fn->variants[i]);
    for (size_t i = 0; i < view->d->n_sites; i++)
        if (calls(&view->d->sites[i].callee, fn))
            print_site(view, &view->d->sites[i]);
    for (size_t i = 0; i < view->d->n_functions; i++)
        if (view->d->functions[i].is_inline && calls(&view->d->functions[i].pointer, fn))
            print_inline(view, &view->d->functions[i]);
}

static void print_count(size_t n, const char *what, const char *end)
{
    printf("%zu %s%s%s", n, what, n == 1 ? "" : *what == 's' ? "es" : "s", end);
}

static void print_text(const struct show_view *view)
{
    const struct elf_file *f = view->f;
    const struct descriptors *d = view->d;

    print_name(stdout, f->path);
    if (!d->found) {
        puts(": no multiverse descriptors");
        return;
    }
    fputs(": ", stdout);
    print_count(d->n_switches, "switch", ", ");
    print_count(d->n_functions - d->n_inline, "variation point", ", ");
    print_count(d->n_sites, "call site", d->n_inline ? ", " : "\n");
    if (d->n_inline)
        print_count(d->n_inline, "inline call", "\n");
    for (size_t i = 0; i < d->n_switches; i++)
        print_switch(f, &d->switches[i]);
    for (size_t i = 0; i < d->n_functions; i++) {
        const struct mv_function *fn = &d->functions[i];

        if (!fn->is_inline) {
            print_function(view, fn);
        } else if (!show_callee_of(d, &fn->pointer)) {
            fputs("inline call of ", stdout);
            print_target(f, &fn->pointer);
            putchar('\n');
            print_inline(view, fn);
        }
    }
    for (size_t i = 0; i < d->n_sites; i++) {
        if (show_callee_of(d, &d->sites[i].callee))
            continue;
        int is_read = d->sites[i].instruction == MV_READ;
        const char *constant = is_read ? switch_name(d, &d->sites[i].callee) : NULL;
        fputs(is_read ? "reads of " : "calls to ", stdout);
        if (constant)
            print_name(stdout, constant);
        else
            print_target(f, &d->sites[i].callee);
        putchar('\n');
        print_site(view, &d->sites[i]);
    }
}

/* The command line. */
struct wish {
    struct json *json;
    int code, lines;
};

static int show(const struct wish *wish, const char *path)
{
    struct elf_file f;
    struct descriptors d = {0};
    int failed = elf_file_open(&f, path) || descriptors_read(&f, &d);
    struct show_view view = {.f = &f, .d = &d, .code = wish->code};

    if (!failed && wish->lines)
        view.lines = lines_open(&f);
    if (failed)
        complain("show", "%s: %s", path, f.error);
    else if (wish->json)
        show_json(wish->json, &view);
    else
        print_text(&view);
    lines_close(view.lines);
    descriptors_free(&d);
    elf_file_close(&f);
    return failed ? TOOL_FAILED : TOOL_OK;
}

int tool_show(int argc, char **argv)
{
    static const struct option options[] = {{"json", no_argument, NULL, 'j'},
                                            {"disassemble", no_argument, NULL, 'd'},
                                            {"lines", no_argument, NULL, 'l'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct json j = {.to = stdout};
    struct wish wish = {0};
    int status = TOOL_OK, c;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (c) {
        case 'j': wish.json = &j; break;
        case 'd': wish.code = 1; break;
        case 'l': wish.lines = 1; break;
        case 'h': fputs(usage, stdout); return TOOL_OK;
        default: return TOOL_USAGE;
        }
    }
    if (optind == argc) {
        fputs(usage, stderr);
        return TOOL_USAGE;
    }
    if (wish.json)
        json_begin(&j, NULL, '[');
    for (int i = optind; i < argc; i++)
        if (show(&wish, argv[i]))
            status = TOOL_FAILED;
    if (wish.json)
        json_end(&j, ']');
    return status;
}
