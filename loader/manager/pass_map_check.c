/* SPDX-License-Identifier: MIT
 *
 * loader/manager/pass_map_check.c: checks the declarations of a mapped pass.  Each pointer that the manager
 * follows is in the pass, each string ends in it, each function is in its code.  What a pass does when it
 * runs cannot be checked: a pass is trusted code, but a damaged one is refused.
 */
#include "rimf/base/base.h"
#include "loader/config/ini.h"
#include "loader/manager/pass_map.h"

#include <errno.h>
#include <sys/mman.h>

#define TEXT_MAX 4096u
#define OPTIONS_MAX 1024u
#define LIST_MAX 256u

struct check {
    const struct pass_object *object;
    const struct why *why;
};

#define REFUSE(c, ...) refuse_at((c)->why, ENOEXEC, (c)->object->path, 0, __VA_ARGS__)

static int is_text(const struct check *c, const char *text)
{
    uintptr_t at = (uintptr_t)text, end = pass_segment_end(c->object, at, PROT_READ);

    for (size_t i = 0; i < TEXT_MAX && at + i < end; i++)
        if (!text[i])
            return 1;
    return 0;
}

static int is_text_or_null(const struct check *c, const char *text)
{
    return !text || is_text(c, text);
}

static int is_name(const struct check *c, const char *text)
{
    return is_text(c, text) && ini_is_name((struct ini_slice){text, rimf_strlen(text)});
}

static int holds_struct(const struct check *c, const void *at, size_t size)
{
    return (uintptr_t)at % 8 == 0 && pass_holds(c->object, (uintptr_t)at, size, PROT_READ);
}

/* A NULL-terminated list of strings, or NULL. */
static int is_list(const struct check *c, const char *const *list, int of_names)
{
    for (size_t i = 0; list && i < LIST_MAX; i++) {
        if (!holds_struct(c, &list[i], sizeof(*list)))
            return 0;
        if (!list[i])
            return 1;
        if (of_names ? !is_name(c, list[i]) : !is_text(c, list[i]))
            return 0;
    }
    return !list;
}

static int check_option(const struct check *c, const struct mvld_option *o)
{
    if (!is_text(c, o->name) || !o->name[0])
        return REFUSE(c, "the name of an option lies outside the pass, or is empty");
    if (!is_text_or_null(c, o->help) || !is_text_or_null(c, o->initial))
        return REFUSE(c, "a text of the option '%s' lies outside the pass", o->name);
    switch (o->type) {
    case MVLD_OPTION_INT:
        if (o->min > o->max)
            return REFUSE(c, "the option '%s' has a minimum above its maximum", o->name);
        return 0;
    case MVLD_OPTION_WORD:
        if (!o->words || !is_list(c, o->words, 0) || !o->words[0])
            return REFUSE(c, "the words of the option '%s' are missing, or lie outside the pass",
                          o->name);
        return 0;
    case MVLD_OPTION_BOOL:
    case MVLD_OPTION_STRING:
    case MVLD_OPTION_PREFIX:
    case MVLD_OPTION_FILE:
    case MVLD_OPTION_SYMBOL:
    case MVLD_OPTION_GONE:
        return 0;
    }
    return REFUSE(c, "the option '%s' has the unknown type %u", o->name, (unsigned)o->type);
}

static int check_options(const struct check *c, const struct mvld_option *options)
{
    if (!options)
        return 0;
    for (size_t i = 0;; i++) {
        if (i == OPTIONS_MAX || !holds_struct(c, &options[i], sizeof(options[i])))
            return REFUSE(c, "its list of options does not end (with .name = NULL) in the pass");
        if (!options[i].name)
            return 0;
        int error = check_option(c, &options[i]);
        if (error)
            return error;
        for (size_t j = 0; j < i; j++)
            if (rimf_streq(options[i].name, options[j].name))
                return REFUSE(c, "it declares the option '%s' twice", options[i].name);
    }
    return 0;
}

static int is_code(const struct check *c, uintptr_t function)
{
    return !function || pass_holds(c->object, function, 1, PROT_EXEC);
}

int pass_check(const struct pass_object *object, const char *name, uint64_t symbol_size,
               const struct why *why)
{
    const struct check check = {object, why}, *c = &check;
    const struct mvld_pass *p = object->pass;

    if (p->abi != MVLD_PASS_ABI)
        return REFUSE(c, "it was built for version %u of the pass interface, this mvld has %u",
                      p->abi, MVLD_PASS_ABI);
    if (symbol_size != sizeof *p || !pass_holds(object, (uintptr_t)p, sizeof *p, PROT_READ))
        return REFUSE(c, "its 'mvld_pass' has %lu bytes, %zu are needed", symbol_size, sizeof *p);
    if (!is_name(c, p->name))
        return REFUSE(c, "its name lies outside the pass, or is not of a-z, 0-9 and '-'");
    if (rimf_streq(p->name, "app"))
        return REFUSE(c, "no pass may be called 'app'");
    if (name && !rimf_streq(p->name, name))
        return REFUSE(c, "it calls itself '%s', but was looked for as '%s'", p->name, name);
    if (!is_text_or_null(c, p->help) || !is_text_or_null(c, p->library))
        return REFUSE(c, "its help or its library lies outside the pass");
    if (!is_list(c, p->behind, 1))
        return REFUSE(c, "a list of pass names in it is damaged, or lies outside the pass");
    if (!is_code(c, (uintptr_t)p->map) || !is_code(c, (uintptr_t)p->relocate) || !is_code(c, (uintptr_t)p->run) ||
        !is_code(c, (uintptr_t)p->removed) || !is_code(c, (uintptr_t)p->idle))
        return REFUSE(c, "one of its functions does not lie in its code");
    if ((p->map || p->relocate) && p->flags & MVLD_PASS_FREEZES)
        return REFUSE(c, "it works before relocation, which no snapshot can spare it (map, relocate, "
                         "MVLD_PASS_FREEZES)");
    return check_options(c, p->options);
}
