/* SPDX-License-Identifier: MIT
 *
 * tests/rimf/image/process.h: the test's own process as sources of an image.
 */
#ifndef TESTS_RIMF_PROCESS_H
#define TESTS_RIMF_PROCESS_H

#include "../../check.h"
#include "rimf/base/base.h"
#include "rimf/image/image.h"
#include "rimf/image/private.h"

#include "invariants.h"

#include <link.h>
#include <sys/mman.h>
#include <sys/auxv.h>
#include <unistd.h>

#define PROCESS_MAX 4096

struct process {
    struct rimf_source sources[PROCESS_MAX];
    size_t n;
};

/* As the loader does it: the base namespace's link maps, program headers only of
 * the executable. */
static inline void process_read(struct process *process)
{
    uintptr_t vdso = getauxval(AT_SYSINFO_EHDR);
    static char program[4096];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);

    CHECK(length > 0);
    process->n = 0;
    for (struct link_map *map = _r_debug.r_map; map; map = map->l_next) {
        CHECK(process->n < PROCESS_MAX);
        process->sources[process->n] = (struct rimf_source){
            .name = process->n ? map->l_name : program,
            .bias = map->l_addr,
            .dynamic = map->l_ld,
            .link_map = map,
        };
        if (process->n == 0) {
            process->sources[0].flags = MVLD_OBJECT_MAIN;
            process->sources[0].phdr = (const void *)getauxval(AT_PHDR);
            process->sources[0].phnum = getauxval(AT_PHNUM);
        }
        if (vdso && map->l_addr == vdso)
            process->sources[process->n].flags = MVLD_OBJECT_VDSO;
        if (map->l_addr == getauxval(AT_BASE))
            process->sources[process->n].flags = MVLD_OBJECT_LOADER;
        process->n++;
    }
}

static const struct rimf_log process_log = {
    .sys = &rimf_sys_kernel, .fd = 2, .categories = MVLD_LOG_WARNING};

/* An image of the process, checked. */
static inline struct mvld_image *process_image(void)
{
    static struct process process;
    struct rimf_change change;
    struct mvld_image *image;

    process_read(&process);
    CHECK(rimf_image_create(&rimf_sys_kernel, &process_log, &image) == 0);
    CHECK(rimf_image_update(image, process.sources, process.n, &change) == 0);
    CHECK(change.n_added == process.n && change.n_removed == 0);
    CHECK(rimf_image_check(image) == 0, "(%s)", rimf_api()->last_error(image));
    return image;
}

/* The object whose path ends in `name`, which must be there. */
static inline const struct mvld_object *process_object(struct mvld_image *image, const char *name)
{
    for (size_t i = 0; i < rimf_api()->object_count(image); i++) {
        const struct mvld_object *object = rimf_api()->object_at(image, i);
        const char *base = strrchr(object->name, '/');

        if (strcmp(base ? base + 1 : object->name, name) == 0)
            return object;
    }
    CHECK(!"the object is in the image", "(%s)", name);
    return NULL;
}

#endif
