/* SPDX-License-Identifier: MIT
 *
 * describe.c: what is known of switches and functions, for people.
 */
#include <stdio.h>
#include <unistd.h>

#include "passes/multiverse/library/library.h"

/* Straight to the kernel: write(2) would be a place to be cancelled at, with the
 * engine's lock held. */
static void print_line(char *line, int n, size_t size)
{
    size_t length = n < (int)size ? (size_t)n : size - 1;

    line[length - 1] = '\n';
    sys_write(&rimf_sys_kernel, STDERR_FILENO, line, length);
}

static void print_switch(const struct mv_item *item)
{
    const struct multiverse_info_var *var = item->var;
    char line[600], value[24];
    int n;

    snprintf(value, sizeof value, var->is_signed ? "%ld" : "%lu", item->value);
    n = snprintf(line, sizeof line, "switch %s at %p: %u bytes, value %s, %zu functions%s\n", var->name,
                 var->location, var->width, value, var->n_functions, var->is_bound ? "" : ", unbound");
    print_line(line, n, sizeof line);
}

static void print_function(const struct multiverse_info_fn *fn)
{
    char line[600];
    int n;

    if (fn->is_constant)
        n = snprintf(line, sizeof line, "constant %s at %p: %zu reads, %s\n", fn->name, fn->function,
                     fn->n_callsites, fn->active ? "in the code" : "loaded");
    else
        n = snprintf(line, sizeof line, "function %s%s at %p: %zu variants, %zu call sites, %s %s\n", fn->name,
                     fn->is_pointer ? " (pointer)" : "", fn->function, fn->n_variants, fn->n_callsites,
                     fn->active ? "bound to" : "not bound",
                     fn->active_name ? fn->active_name : fn->active ? "a function" : "");
    print_line(line, n, sizeof line);
}

static void print_item(void *cookie, const struct mv_item *item)
{
    (void)cookie;
    if (item->var)
        print_switch(item);
    else
        print_function(item->fn);
}

void multiverse_dump_info(void)
{
    mv_each(print_item, NULL);
}
