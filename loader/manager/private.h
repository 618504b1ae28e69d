/* SPDX-License-Identifier: MIT
 *
 * loader/manager/private.h: a plan; for pipeline*.c.
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
    PASS_IDLE     /* it has nothing to do, as it is configured: as if it were not there */
};

struct planned_pass {
    const char *name;
    size_t said; /* its place in the configuration; they stand in the order in which they run */
    const struct mvld_pass *pass; /* object.pass; NULL: not mapped yet (manager/late.c) */
    struct pass_object object;
    char *path;
    struct file_id identity; /* of the file there */
    uint32_t flags;                   /* MVLD_PASS_*, MANIFEST_IDLE */
    const char *library; /* found, absolute; or NULL */
    struct mvld_setting *settings;
    size_t n_settings;
    uint64_t matched; /* of these, a bit each: setting_symbol found something */
    struct mvld_context context;
    void *state;
    enum pass_status status;
    const char *idle;     /* why it has nothing to do, as long as it is mapped */
    uint64_t nanoseconds; /* of run */
};

struct pipeline {
    const struct rimf_sys *sys;
    struct rimf_log log;
    struct arena arena; /* everything here, this struct too */
    struct config config;
    const struct config_entry *order; /* app.passes */
    char *program;                    /* what was planned for; "" when unknown */
    struct planned_pass *passes;
    size_t n;
    const char *pass_path; /* MVLD_PASS_PATH, or NULL */
    int secure, musl;
    enum { MAPPED, LOOKED_AT, KNOWN } late; /* LOOKED_AT: paths and files are known; KNOWN: and
                                             * what a snapshot says of the passes */
    const struct rimf_sys *watching; /* for crashes of passes; NULL: nobody is told */
    struct rimf_crash crash;        /* is watched for, */
    const struct mvld_image *image; /* in passes that are called with this one; or NULL */
    void (*say)(void *cookie, const char *why);
    void *cookie;
    uint64_t emission; /* nanoseconds, of making what passes want */
    int checked, broken; /* the image was, and is, as far as that */
    int unemitted; /* a pass has run, and what it wants was not emitted since */
};

/* Its stage `relocate` is to be run, or was. */
int pipeline_changes_symbols(const struct planned_pass *);

/* manager/order.c: moves passes behind those that they run behind.  Do the declarations of all
 * agree?  0, or -EINVAL and a sentence that names both. */
int pipeline_order(struct pipeline *, const struct why *);

/* manager/find.c: opens and maps the pass `name`. */
int pipeline_find_pass(struct pipeline *, const char *name, struct planned_pass *out,
                       const struct why *);
/* Looks for the library of a pass that is mapped. */
int pipeline_find_library(struct pipeline *, struct planned_pass *, const struct why *);

/* Maps the pass in the file `it->path`, which is to call itself `it->name`.  1; 0: there is no
 * such file; or negative errno. */
int pipeline_map_pass(struct pipeline *, struct planned_pass *it, const struct why *);
/* Whether there is a file that can be read. */
int pipeline_is_there(const struct pipeline *, const char *path);
/* Path and file of the pass `name`, where nothing is strange about them: 1, else 0. */
int pipeline_look_for(struct pipeline *, const char *name, struct planned_pass *out);

/* manager/late.c: 1 when all passes were looked at instead of mapped. */
int pipeline_look(struct pipeline *, const struct pipeline_query *);
/* Maps those that a snapshot spared until now: 0, or -ECANCELED and it is in the log. */
int pipeline_map_late(struct pipeline *);

#endif
