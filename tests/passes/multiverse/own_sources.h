/* SPDX-License-Identifier: MIT
 *
 * tests/passes/multiverse/own_sources.h: the test's own process as sources of an image, as the dynamic
 * linker lists it.
 */
#ifndef TESTS_PASSES_OWN_SOURCES_H
#define TESTS_PASSES_OWN_SOURCES_H

#include <link.h>

#include "../../check.h"

#include "rimf/image/image.h"

struct own_sources {
    struct rimf_source at[64];
    size_t n;
};

static inline int own_source(struct dl_phdr_info *info, size_t size, void *cookie)
{
    struct own_sources *sources = cookie;

    (void)size;
    CHECK(sources->n < sizeof sources->at / sizeof *sources->at);
    sources->at[sources->n++] = (struct rimf_source){
        .name = *info->dlpi_name ? info->dlpi_name : "the test",
        .bias = info->dlpi_addr,
        .phdr = info->dlpi_phdr,
        .phnum = info->dlpi_phnum,
        .flags = *info->dlpi_name ? 0 : MVLD_OBJECT_MAIN,
    };
    return 0;
}

static inline void own_sources_read(struct own_sources *sources)
{
    sources->n = 0;
    dl_iterate_phdr(own_source, sources);
}

#endif
