/* SPDX-License-Identifier: MIT
 *
 * loader/loader.h: the state that the parts of stage 0 share.
 *
 * There is one `struct loader` a process.  Every function gets it as a parameter; only the assembly entries
 * (entry.S of a room) know its address, because the host loader calls them without a parameter for us.
 *
 * Each folder has a header with its interface; this header has their parts of the state.
 */
#ifndef LOADER_LOADER_H
#define LOADER_LOADER_H

#include "loader/caller/hooks.h"
#include "loader/host/host.h"
#include "loader/manager/refused.h"
#include "loader/place/place.h"
#include "loader/process/block.h"
#include "loader/process/process.h"
#include "loader/start/start.h"
#include "loader/store/store.h"
#include "mvld/pass.h"
#include "rimf/base/alloc.h"
#include "rimf/base/base.h"
#include "rimf/base/log.h"
#include "rimf/base/sys.h"

struct pipeline;
struct mvld_image;

enum { STAGE_START, STAGE_PLANNED, STAGE_MAPPED, STAGE_PATCHED, STAGE_HOOK, STAGE_RUN, STAGES };

struct loader {
    /* start/entry.S and host/entry.S jump back through these, so they stay first. */
    uintptr_t mmap_return[MMAP_SITES];
    uintptr_t cpuid_return[CPUID_SITES];

    const struct rimf_sys *sys;
    struct filtered filtered; /* `sys` once there is a pipeline */
    struct rimf_log log;
    struct block block;
    struct knobs knobs;
    int direct; /* run as a program, not as an interpreter */
    struct host host;
    struct rimf_heap heap;

    struct pipeline *pipeline;
    struct mvld_image *image;
    char *program; /* real path, or NULL */
    const char *interpreter; /* the program's PT_INTERP; NULL when run directly, or not known */

    struct arena arena;
    struct files files;
    struct found_snapshot snapshot;
    struct cpu_answers cpuid;
    struct injection injection;
    uint64_t space; /* RLIMIT_AS, at the start; 0: not asked */

    int hooked;
    struct r_debug *debug;        /* the host loader's, of the base namespace */
    struct r_debug **debug_musl;  /* where musl keeps its address */
    int started;
    struct maps maps;
    struct main_object main;
    struct init_hook init;
    struct caller_hooks caller;
    struct caches caches;
    struct later_objects later;
    struct mapstage mapstage;
    struct relocatestage relocatestage;
    uintptr_t vdso_bias;

    uint64_t at[STAGES]; /* nanoseconds, under MVLD_DEBUG=statistics */

    char refusal[512]; /* why there is no pipeline, or no snapshot */
    /* Most programs need no more than the first memory, and only pages in use are touched: a program
     * without a pipeline uses the first page of this struct only.  The whole struct counts under
     * RLIMIT_DATA, so what only programs with a pipeline need is allocated separately. */
    _Alignas(16) char first_memory[10752]; /* of `heap` */
    _Alignas(16) char plan_memory[6144];
};

extern struct loader loader_state RIMF_HIDDEN;

#endif
