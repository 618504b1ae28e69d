/* SPDX-License-Identifier: MIT
 *
 * loader/start/start.h: the order of a start, and the events of the host loader.
 *
 * start.c lists a start.  init.c and objects.c call each other: what came by dlopen waits for its relocation in
 * init.c, and is told of in objects.c before and after.
 */
#ifndef LOADER_START_H
#define LOADER_START_H

#include "loader/place/place.h"

#include <elf.h>
#include <link.h>

struct mvld_image;
struct loader;

/* ---- entry.S ----------------------------------------------------------------------------- */

void loader_entry(void) RIMF_HIDDEN;      /* ELF entry point */
void loader_hook_entry(void) RIMF_HIDDEN; /* struct host_entries */
extern const uint8_t loader_mmap_sites[] RIMF_HIDDEN;
void loader_mmap_musl(void) RIMF_HIDDEN;
extern const uint8_t loader_init_thunks[] RIMF_HIDDEN; /* INIT_CHUNK entries */
#define INIT_THUNK_SIZE 16
void loader_init_common(void) RIMF_HIDDEN;
void loader_no_init(void) RIMF_HIDDEN; /* endbr64; ret */

/* ---- start.c ----------------------------------------------------------------------------- */

struct start {
    uintptr_t entry, sp;
};
struct start loader_start(struct loader *, uintptr_t *sp) RIMF_HIDDEN;
void loader_relocate(void) RIMF_HIDDEN;

/* ---- statistics.c ------------------------------------------------------------------------- */

void stage_time(struct loader *, int stage);

/* ---- program.c --------------------------------------------------------------------------- */

void program_plan(struct loader *);
/* A DT_NEEDED of the program; the name stays. */
void program_needs(struct loader *, const char *needed);
/* Of its memory: l->host.musl, l->injection.first, l->interpreter */
void program_look(struct loader *);
/* Unset where it has none.  Asks the kernel before it reads. */
void program_build_id(const struct loader *, struct identity *out);

/* ---- mapped.c ---------------------------------------------------------------------------- */

#define POPULATE_MAX (64ul << 10) /* data of no more than this is filled when it is mapped */

/* In place of an mmap of the host loader's. */
long loader_mmap(struct loader *, const struct mmap_call *) RIMF_HIDDEN;

/* ---- mapped_name.c ------------------------------------------------------------------------ */

/* What the link map will call the object that is being mapped, or, where that cannot be known, its real path;
 * memory of the heap, or NULL. */
char *mapped_name(struct loader *, const struct mmap_call *);
/* As the kernel knows it; memory of the heap, or NULL. */
char *mapstage_path(struct loader *, int fd);

/* ---- map_stage.c ------------------------------------------------------------------------- */

struct mapstage {
    int wanted;        /* a pass looks at files before they are mapped */
    int passed;        /* the file that was looked at last may be mapped, */
    struct file_id last; /* which this is, */
    uintptr_t at;        /* and where a pass wants it; 0: anywhere */
    size_t length;       /* of the file that is looked at; 0: its place is chosen */
};

/* The program is known, and its passes; nothing is mapped yet. */
void mapstage_start(struct loader *);
/* So many places are known at which the host loader maps files. */
void mapstage_require(struct loader *, size_t mmap_sites);
/* It is about to map this one: so many bytes, or, with 0, where it says.  0, or -EACCES: a pass refused it. */
int mapstage_file(struct loader *, const struct mmap_call *, size_t length);

/* ---- relocate_stage.c -------------------------------------------------------------------- */

struct rimf_source;

struct relocatestage {
    int wanted;                  /* a pass changes symbols */
    struct mvld_image *image;    /* of objects that may not be relocated */
    struct rimf_source *sources; /* its objects */
    size_t n, room;
    uintptr_t bias;              /* of the object that is being mapped, */
    const Elf64_Phdr *phdr;      /* which has these, */
    size_t phnum;
    size_t left;                 /* and mappings of its file to come */
};

void relocatestage_start(struct loader *); /* the executable is mapped, and nothing else */
void relocatestage_compare(struct loader *); /* the link map may have lost objects */
void relocatestage_mapped(struct loader *, uintptr_t at, const struct mmap_call *, int first);

/* ---- hook.c ------------------------------------------------------------------------------ */

void loader_event(struct loader *) RIMF_HIDDEN;

/* ---- objects.c --------------------------------------------------------------------------- */

struct maps {
    struct link_map **known; /* the link maps of the last event, in order */
    size_t n, room;
};

/* The executable, as auxv describes it when no code of the program has run. */
struct main_object {
    const char *name;
    const Elf64_Phdr *phdr;
    size_t phnum;
};

int objects_create_image(struct loader *, struct mvld_image **); /* if it is not there: 0, or -ENOMEM */
void objects_start(struct loader *);
void objects_changed(struct loader *);
void objects_relocated(struct loader *);

/* ---- slot_writers.c ---------------------------------------------------------------------- */

/* These objects came, and no pass has seen them. */
void writers_came(struct loader *, const struct mvld_object *const *objects, size_t n);

/* ---- init.c ------------------------------------------------------------------------------ */

#define INIT_CHUNK 128 /* thunks in entry.S, and in each page made later */

struct init_chunk;

struct init_hook {
    struct init_chunk *chunks;
    size_t info;       /* where l_info lies in a link map, in words; 0: not yet known */
    size_t pending;    /* slots in use */
    int unentered;     /* the objects that were waited for have run no constructor yet */
};

int init_catch(struct loader *, struct link_map *);
int init_is_pending(const struct loader *, const struct link_map *);
void init_finish(struct loader *);
void init_forget(struct loader *, struct link_map *);
uintptr_t loader_init(struct loader *, size_t index) RIMF_HIDDEN;

#endif
