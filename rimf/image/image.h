/* SPDX-License-Identifier: MIT
 *
 * rimf/image/image.h: the image (RiMF), the description of all objects in the process.
 *
 * The loader (or libmultiverse under a plain ld.so) feeds it with sources.  It reads program headers, notes
 * and symbol tables from memory, checks every bound, and serves passes through `struct mvld_api`.  An
 * object whose headers cannot be read safely is listed as opaque, with the reason.
 *
 * Tables: objects and domains (image.c, image/table.c), sections (image/sections.c), symbols
 * (image/symbols.c: read from the objects' own tables, not copied), PLT entries (image/plt.c), GOT slots
 * (image/slots.c), references (image/reference_tables.c: from the objects' analyses and relocations).
 * Batches of patches (patch/patch.h), the image's commit, change code of the process; code
 * may also be moved (moved/region.c, moved/moved.h).
 *
 * The public link map does not tell which objects are in the global scope.  The image assumes: those of the
 * first update, in order, except the vDSO.  Later objects are searched after them.
 */
#ifndef RIMF_IMAGE_H
#define RIMF_IMAGE_H

#include "mvld/pass.h"
#include "rimf/analysis/analysis.h"
#include "rimf/elf/source.h"

struct rimf_sys;
struct rimf_log;
struct rimf_described;

/* The image uses its own pages; `log` must outlive it.  0, -ENOMEM. */
int rimf_image_create(const struct rimf_sys *, const struct rimf_log *, struct mvld_image **out);
void rimf_image_destroy(struct mvld_image *);

/* Makes the image's objects those of `sources`, in that order.  An object is the same if link_map, bias and
 * dynamic are the same; a duplicate source is skipped.  New and removed objects are returned in arrays that
 * are valid until the next call; so is a removed object's description (not its memory).  0; -ENOMEM, or
 * -EDEADLK from a signal handler that interrupted an update (nothing changed). */
struct rimf_change {
    const struct mvld_object *const *added;
    size_t n_added;
    const struct mvld_object *const *removed;
    size_t n_removed;
};
int rimf_image_update(struct mvld_image *, const struct rimf_source *sources, size_t n,
                      struct rimf_change *out);

/* All objects, in that order, valid until the next update. */
const struct mvld_object *const *rimf_image_objects(const struct mvld_image *, size_t *n);

/* ---- stages ----------------------------------------------------------------- */

/* The stage for which passes are being called, because each edit belongs to one; and the pass, or NULL. */
enum rimf_stage { RIMF_STAGE_NONE, RIMF_STAGE_MAP, RIMF_STAGE_RELOCATE, RIMF_STAGE_RUN };
void rimf_image_set_stage(struct mvld_image *, enum rimf_stage, const struct mvld_context *);
/* The name of the pass that is called, or whose rule is called; or NULL.  Also for signal handlers. */
const char *rimf_image_running(const struct mvld_image *);
/* What the feeder does for the image, and what it knows.  Each may be NULL or 0; functions are set before passes are
 * called. */
#define RIMF_ANALYSES_MAX 2
#define RIMF_KEPT_ORIGINALS 9u
struct rimf_feeder {
    void *cookie; /* of all functions but those with the pipeline */
    /* Completes the source of a new object, of which link_map, bias and dynamic are set. */
    void (*describe)(void *cookie, struct rimf_source *);
    /* Tells whether somebody else can change the path of the last folder of `analyses` (base/trusted.h).  It is called
     * once, at the first look-up; the folder is left out if it is true. */
    int (*is_steered)(void *cookie, const char *folder);
    /* Maps memory for added sections (section_add of mvld/pass.h): fresh writable memory, whole pages, within reach of
     * the objects' calls; or negative errno. */
    long (*room)(void *cookie, size_t size);
    /* Called when moved code is in place and nothing enters it yet.  If it fails (negative errno, *why a static
     * sentence), the code is removed again.  NULL: nothing moves. */
    int (*caller_hooks)(void *cookie, const char **why);
    void *pipeline;
    /* Called if edits of a pass cannot be made, with the sentence as the last error; none of them is made. */
    void (*failed)(void *pipeline, const struct mvld_context *, int error);
    /* Tells whether a pass with this flag (MVLD_PASS_*) is in the pipeline and not idle.  NULL: none is. */
    int (*planned)(const void *pipeline, uint32_t flag);
    struct analysis_place analyses[RIMF_ANALYSES_MAX]; /* folders of analyses; the strings outlive the image */
    size_t n_analyses;
    /* Why calls must keep going through PLT and GOT (rimf_auditor); the sentence outlives the image. */
    const char *auditor;
    int untraced;  /* no debugger is attached, as checked a moment ago; 0: checked when it matters */
    int unentered; /* of the latest objects no code has run, except what the host loader calls to relocate them; 0: not
                    * certain */
    /* Functions whose originals run, whoever calls them, because they are hooked: their moved code is a jump to it, and
     * the original gets no jump.  Each has five bytes or more, and nothing branches into them.  Set before their object
     * moves, or by the snapshot, with the numbers of the process that made it; 0: none. */
    struct rimf_kept {
        uintptr_t at;
        size_t size;
    } kept[RIMF_KEPT_ORIGINALS];
    /* Code in the region's library that gets unwind tables with the first code that moves (moved/moved.h).  Ascending,
     * below the region; as long as the image lives. */
    const struct rimf_described *described;
    size_t n_described;
};
struct rimf_feeder *rimf_image_feeder(struct mvld_image *);
/* Returns 1 if there is a region for moved code. */
int rimf_image_has_region(const struct mvld_image *);
/* Called after passes (and rimf_moved_finish): constructors will run, and the addresses that objects hold are final. */
void rimf_image_finish(struct mvld_image *);

/* ---------------------------------------------------------------------------- */

/* The functions for passes. */
const struct mvld_api *rimf_api(void);
/* The functions that describe objects and patch them, the others NULL, for callers that use no moved code,
 * slots or analyses (image/core.c): then the code for these is not linked. */
const struct mvld_api *rimf_api_core(void);

/* MVLD_DEBUG=image: one line for each domain, object, segment. */
void rimf_image_print(const struct mvld_image *);

/* Overlays will be written.  Call this before passes read code: files that might change unseen (file_id.h)
 * are checked now. */
void rimf_image_will_write(struct mvld_image *);
/* From here on the image records the passes' dependencies (api->depends), until the end is called; later
 * changes may rely on anything in this process. */
void rimf_image_watch(struct mvld_image *);
void rimf_image_watch_end(struct mvld_image *);
/* The object's address will differ in later processes: passes must not change it. */
void rimf_image_set_unplaced(const struct mvld_object *);
/* Unmaps the analyses; a later query maps them again. */
void rimf_image_close_analyses(struct mvld_image *);
/* Until then: the analysis that passes used of the object (analysis_key).  ANALYSIS_LACKS: a pass queried
 * it, and no usable one exists; 0: no query, or there can be none. */
uint32_t rimf_analysis_key(const struct mvld_object *);

/* Called when a pass returned from the stage `relocate`: makes its symbol edits, all or none; with `failed`
 * none.  0, or -EACCES with a sentence. */
int rimf_image_realise_symbols(struct mvld_image *, int failed);

/* This pass has failed: drops all of its edits. */
void rimf_image_forget_edits(struct mvld_image *, const struct mvld_context *);

/* 1: this thread is the only one, until this is called with 0. */
void rimf_image_set_alone(struct mvld_image *, int alone);

/* Sets the method of writing patches (rimf/patch/patch.h); by default the engine chooses. */
int rimf_image_set_patch_method(struct mvld_image *, const char *name); /* 0, -EINVAL, -EPERM */

#endif
