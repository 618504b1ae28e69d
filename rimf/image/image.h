/* SPDX-License-Identifier: MIT
 *
 * rimf/image/image.h: the image (RiMF), the one description of all objects in the
 * process.
 *
 * The loader (or libmultiverse under a plain ld.so) feeds it with sources; it
 * reads program headers, notes and symbol tables from memory, checks every
 * bound, and answers passes through `struct mvld_api`.  An object whose headers
 * cannot be read safely is kept as opaque, with the reason.
 *
 * Tables: domains (image/domains.c), objects (image.c, image/table.c), sections
 * (image/sections.c), symbols (image/symbols.c: answered from the objects' own
 * tables, nothing is copied), PLT entries (image/plt.c), GOT slots (image/slots.c), references
 * (image/reference_tables.c: from the objects' analyses and relocations).  Code of the process is
 * changed by batches of patches (image/patches.c, patch/patch.h), the image's commit, and may
 * be given a second place (moved/region.c, moved/moved.h).
 *
 * Which objects the global scope holds, the public link map does not tell.  The
 * image takes it for: those of the first update, in order, the vDSO excepted.
 * Objects that came later are looked at after them.
 */
#ifndef RIMF_IMAGE_H
#define RIMF_IMAGE_H

#include "mvld/pass.h"
#include "rimf/analysis/analysis.h"
#include "rimf/elf/source.h"

struct rimf_sys;
struct rimf_log;

/* The image lives in its own pages; `log` must outlive it.  0, -ENOMEM. */
int rimf_image_create(const struct rimf_sys *, const struct rimf_log *, struct mvld_image **out);
void rimf_image_destroy(struct mvld_image *);

/* Makes the image's objects those of `sources`, in that order.  Objects are the
 * same when link_map, bias and dynamic are the same; a source that repeats
 * another is left out.  The batch of new ones and
 * of gone ones is returned in arrays that stay valid until the next call; a
 * gone object's description (not its memory) stays readable until then.
 * 0; -ENOMEM, or -EDEADLK from a signal handler that
 * interrupted an update (nothing changed). */
struct rimf_change {
    const struct mvld_object *const *added;
    size_t n_added;
    const struct mvld_object *const *removed;
    size_t n_removed;
};
int rimf_image_update(struct mvld_image *, const struct rimf_source *sources, size_t n,
                      struct rimf_change *out);

/* All of them, in that order, until the next update. */
const struct mvld_object *const *rimf_image_objects(const struct mvld_image *, size_t *n);

/* ---- stages ----------------------------------------------------------------- */

/* What passes are called for at the moment, as each edit is of one stage; and which pass, or NULL. */
enum rimf_stage { RIMF_STAGE_NONE, RIMF_STAGE_MAP, RIMF_STAGE_RELOCATE, RIMF_STAGE_RUN };
void rimf_image_set_stage(struct mvld_image *, enum rimf_stage, const struct mvld_context *);
/* The name of the pass that is called, or whose rule is asked; or NULL.  For signal handlers, too. */
const char *rimf_image_running(const struct mvld_image *);
/* Who hears that a pass cannot have what it wanted, with the sentence as the last error; nothing of it is changed. */
void rimf_image_set_failed(struct mvld_image *, void (*failed)(void *cookie, const struct mvld_context *, int error),
                           void *cookie);

/* ---------------------------------------------------------------------------- */

/* The functions that passes are given. */
const struct mvld_api *rimf_api(void);
/* Those of them that describe objects and patch them, the others NULL, for who moves no code,
 * slots or analyses (image/core.c): what these need is not linked then. */
const struct mvld_api *rimf_api_core(void);

/* Walks the image; the first broken invariant becomes a sentence (rimf_api()->
 * last_error) and -EUCLEAN. */
int rimf_image_check(struct mvld_image *);
/* MVLD_DEBUG=image: a line a domain, object, segment. */
void rimf_image_print(const struct mvld_image *);

/* Where the analyses of objects lie (rimf/analysis/analysis.h), at most RIMF_ANALYSES_MAX places.
 * The strings must outlive the image. */
#define RIMF_ANALYSES_MAX 2
void rimf_image_set_analyses(struct mvld_image *, const struct analysis_place *, size_t n);
/* Whether somebody else can change where the folder of a place that is `unasked` leads (base/trusted.h).  It is asked
 * when something is first looked for in such places, and those of which it is so are left out. */
void rimf_image_set_steered(struct mvld_image *, int (*is_steered)(void *cookie, const char *folder), void *cookie);
/* Its overlays will be written.  It is said before passes read code: files that might change unseen (file_id.h) are
 * looked for now. */
void rimf_image_will_write(struct mvld_image *);
/* From here on the image notes what passes say of their changes (api->depends), until the end: what comes
 * behind that may rely on anything in this process. */
void rimf_image_watch(struct mvld_image *);
void rimf_image_watch_end(struct mvld_image *);
/* The object does not lie where it would lie again: passes must leave it as it is. */
void rimf_image_set_unplaced(const struct mvld_object *);
/* Unmaps analyses that were read; asked again, they are read again. */
void rimf_image_close_analyses(struct mvld_image *);
/* Until then: which analysis passes read of the object (analysis_key).  ANALYSIS_LACKS: one of them asked, and
 * there is none that can be used; 0: nobody asked, or there can be none. */
uint32_t rimf_analysis_key(const struct mvld_object *);

/* Why calls must keep their way through PLT and GOT: auditor of mvld/pass.h.  The
 * sentence must outlive the image. */
void rimf_image_set_auditor(struct mvld_image *, const char *why);

/* Where passes may add sections (section_add of mvld/pass.h): fresh memory that can be written, whole pages,
 * within reach of the objects' calls; or negative errno. */
void rimf_image_set_room(struct mvld_image *, long (*room)(void *cookie, size_t size), void *cookie);

/* How the real path of the file that is mapped at an address is known (object_path of mvld/pass.h): memory from
 * `alloc` of that image, or NULL. */
void rimf_image_set_path(struct mvld_image *, char *(*path)(void *cookie, struct mvld_image *, uintptr_t address),
                         void *cookie);

/* Where files can be placed, in the stage map (file_place of mvld/pass.h): 0, or negative errno. */
void rimf_image_set_place(struct mvld_image *, int (*place)(void *cookie, uintptr_t address), void *cookie);

/* When a pass returned from the stage `relocate`, its edits of symbols are made, all or none; with `failed`
 * none.  0, or -EACCES with a sentence. */
int rimf_image_realise_symbols(struct mvld_image *, const struct mvld_context *, int failed);
/* Where the tables of symbols are of the object with this dynamic section, if they are larger than its own. */
struct mvld_segment rimf_image_extended(const struct mvld_image *, const void *dynamic);

/* This pass has failed: nothing of what it declared will be. */
void rimf_image_forget_edits(struct mvld_image *, const struct mvld_context *);

/* Is a pass of this name in the pipeline, and has it something to do?  NULL: none is. */
void rimf_image_set_planned(struct mvld_image *,
                            int (*planned)(const void *cookie, const char *pass),
                            const void *cookie);

/* 1: no debugger is there, as was asked a moment ago; 0: ask, when it matters. */
void rimf_image_set_untraced(struct mvld_image *, int untraced);

/* 1: a filter of system calls is in force: what can be done without mremap is. */
void rimf_image_set_filtered(struct mvld_image *, int filtered);

/* 1: this thread is the only one, until 0 is said. */
void rimf_image_set_alone(struct mvld_image *, int alone);

/* How patches are written (rimf/patch/patch.h); by default the engine chooses. */
int rimf_image_set_patch_method(struct mvld_image *, const char *name); /* 0, -EINVAL, -EPERM */

#endif
