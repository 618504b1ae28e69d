/* SPDX-License-Identifier: MIT
 *
 * loader/manager/private.h: the plan; for the files of this folder.
 */
#ifndef LOADER_PIPELINE_PRIVATE_H
#define LOADER_PIPELINE_PRIVATE_H

#include "loader/config/config.h"
#include "loader/manager/pipeline.h"
#include "rimf/base/log.h"
#include "loader/manager/pass_map.h"
#include "rimf/patch/crash.h"

enum pass_status {
    PASS_PLANNED,
    PASS_RAN,
    PASS_FAILED,  /* its run returned an error */
    PASS_SKIPPED, /* its run was not called */
    PASS_IDLE     /* it has nothing to do with its options */
};

struct planned_pass {
    const char *name;
    size_t said; /* its index in the configuration; the array is in the order in which they run */
    const struct mvld_pass *pass; /* object.pass; NULL: not mapped yet (manager/snapshot.c) */
    struct pass_object object;
    char *path;
    struct file_id identity; /* identity of the file there */
    uint32_t flags;                   /* MVLD_PASS_*, MANIFEST_IDLE */
    const char *library; /* found, absolute; or NULL */
    struct mvld_setting *settings;
    size_t n_settings;
    uint64_t matched; /* one bit for each setting: setting_symbol found something */
    struct mvld_context context;
    void *state;
    enum pass_status status;
    const char *idle;     /* why it is idle, while it is mapped */
    uint64_t nanoseconds; /* of run */
};

struct pipeline {
    const struct rimf_sys *sys;
    struct rimf_log log;
    struct rimf_heap heap; /* all memory of the plan, with this struct */
    struct config config;
    const struct config_entry *order; /* app.passes */
    char *program;                    /* the program; "" if unknown */
    struct planned_pass *passes;
    size_t n;
    const char *pass_path; /* MVLD_PASS_PATH, or NULL */
    int secure, musl;
    enum { MAPPED, LOOKED_AT, KNOWN } late; /* LOOKED_AT: paths and files are known; KNOWN: also a
                                             * snapshot's facts about the passes */
    const struct rimf_sys *watching; /* for crashes of passes; NULL: not watched */
    struct rimf_crash crash;        /* being watched, */
    const struct mvld_image *image; /* while passes with this image are called; or NULL */
    void (*say)(void *cookie, const char *why);
    void *cookie;
    uint64_t emission; /* nanoseconds, of making what passes want */
    int unemitted; /* a pass has run, and what it wants was not emitted since */
};

/* Whether its stage `relocate` will run, or has run. */
int pipeline_changes_symbols(const struct planned_pass *);

/* Moves passes behind those that they run behind.  0, or -EINVAL and a sentence that names two. */
int pipeline_order(struct pipeline *, const struct why *);

/* manager/find.c: finds path and file of the pass `name`. */
int pipeline_find_pass(struct pipeline *, const char *name, struct planned_pass *out,
                       const struct why *);
/* Finds the library of a mapped pass. */
int pipeline_find_library(struct pipeline *, struct planned_pass *, const struct why *);

/* Maps the pass that was found; while a snapshot replaces it, only the same file.  0, or negative errno. */
int pipeline_map_pass(struct pipeline *, struct planned_pass *it, const struct why *);
/* Whether the file exists and is readable. */
int pipeline_is_there(const struct pipeline *, const char *path);

/* manager/snapshot.c: maps the passes that a snapshot has replaced so far: 0, or -ECANCELED, and it is in the log. */
int pipeline_map_late(struct pipeline *);

#endif
