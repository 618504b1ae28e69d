/* SPDX-License-Identifier: MIT
 *
 * attach/library.c: opens a library in the process, as if the program had done so where its thread
 * waits.
 */
#include "tools/attach/attach.h"
#include "tools/common/tools.h"

#include <stdlib.h>
#include <string.h>

/* A function of dlopen's family, in libc or, before glibc 2.34, in libdl. */
static uint64_t function_of(struct attach *a, const char *name)
{
    static const char *const libraries[] = {"libc.so", "libdl.so", "libc.musl-x86_64.so", "ld-musl-x86_64.so"};
    uint64_t found = 0;

    for (size_t i = 0; !found && i < sizeof libraries / sizeof *libraries; i++) {
        const struct attach_object *object = attach_named(a, libraries[i]);

        found = object ? attach_function(a, object, name) : 0;
    }
    if (!found)
        attach_fail(a, "process %d has no %s(3), by which a library could come", a->pid, name);
    return found;
}

/* Adds dlerror(3), which names the file or symbol. */
static int explain(struct attach *a)
{
    uint64_t function = function_of(a, "dlerror"), at = 0;
    char *text = NULL;

    if (!function || attach_call(a, function, NULL, 0, &at))
        return -1;
    text = attach_string(a, at);
    attach_fail(a, "process %d: %s", a->pid, *text ? text : "its host loader refuses, and does not say why");
    free(text);
    return -1;
}

/* The thread's errno is restored. */
static int call_dl(struct attach *a, const char *name, uint64_t first, uint64_t second, uint64_t *result)
{
    const struct attach_object *libc = attach_named(a, "libc.so");
    uint64_t function = function_of(a, name), errno_of = libc ? attach_function(a, libc, "__errno_location") : 0;
    uint64_t where = 0;
    int number = 0;

    if (!function || (errno_of && (attach_call(a, errno_of, NULL, 0, &where) ||
                                   attach_read(a, where, &number, sizeof number))))
        return -1;
    return attach_call(a, function, (uint64_t[]){first, second}, 2, result) ||
                   (errno_of && attach_write(a, where, &number, sizeof number))
               ? -1
               : 0;
}

int attach_open_library(struct attach *a, const char *path, int mode, uint64_t *handle)
{
    uint64_t name = attach_put(a, path, strlen(path) + 1);

    if (!name || call_dl(a, "dlopen", name, (uint64_t)mode, handle))
        return -1;
    return *handle ? 0 : explain(a);
}

int attach_close_library(struct attach *a, uint64_t handle)
{
    uint64_t result;

    return call_dl(a, "dlclose", handle, 0, &result);
}

int attach_symbol(struct attach *a, uint64_t handle, const char *name, uint64_t *address)
{
    uint64_t text = attach_put(a, name, strlen(name) + 1);

    *address = 0;
    if (!text || call_dl(a, "dlsym", handle, text, address))
        return -1;
    return *address ? 0 : explain(a);
}
