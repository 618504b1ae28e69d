/* SPDX-License-Identifier: MIT
 *
 * describe.c: describes a switch or a function in one line for people.
 */
#include "passes/multiverse/engine/engine.h"

static void describe_switch(const struct mv_item *item, char *text, size_t size)
{
    const struct multiverse_info_var *var = item->var;
    char value[24];

    if (var->is_signed)
        rimf_format(value, sizeof value, "%ld", (long)item->value);
    else
        rimf_format(value, sizeof value, "%lu", (unsigned long)item->value);
    rimf_format(text, size, "switch %s at %p: %u bytes, value %s, %zu functions%s", var->name, var->location,
                var->width, value, var->n_functions, var->is_bound ? "" : ", unbound");
}

static void describe_function(const struct multiverse_info_fn *fn, char *text, size_t size)
{
    if (fn->is_constant)
        rimf_format(text, size, "constant %s at %p: %zu reads, %s", fn->name, fn->function, fn->n_callsites,
                    fn->active ? "in the code" : "loaded");
    else
        rimf_format(text, size, "function %s%s at %p: %zu variants, %zu call sites, %s %s", fn->name,
                    fn->is_pointer ? " (pointer)" : "", fn->function, fn->n_variants, fn->n_callsites,
                    fn->active ? "bound to" : "not bound",
                    fn->active_name ? fn->active_name : fn->active ? "a function" : "");
}

void mv_describe(const struct mv_item *item, char *text, size_t size)
{
    if (item->var)
        describe_switch(item, text, size);
    else
        describe_function(item->fn, text, size);
}
