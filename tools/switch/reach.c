/* SPDX-License-Identifier: MIT
 *
 * reach.c: see reach.h.  If a program that was built with the plugin has no library, it gets one by
 * dlopen.
 */
#include "tools/switch/reach.h"
#include "tools/common/paths.h"
#include "tools/common/tools.h"

#include "mvld/descriptor.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define REST_MS 3000

/* Whether some object has switches, and which one contains the library. */
static int look_through(struct reach *r)
{
    int found = 0;

    for (size_t i = 0; i < r->attach->n_objects; i++) {
        const struct attach_object *object = &r->attach->objects[i];

        found |= attach_has_note(r->attach, object, MULTIVERSE_NOTE_NAME, MULTIVERSE_NOTE_TABLES);
        if (!r->function && attach_has_note(r->attach, object, MULTIVERSE_NOTE_NAME, MULTIVERSE_NOTE_LIBRARY))
            r->function = attach_function(r->attach, object, "multiverse_request");
    }
    return found;
}

int reach_open(struct reach *r, pid_t pid)
{
    const struct attach_object *library;

    *r = (struct reach){.attach = attach_open(pid)};
    if (r->attach->why[0] || attach_list(r->attach))
        return -1;
    library = attach_named(r->attach, "libmultiverse.so");
    if (library) {
        r->function = attach_function(r->attach, library, "multiverse_request");
        return r->function ? 0 : attach_fail(r->attach, "process %d: %s is of an older mvld, and knows no requests",
                                             pid, library->name);
    }
    if (!look_through(r))
        return attach_fail(r->attach, "process %d has no switches: no object of it was built with multiverse's plugin",
                           pid);
    return 0;
}

/* Opens the library as if the program had called dlopen where the thread waits.  The thread's errno
 * is restored, and it goes on. */
static int bring_library(struct reach *r)
{
    struct attach *a = r->attach;
    const struct attach_object *object;
    uint64_t handle;

    if (attach_open_library(a, path_library(), RTLD_NOW | RTLD_GLOBAL, &handle) || attach_give_back(a))
        return -1;
    for (size_t i = 0; i < a->n_objects; i++)
        free(a->objects[i].name);
    a->n_objects = 0;
    if (attach_list(a))
        return -1;
    object = attach_named(a, "libmultiverse.so");
    r->function = object ? attach_function(a, object, "multiverse_request") : 0;
    return r->function ? 0 : attach_fail(a, "process %d: %s knows no requests", a->pid, path_library());
}

int reach_begin(struct reach *r)
{
    return !r->function && (attach_begin(r->attach, REST_MS) || bring_library(r)) ? -1 : 0;
}

char *reach_ask(struct reach *r, const char *request)
{
    struct attach *a = r->attach;
    uint64_t question, answer, result;
    size_t size, used = 0, n;
    char *text = NULL;

    if (attach_begin(a, REST_MS))
        return NULL;
    question = attach_put(a, request, strlen(request) + 1);
    answer = attach_room(a, &size);
    if (!question || attach_call(a, r->function, (uint64_t[]){question, answer, size}, 3, &result) || attach_give_back(a))
        return NULL;
    do { /* up to the NUL, page by page: the memory behind it may not be mapped */
        n = 4096 - (answer + used) % 4096;
        text = must_grow(text, used + n + 1, 1);
        if (attach_read(a, answer + used, text + used, n))
            break;
        used += n;
        text[used] = 0;
    } while (strlen(text) == used && used < size);
    text[used] = 0;
    if (!(int)result)
        return text;
    attach_fail(a, "process %d: %s", a->pid, *text && (int)result != -ENOSPC ? text : strerror(-(int)result));
    free(text);
    return NULL;
}

void reach_close(struct reach *r)
{
    attach_close(r->attach);
}
