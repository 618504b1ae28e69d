/* SPDX-License-Identifier: MIT
 *
 * json.c: the output of `mvld show --json`.
 */
#include "tools/show/show.h"
#include "tools/show/disassemble.h"

#include "mvld/descriptor.h"

static void json_target(struct json *j, const char *key, const struct elf_target *t)
{
    json_begin(j, key, '{');
    json_string(j, "symbol", t->symbol);
    if (t->defined)
        json_hex(j, "address", t->address);
    else
        json_string(j, "address", NULL);
    json_end(j, '}');
}

static void json_value(struct json *j, const char *key, const struct mv_guard *g, uint64_t value)
{
    if (g->flags & MULTIVERSE_SWITCH_SIGNED)
        json_signed(j, key, (int64_t)value);
    else
        json_unsigned(j, key, value);
}

static void json_switch(struct json *j, const struct mv_switch *s)
{
    json_begin(j, NULL, '{');
    json_string(j, "name", s->name);
    json_unsigned(j, "width", s->width);
    json_bool(j, "signed", s->flags & MULTIVERSE_SWITCH_SIGNED);
    json_bool(j, "bool", s->flags & MULTIVERSE_SWITCH_BOOL);
    json_bool(j, "tracked", s->flags & MULTIVERSE_SWITCH_TRACKED);
    json_bool(j, "constant", s->flags & MULTIVERSE_SWITCH_CONSTANT);
    json_bool(j, "defined", s->flags & MULTIVERSE_SWITCH_DEFINED);
    json_target(j, "location", &s->target);
    json_end(j, '}');
}

static void json_variant(struct json *j, const struct show_view *view, const struct mv_function *fn,
                         const struct mv_variant *v)
{
    json_begin(j, NULL, '{');
    json_string(j, "name", v->name);
    json_hex(j, "address", v->body);
    json_unsigned(j, "size", v->size);
    json_begin(j, "guards", '[');
    for (size_t i = 0; i < v->n_guards; i++) {
        const struct mv_guard *g = &fn->guards[v->first_guard + i];
        json_begin(j, NULL, '{');
        json_string(j, "switch", switch_name(view->d, &g->target));
        json_value(j, "low", g, g->low);
        json_value(j, "high", g, g->high);
        json_end(j, '}');
    }
    json_end(j, ']');
    if (view->code && !fn->is_inline)
        json_code(j, view->f, v->body, v->size);
    json_end(j, '}');
}

static void json_function(struct json *j, const struct show_view *view, const struct mv_function *fn)
{
    json_begin(j, NULL, '{');
    json_string(j, "name", fn->name);
    json_bool(j, "pointer", fn->is_pointer);
    json_hex(j, "address", fn->body);
    if (fn->is_pointer)
        json_target(j, "variable", &fn->pointer);
    else
        json_hex(j, "pad", fn->pad);
    if (view->code)
        json_code(j, view->f, fn->body, 0);
    json_begin(j, "variants", '[');
    for (size_t i = 0; i < fn->n_variants; i++)
        json_variant(j, view, fn, &fn->variants[i]);
    json_end(j, ']');
    json_end(j, '}');
}

static void json_inline(struct json *j, const struct show_view *view, const struct mv_function *fn)
{
    const struct elf_symbol *caller = elf_function_at(view->f, fn->pad);

    json_begin(j, NULL, '{');
    json_hex(j, "address", fn->pad);
    json_string(j, "caller", caller ? caller->name : NULL);
    json_string(j, "callee", fn->name);
    json_hex(j, "generic_call", fn->body);
    json_begin(j, "arms", '[');
    for (size_t i = 0; i < fn->n_variants; i++)
        json_variant(j, view, fn, &fn->variants[i]);
    json_end(j, ']');
    json_end(j, '}');
}

static void json_functions(struct json *j, const struct show_view *view, int is_inline,
                           void (*one)(struct json *, const struct show_view *,
                                       const struct mv_function *))
{
    for (size_t i = 0; i < view->d->n_functions; i++)
        if (view->d->functions[i].is_inline == is_inline)
            one(j, view, &view->d->functions[i]);
}

static void json_site(struct json *j, const struct show_view *view, const struct mv_site *s)
{
    const struct elf_symbol *caller = elf_function_at(view->f, s->address);
    const struct mv_function *callee = show_callee_of(view->d, &s->callee);
    char line[256];

    lines_find(view->lines, s->address, line, sizeof line);
    json_begin(j, NULL, '{');
    json_hex(j, "address", s->address);
    json_string(j, "caller", caller ? caller->name : NULL);
    json_string(j, "line", *line ? line : NULL);
    const char *constant = switch_name(view->d, &s->callee);
    json_string(j, "callee", callee ? callee->name : constant ? constant : s->callee.symbol);
    json_string(j, "instruction", instruction_name(s->instruction));
    json_unsigned(j, "length", s->length);
    json_bool(j, "one_word", s->one_word);
    json_end(j, '}');
}

void show_json(struct json *j, const struct show_view *view)
{
    const struct elf_file *f = view->f;
    const struct descriptors *d = view->d;

    json_begin(j, NULL, '{');
    json_string(j, "file", f->path);
    json_bool(j, "descriptors", d->found);
    json_unsigned(j, "version", d->version);
    json_begin(j, "switches", '[');
    for (size_t i = 0; i < d->n_switches; i++)
        json_switch(j, &d->switches[i]);
    json_end(j, ']');
    json_begin(j, "functions", '[');
    json_functions(j, view, 0, json_function);
    json_end(j, ']');
    json_begin(j, "inline_calls", '[');
    json_functions(j, view, 1, json_inline);
    json_end(j, ']');
    json_begin(j, "callsites", '[');
    for (size_t i = 0; i < d->n_sites; i++)
        json_site(j, view, &d->sites[i]);
    json_end(j, ']');
    json_end(j, '}');
}
