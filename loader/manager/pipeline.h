/* SPDX-License-Identifier: MIT
 *
 * loader/manager/pipeline.h: from configuration to running passes.
 *
 * Stage 0 plans before the host loader starts (which passes, which libraries go
 * into the global scope, where objects are placed) and runs the plan at the
 * hook.  A wrong configuration or pipeline yields an error and no plan: the
 * program then runs untransformed.
 */
#ifndef LOADER_PIPELINE_H
#define LOADER_PIPELINE_H

#include "loader/config/query.h"
#include "rimf/store/store.h"
#include "rimf/image/image.h"

#include <elf.h> /* numbers and layouts */

struct pipeline; /* opaque */

/* Reads the configuration and maps the passes that it asks for.  0 with *out
 * NULL when nothing is configured for this program: that is the cheap, common
 * case.  Likewise, with `runs`, when no pass has anything to do.  Negative errno when
 * the configuration or the pipeline is wrong: the sentence (file, line, names) went to
 * the log as a warning and to `why`.  -EIO and -ENOMEM: nothing that somebody wrote is
 * wrong, but a system call failed. */
int pipeline_plan(const struct pipeline_query *, struct pipeline **out, char *why,
                  size_t why_size);

/* manager/late.c: with `late`, passes may not be mapped yet.  Then either a snapshot of all of
 * them, by their fingerprint, is made known: 1 when it is one; its strings are copied. */
int pipeline_is_late(const struct pipeline *);
int pipeline_know(struct pipeline *, const struct manifest *);
/* Or they are mapped now.  0, or as pipeline_plan, and the plan is empty; which it is, too, when
 * no pass has anything to do. */
int pipeline_complete(struct pipeline *, char *why, size_t why_size);

/* The i-th shared object to put into the global scope (absolute path), or NULL. */
const char *pipeline_library(const struct pipeline *, size_t i);
/* 1: this one is among them. */
int pipeline_brings(const struct pipeline *, const char *library);
/* It takes much address space (MVLD_PASS_MOVES). */
int pipeline_library_is_spacious(const struct pipeline *, size_t i);
/* A key of the [app] section that is stage 0's own ("placement", "patch"), or NULL. */
const char *pipeline_setting(const struct pipeline *, const char *key);

/* 1: an element of [app] slot-writers begins this name of a file. */
int pipeline_names_writer(const struct pipeline *, const char *file);

/* A pass looks at files before they are mapped (`map` of mvld/pass.h). */
int pipeline_wants_files(const struct pipeline *);
/* Each such pass is asked.  0, or the first's negative errno, with a sentence. */
int pipeline_map_file(struct pipeline *, struct mvld_image *, const struct mvld_file *);

/* The same of the stage `relocate`: symbols.  A pass that fails has changed none. */
int pipeline_wants_symbols(const struct pipeline *);
void pipeline_relocate(struct pipeline *, struct mvld_image *,
                       const struct mvld_object *const *objects, size_t n, int later);

/* The MVLD_PASS_* flags of all passes, or-ed. */
uint32_t pipeline_flags(const struct pipeline *);
/* Snapshots: how many of the first passes one may hold, what tells their plan from
 * another, and that they need not run, because it was applied or for a reason. */
size_t pipeline_in_snapshot(const struct pipeline *);
uint64_t pipeline_fingerprint(const struct pipeline *, size_t n);
void pipeline_applied(struct pipeline *, struct mvld_image *, size_t n);
void pipeline_leave(struct pipeline *, size_t n, const char *why);
/* 1 when a pass of that name is in the struct pipeline, and has something to do. */
int pipeline_has(const void *pipeline, const char *pass);
size_t pipeline_count(const struct pipeline *);
/* What a snapshot is to say of the first n, for whoever starts from it; before they run and read files. */
void pipeline_makers(const struct pipeline *, size_t n, struct rimf_start *);
/* The plan as INI text, a line a call (without its newline): which file and line
 * matched and why, each pass with its options.  It can be read back. */
void pipeline_print(const struct pipeline *, void (*line)(void *cookie, const char *text),
                    void *cookie);
/* Unmaps the passes and gives back the plan; only when none of them ran. */
void pipeline_free(struct pipeline *);

/* Whom to tell, without MVLD_DEBUG, that a pass crashed in one of the functions below or in pipeline_map_file or
 * _relocate: once, from a signal handler, after which the signal ends the process.  What has a handler of the
 * program's is not told; nor is anything while threads run.  `sys` makes the calls that this takes; passes stay with
 * that of the plan. */
void pipeline_on_crash(struct pipeline *, const struct rimf_sys *sys, void (*say)(void *cookie, const char *why),
                       void *cookie);

/* At RT_CONSISTENT, and (added, removed) for each dlopen and dlclose later.  Of the passes
 * before `end` those that nobody has treated yet; with SIZE_MAX all, and then says how long
 * they took.  0; -ECANCELED when a pass failed or was skipped, -EUCLEAN when the image is
 * broken: both are in the log, and the program goes on. */
int pipeline_run(struct pipeline *, struct mvld_image *, size_t end);
/* For those of its passes from first on, before end. */
void pipeline_added(struct pipeline *, struct mvld_image *, const struct mvld_object *const *objects, size_t n,
                    size_t first, size_t end);
/* Always called behind both: what passes declared, and a pass that moves code left, is made as rimf_realise_rest
 * does. */
void pipeline_rest(struct pipeline *, struct mvld_image *);
/* Of the image of that stage. */
void pipeline_removed(struct pipeline *, struct mvld_image *, enum rimf_stage,
                      const struct mvld_object *const *objects, size_t n);

#endif
