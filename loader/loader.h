/* SPDX-License-Identifier: MIT
 *
 * loader/loader.h: the state that the parts of stage 0 share.
 *
 * There is one `struct loader` a process.  Every function gets it as a parameter; only the assembly entries
 * (entry.S of a room) know its address, because the host loader calls them without a parameter for us.
 *
 * Each folder has a header with its interface and its part of the state, to which this struct points
 * (start/rooms.h).
 */
#ifndef LOADER_LOADER_H
#define LOADER_LOADER_H

#include "mvld/pass.h"
#include "rimf/base/alloc.h"
#include "rimf/base/base.h"
#include "rimf/base/log.h"
#include "rimf/base/sys.h"

struct mvld_image;
struct pipeline;
struct r_debug;

#define MMAP_SITES 4
#define CPUID_SITES 64 /* a host loader with more is not changed */

struct loader {
    /* start/entry.S and host/entry.S jump back through these, so they stay first. */
    uintptr_t mmap_return[MMAP_SITES];
    uintptr_t cpuid_return[CPUID_SITES];

    const struct rimf_sys *sys; /* of `filtered` once there is a pipeline */
    struct rimf_log log;
    struct rimf_heap heap;

    struct pipeline *pipeline;
    struct mvld_image *image;
    char *program; /* real path, or NULL */
    const char *interpreter; /* the program's PT_INTERP; NULL when run directly, or not known */
    struct r_debug *debug;        /* the host loader's, of the base namespace */
    struct r_debug **debug_musl;  /* where musl keeps its address */
    uintptr_t vdso_bias;
    uint64_t space; /* RLIMIT_AS, at the start; 0: not asked */
    int direct;     /* run as a program, not as an interpreter */
    int hooked;
    int started;
    int within; /* an event of a dlopen or dlclose */

    /* loader/process */
    struct block *block;
    struct injection *injection;
    struct knobs *knobs;
    struct filtered *filtered;
    struct cpu_answers *cpuid;
    struct caches *caches;
    /* loader/place */
    struct arena *arena;
    struct files *files;
    /* loader/host, loader/caller */
    struct host *host;
    struct caller_hooks *caller;
    /* loader/store */
    struct found_snapshot *snapshot;
    struct later_objects *later;
    /* loader/start */
    struct maps *maps;
    struct main_object *main;
    struct init_hook *init;
    struct mapstage *mapstage;
    struct relocatestage *relocatestage;
    uint64_t *at; /* nanoseconds of each stage, under MVLD_DEBUG=statistics */
    char *plan_memory;

    char refusal[512]; /* why there is no pipeline, or no snapshot */
};

extern struct loader loader_state RIMF_HIDDEN;

#endif
