/* SPDX-License-Identifier: MIT
 *
 * loader/pipeline_private.h: a plan; for pipeline*.c.
 */
#ifndef LOADER_PIPELINE_PRIVATE_H
#define LOADER_PIPELINE_PRIVATE_H

#include "config.h"
#include "log.h"
#include "pass_map.h"

enum pass_status {
    PASS_PLANNED,
    PASS_RAN,
    PASS_FAILED, /* its run returned an error */
    PASS_SKIPPED /* its run was not called */
};

struct planned_pass {
    const struct mvld_pass *pass; /* object.pass */
    struct pass_object object;
    char *path;
    const char *library; /* found, absolute; or NULL */
    struct mvld_setting *settings;
    size_t n_settings;
    struct mvld_context context;
    void *state;
    enum pass_status status;
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
    int secure, musl;
    int broken; /* the image is, as far as it was checked */
};

/* pipeline_order.c: do the declarations of all passes agree?  0, or -EINVAL and a
 * sentence that names both. */
int pipeline_check_order(const struct pipeline *, const struct why *);

/* pipeline_find.c: opens and maps the pass `name`, and looks for its library. */
int pipeline_find_pass(struct pipeline *, const char *name, const char *pass_path,
                       struct planned_pass *out, const struct why *);

/* pipeline_run.c */
void pipeline_set_context(struct pipeline *, struct planned_pass *, struct mvld_image *);

#endif
