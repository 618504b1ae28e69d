/* SPDX-License-Identifier: MIT
 *
 * loader/start/rooms.h: the state of all rooms.  start.c has that of the process; tests make their own.
 */
#ifndef LOADER_ROOMS_H
#define LOADER_ROOMS_H

#include "loader/caller/hooks.h"
#include "loader/host/host.h"
#include "loader/place/place.h"
#include "loader/process/process.h"
#include "loader/start/start.h"
#include "loader/store/store.h"

struct rooms {
    struct block block;
    struct injection injection;
    struct knobs knobs;
    struct filtered filtered;
    struct cpu_answers cpuid;
    struct caches caches;
    struct arena arena;
    struct files files;
    struct host host;
    struct caller_hooks caller;
    struct found_snapshot snapshot;
    struct later_objects later;
    struct maps maps;
    struct main_object main;
    struct init_hook init;
    struct mapstage mapstage;
    struct relocatestage relocatestage;
    uint64_t at[STAGES];
    /* Most programs need no more than the first memory, and only pages in use are touched: a program without
     * a pipeline uses only the page in which this struct begins.  The whole struct counts under RLIMIT_DATA, so
     * what only programs with a pipeline need is allocated separately. */
    _Alignas(16) char first_memory[10752]; /* of the heap */
    _Alignas(16) char plan_memory[PLAN_MEMORY];
};

/* Makes the loader point to these. */
void rooms_set(struct loader *, struct rooms *);

#endif
