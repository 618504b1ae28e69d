/* SPDX-License-Identifier: MIT
 *
 * loader/start/start.h: the order of a start, and the events of the host loader.
 *
 * start.c lists a start.  hook.c and objects.c call each other: what came by dlopen waits for its relocation in
 * hook.c, and objects.c is called before and after.
 */
#ifndef LOADER_START_H
#define LOADER_START_H

#include "loader/place/place.h"

#include <elf.h>
#include <link.h>

struct loader;
struct mvld_image;

/* ---- entry.S ----------------------------------------------------------------------------- */

void loader_entry(void) RIMF_HIDDEN;      /* ELF entry point */
void loader_hook_entry(void) RIMF_HIDDEN; /* struct host_entries */
extern const uint8_t loader_mmap_sites[] RIMF_HIDDEN;
void loader_mmap_musl(void) RIMF_HIDDEN;
extern const uint8_t loader_init_thunks[] RIMF_HIDDEN; /* INIT_SLOTS entries */
#define INIT_THUNK_SIZE 16
void loader_no_init(void) RIMF_HIDDEN; /* endbr64; ret */

/* ---- start.c ----------------------------------------------------------------------------- */

struct start {
    uintptr_t entry, sp;
};
struct start loader_start(struct loader *, uintptr_t *sp) RIMF_HIDDEN;
void loader_relocate(void) RIMF_HIDDEN;

enum { STAGE_START, STAGE_PLANNED, STAGE_MAPPED, STAGE_PATCHED, STAGE_HOOK, STAGE_RUN, STAGES };

void stage_time(struct loader *, int stage);

/* ---- program.c --------------------------------------------------------------------------- */

#define PLAN_MEMORY 6144

void program_plan(struct loader *);

/* ---- mapped.c ---------------------------------------------------------------------------- */

/* Called instead of the host loader's mmap. */
long loader_mmap(struct loader *, const struct mmap_call *) RIMF_HIDDEN;

/* The name that the link map will have for the object that is being mapped, or, if unknown, its real path;
 * on the heap, or NULL.  *is_apart: 1 for an object of a namespace that dlmopen or an auditor made. */
char *mapped_name(struct loader *, const struct mmap_call *, int *is_apart);

struct mapstage {
    int wanted;        /* a pass has the stage `map` */
    int passed;        /* the last checked file may be mapped, */
    struct file_id last; /* its identity */
};

/* Called when the program and its passes are known, and nothing is mapped yet. */
void mapstage_start(struct loader *);
/* The number of known mmap calls of the host loader. */
void mapstage_require(struct loader *, size_t mmap_sites);

/* ---- relocate_stage.c -------------------------------------------------------------------- */

struct rimf_source;

struct relocatestage {
    int wanted;                  /* a pass has the stage `relocate` */
    struct mvld_image *image;    /* of objects that may be unrelocated */
    struct rimf_source *sources; /* its objects */
    size_t n, room;
    uintptr_t bias;              /* of the object being mapped, */
    const Elf64_Phdr *phdr;      /* and its program headers, */
    size_t phnum;
    size_t left;                 /* and the number of its remaining mappings */
};

/* Where a pass has the stage; called when only the executable is mapped. */
void relocatestage_start(struct loader *);
void relocatestage_compare(struct loader *); /* called when the link map may have lost objects */
void relocatestage_mapped(struct loader *, uintptr_t at, const struct mmap_call *, int first);

/* ---- hook.c ------------------------------------------------------------------------------ */

void loader_event(struct loader *) RIMF_HIDDEN;

#define INIT_SLOTS 512 /* thunks in entry.S */

struct init_slot;

struct init_hook {
    struct init_slot *slots;
    size_t n;          /* of these have ever been used */
    size_t info;       /* offset of l_info in a link map, in words; 0: unknown */
    size_t pending;    /* slots in use */
    int missed;        /* an object that came got none */
    int unentered;     /* the awaited objects have run no constructor yet */
};

int init_catch(struct loader *, struct link_map *);
int init_is_pending(const struct loader *, const struct link_map *);
void init_finish(struct loader *);
uintptr_t loader_init(struct loader *, size_t index) RIMF_HIDDEN;

/* ---- objects.c --------------------------------------------------------------------------- */

struct rimf_source;

struct maps {
    struct link_map **known; /* the link maps of the last event, in order; behind them those that are new now */
    size_t n, room;
    struct rimf_source *sources; /* of the last update of the image: memory for the next one */
    size_t sources_room;
};

/* The executable, as auxv describes it before any code of the program runs. */
struct main_object {
    const char *name;
    const Elf64_Phdr *phdr;
    size_t phnum;
};

int objects_create_image(struct loader *, struct mvld_image **); /* unless it exists: 0, or -ENOMEM */
void objects_start(struct loader *);
void objects_changed(struct loader *);
void objects_relocated(struct loader *);

/* ---- slot_writers.c ---------------------------------------------------------------------- */

/* Called when objects were added, before passes see them. */
void writers_came(struct loader *, const struct mvld_object *const *objects, size_t n);

#endif
