/* SPDX-License-Identifier: MIT
 *
 * loader/manager/pipeline.h: plans and runs the passes of a program.
 *
 * Stage 0 plans before the host loader starts (which passes, which libraries in the global scope, addresses
 * of objects) and runs the plan at the hook.  A wrong configuration or pipeline gives an error and no plan:
 * the program then runs untransformed.
 */
#ifndef LOADER_PIPELINE_H
#define LOADER_PIPELINE_H

#include "loader/config/config.h"
#include "rimf/store/store.h"
#include "rimf/image/image.h"

#include <elf.h> /* numbers and layouts */

struct pipeline; /* opaque */

/* Reads the configuration and maps the passes that it names.  Returns 0 with *out NULL if nothing is
 * configured for this program, which is the cheap and common case; also, with `runs`, if no pass has
 * anything to do.  Negative errno if the configuration or the pipeline is wrong: the sentence (file, line,
 * names) is in the log as a warning and in `why`.  -EIO and -ENOMEM: the configuration is right, but a
 * system call failed. */
int pipeline_plan(const struct pipeline_query *, struct pipeline **out, char *why,
                  size_t why_size);

/* manager/snapshot.c: with `late`, passes may not be mapped yet.  Then either pipeline_know gets a snapshot of
 * all of them, with their fingerprint, and returns 1 if it is one; its strings are copied. */
int pipeline_is_late(const struct pipeline *);
int pipeline_know(struct pipeline *, const struct manifest *);
/* Or they are mapped now.  Returns 0, or an error as pipeline_plan, and then the plan is empty; it is also
 * empty if no pass has anything to do. */
int pipeline_complete(struct pipeline *, char *why, size_t why_size);

/* The i-th shared object for the global scope (absolute path), or NULL. */
const char *pipeline_library(const struct pipeline *, size_t i);
/* Returns 1 if this is one of them. */
int pipeline_brings(const struct pipeline *, const char *library);
/* Whether it takes much address space: that of a pass with MVLD_PASS_MOVES, and libconcat.so.1. */
int pipeline_library_is_spacious(const struct pipeline *, size_t i);
/* A key of the [app] section that is stage 0's own ("placement", "patch"), or NULL. */
const char *pipeline_setting(const struct pipeline *, const char *key);

/* Returns 1 if an element of [app] slot-writers is a prefix of this file name. */
int pipeline_names_writer(const struct pipeline *, const char *file);

/* Whether a pass has the stage `map`. */
int pipeline_wants_files(const struct pipeline *);
/* Calls each such pass.  0, or the first's negative errno, with a sentence. */
int pipeline_map_file(struct pipeline *, struct mvld_image *, const struct mvld_file *);

/* The same for the stage `relocate`: symbols.  A pass that fails has changed none. */
int pipeline_wants_symbols(const struct pipeline *);
void pipeline_relocate(struct pipeline *, struct mvld_image *,
                       const struct mvld_object *const *objects, size_t n, int later);

/* The MVLD_PASS_* flags of all passes, or-ed. */
uint32_t pipeline_flags(const struct pipeline *);
/* Returns 1 if a pass of the struct pipeline has the flag and is not idle. */
int pipeline_has(const void *pipeline, uint32_t flag);
/* Snapshots: the number of first passes whose work one may hold; the fingerprint of their plan; and that
 * they need not run, because it was applied or for a reason. */
size_t pipeline_in_snapshot(const struct pipeline *);
uint64_t pipeline_fingerprint(const struct pipeline *, size_t n);
void pipeline_applied(struct pipeline *, struct mvld_image *, size_t n);
void pipeline_leave(struct pipeline *, size_t n, const char *why);
size_t pipeline_count(const struct pipeline *);
/* What a snapshot records of the first n passes, for starts from it; called before they run and read files. */
void pipeline_makers(const struct pipeline *, size_t n, struct rimf_start *);
/* Prints the plan as INI text, one line for each call (without its newline): which file and line matched
 * and why, each pass with its options.  It can be parsed again. */
void pipeline_print(struct pipeline *, void (*line)(void *cookie, const char *text),
                    void *cookie);
/* Unmaps the passes and frees the plan; only if none of them ran. */
void pipeline_free(struct pipeline *);

/* Registers a function that is called, without MVLD_DEBUG, if a pass crashes in one of the functions below
 * or in pipeline_map_file or _relocate: once, from a signal handler, after which the signal ends the
 * process.  Signals that the program handles are not reported, nor anything while threads run.  `sys` makes
 * the calls that this takes; passes use the plan's. */
void pipeline_on_crash(struct pipeline *, const struct rimf_sys *sys, void (*say)(void *cookie, const char *why),
                       void *cookie);

/* At RT_CONSISTENT, and (added, removed) for each dlopen and dlclose later.  Of the passes
 * before `end` those that nobody has treated yet; with SIZE_MAX all, and then says how long
 * they took.  0; -ECANCELED when a pass failed, which is in the log. */
int pipeline_run(struct pipeline *, struct mvld_image *, size_t end);
/* Runs the passes from `first` on, before `end`, for these objects. */
void pipeline_added(struct pipeline *, struct mvld_image *, const struct mvld_object *const *objects, size_t n,
                    size_t first, size_t end);
/* Both make the passes' edits after the last one has run; this function makes them earlier.  0; -ECANCELED:
 * those of a pass could not be made, which is in the log. */
int pipeline_emit(struct pipeline *, struct mvld_image *);
/* Always called after both: constructors will run (rimf_image_finish of rimf/moved/moved.h). */
void pipeline_rest(struct pipeline *, struct mvld_image *);
/* For the image of that stage. */
void pipeline_removed(struct pipeline *, struct mvld_image *, enum rimf_stage,
                      const struct mvld_object *const *objects, size_t n);

#endif
