/* SPDX-License-Identifier: MIT
 *
 * loader/loader.h: what the parts of stage 0 share.
 *
 * There is one `struct loader` a process.  Every function gets it as a
 * parameter; only the assembly entries (entry.S) know where it lies, because
 * the host loader calls them without a word about us.
 *
 *   start.c     the order of everything that happens before the host loader runs
 *   block.c     argc, argv, envp, auxv as the kernel left them; LD_PRELOAD
 *   knobs.c     MVLD, MVLD_DEBUG, MVLD_DEBUG_OUTPUT, MVLD_HOST_LOADER
 *   program.c   which program this is, for the pipeline's configuration
 *   host.h      the host loader's file and its text
 *   place.c     where libraries go
 *   place/draw.c  and at what distances from each other
 *   files.c     which file each of them came from
 *   hook.c      the events of the host loader
 *   store/store.c       code that the passes changed in an earlier process
 *   store/relocations.c  symbols that the host loader found in an earlier process
 *   init.c      control before the constructors of a dlopen
 *   caches.c    the folders of the user for these
 *   caller/hooks.c   which object an address in a copy of code belongs to
 *   analysis.c  where analyses of objects lie, and who forbids to use them
 *   objects.c   the link map, the image and the pipeline at an event
 */
#ifndef LOADER_LOADER_H
#define LOADER_LOADER_H

#include "rimf/base/alloc.h"
#include "loader/caller/hooks.h"
#include "rimf/base/base.h"
#include "loader/process/block.h"
#include "rimf/base/cpu.h"
#include "rimf/store/store.h"
#include "loader/host/host.h"
#include "rimf/store/store.h"
#include "rimf/base/log.h"
#include "mvld/pass.h"
#include "rimf/analysis/analysis.h"
#include "rimf/base/sys.h"

#include <elf.h>
#include <link.h>

struct pipeline;
struct mvld_image;

/* ---- knobs.c ------------------------------------------------------------- */

enum freeze {
    FREEZE_NOT,
    FREEZE_START, /* write a frozen image and exit */
    FREEZE_READY, /* write ready code alone and exit */
    FREEZE_RUN    /* write one, or take the one that is there, run, and learn what comes */
};

struct knobs {
    int off;                /* MVLD=off */
    enum freeze freeze;     /* MVLD_FREEZE */
    int trace;              /* the program will be listed, not run (ldd) */
    const char *host;       /* MVLD_HOST_LOADER */
    char *preload;          /* the user's "LD_PRELOAD=…", or NULL */
    const char *preload_option; /* what --preload says, run directly; or NULL */
    const char *unknown;    /* MVLD=<what we do not know> */
    const char *watcher;    /* what of the host loader's watches calls through the PLT */
};

/* ---- cpuid.c --------------------------------------------------------------- */

struct cpu_answers {
    const struct cpu_answer *earlier; /* of a record that fits, with what was asked for that; or NULL */
    size_t n_earlier;
    struct cpu_answer first[6]; /* of this process, which are asked again */
    size_t n_first;
    int outdated; /* beside the image lies one that does not fit */
};

struct cpuid_call { /* registers, as entry.S pushes them */
    uint64_t rax, rbx, rcx, rdx;
};

/* ---- place.c, place/draw.c --------------------------------------------------- */

struct arena {
    uintptr_t start, end; /* end 0: objects stay where the kernel puts them */
    uintptr_t next;       /* the lowest object begins here */
    uintptr_t above;      /* and the highest ends here */
    uintptr_t grain;      /* `end` is a multiple of it in every process of the program */
    uintptr_t slack;      /* the first object ends less than this below `end` */
    uint64_t layout_seed;       /* distances follow from it; 0: there are none between objects */
    uint64_t taken;       /* so many places were asked for */
    uintptr_t packed;     /* if nothing were drawn, the lowest object would begin here, */
    uintptr_t layout_shift;     /* and the newest so much behind where it does */
    int spacious;         /* it was planned for a pass that takes much space (place_near_low) */
};

/* ---- files.c --------------------------------------------------------------- */

#define FILES_AT_FIRST 32

struct mapped_file {
    uintptr_t start, end;
    int known; /* the identity is */
    uintptr_t layout_shift; /* struct arena */
    struct file_id identity;
};

struct files {
    int wanted;    /* a pass of the pipeline asks */
    int reserved;  /* the newest object got address space, and no file yet */
    int segmented; /* it comes segment by segment */
    struct mapped_file *at;
    size_t n, room;
};

/* ---- store/store.c --------------------------------------------------------------- */

struct found_image {
    char *folder; /* NULL: none was found */
    struct manifest_file file;
    const char *told; /* store/folder.h */
    uint64_t pipeline;
    uintptr_t *biases; /* of its objects, when they were found mapped */
    int is_users;    /* or there is none of root's */
    size_t awaited;  /* so many files are mapped when the host loader relocates; 0: no matter */
    int relocated;   /* tables of relocations were replaced */
    int left;        /* and led words to copies, but the image did not fit */
    int there;       /* there is one for such starts, as good or bad as it is */
    int unasked;     /* there is none, and on-miss is to make none (store/folder.c) */
};

/* ---- objects.c --------------------------------------------------------------- */

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

/* ---- start/map_stage.c ---------------------------------------------------------------- */

struct mapstage {
    int wanted;        /* a pass looks at files before they are mapped */
    int passed;        /* the file that was looked at last may be mapped, */
    struct file_id last; /* which this is */
};

/* ---- start/relocate_stage.c ------------------------------------------------------------ */

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

/* ---- caches.c ----------------------------------------------------------------- */

struct caches { /* the user's folder that was looked at */
    uint64_t around; /* hash of its path */
    uint32_t user;
    int steered; /* somebody else can change where it leads */
};

/* ---- later.c ------------------------------------------------------------------ */

struct later_objects {
    const char *folder; /* of the frozen image with which the program started; or NULL */
    uint32_t user;      /* besides root's, files of this user */
    size_t passes;      /* so many did what it holds */
    int looked;         /* for the list; `file` has it, if there is one */
    struct manifest_file file;
    long learner;       /* this process adds to the list; 0: nobody */
};

/* ---- init.c ------------------------------------------------------------------ */

#define INIT_CHUNK 128 /* thunks in entry.S, and in each page made later */

struct init_chunk;

struct init_hook {
    struct init_chunk *chunks;
    size_t info;       /* where l_info lies in a link map, in words; 0: not yet known */
    size_t pending;    /* slots in use */
    int unentered;     /* the objects that were waited for have run no constructor yet */
};

/* ---- filtered.c ---------------------------------------------------------------- */

struct filtered {
    struct rimf_sys sys;  /* stays first */
    const struct rimf_sys *kernel;
    int on;               /* a filter of system calls is in force */
    int answered;         /* and the program answers what it stops (SIGSYS) */
    int starting;         /* no code of the program has run */
    int untraced;         /* no debugger was there when it was asked */
    uintptr_t event;      /* the thread in which a dlopen is answered, or 0 */
};

/* ---- all of it ----------------------------------------------------------------- */

enum { STAGE_START, STAGE_PLANNED, STAGE_MAPPED, STAGE_PATCHED, STAGE_HOOK, STAGE_RUN, STAGES };

struct loader {
    /* entry.S jumps back through these: they stay first. */
    uintptr_t mmap_return[MMAP_SITES];
    uintptr_t cpuid_return[CPUID_SITES];

    const struct rimf_sys *sys;
    struct filtered filtered; /* `sys` once there is a pipeline */
    struct rimf_log log;
    uint64_t log_device, log_inode; /* the file behind log.fd: nobody else's is written to */
    struct block block;
    struct knobs knobs;
    int direct; /* run as a program, not as an interpreter */
    struct host host;
    struct rimf_heap heap;

    struct pipeline *pipeline;
    struct mvld_image *image;
    char *program; /* real path, or NULL */
    const char *interpreter; /* the program's PT_INTERP; NULL when run directly, or not known */

    struct arena arena;
    struct files files;
    struct found_image frozen;
    struct cpu_answers cpuid;
    struct injection injection;
    enum { SPACE_NOT_ASKED, SPACE_FREE, SPACE_LIMITED } space; /* RLIMIT_AS, at the start */

    int hooked;
    struct r_debug *debug;        /* the host loader's, of the base namespace */
    struct r_debug **debug_musl;  /* where musl keeps its address */
    int started;
    struct maps maps;
    struct main_object main;
    struct init_hook init;
    struct caller_hooks caller;
    struct caches caches;
    struct later_objects later;
    struct mapstage mapstage;
    struct relocatestage relocatestage;
    uintptr_t vdso_bias;

    uint64_t at[STAGES]; /* nanoseconds, under MVLD_DEBUG=statistics */

    char refusal[512]; /* why there is no pipeline */
    /* Most programs need no more, and each is touched only as far as it is used: a program
     * without a pipeline comes by with the first page of this struct.  All of it counts where data is
     * limited (RLIMIT_DATA), so what only programs with a pipeline need is asked for by them. */
    _Alignas(16) char first_memory[10752]; /* of `heap` */
    _Alignas(16) char plan_memory[6144];
};

/* entry.S */
extern struct loader loader_state RIMF_HIDDEN;
void loader_entry(void) RIMF_HIDDEN;      /* ELF entry point */
void loader_hook_entry(void) RIMF_HIDDEN; /* stands in for _dl_debug_state */
void loader_no_init(void) RIMF_HIDDEN;    /* endbr64; ret */
void loader_init_common(void) RIMF_HIDDEN;
void caller_stub_entry(void) RIMF_HIDDEN;
void caller_stub_caller(void) RIMF_HIDDEN;
void caller_stub_place(void) RIMF_HIDDEN;
void caller_stub_result(void) RIMF_HIDDEN;
void caller_stub_symbol(void) RIMF_HIDDEN;
void caller_stub_named(void) RIMF_HIDDEN;
extern const uint8_t loader_mmap_sites[] RIMF_HIDDEN; /* MMAP_SITES entries */
extern const uint8_t loader_init_thunks[] RIMF_HIDDEN; /* INIT_CHUNK entries */
extern const uint8_t loader_cpuid_stubs[] RIMF_HIDDEN; /* one for each question */
#define CPUID_STUB_SIZE 80
#define CPUID_STUB_CODE 4 /* bytes before those of the host loader's */
#define MMAP_SITE_SIZE 64
#define MMAP_SITE_CODE 7  /* bytes of the host loader's for which it stands */
void loader_mmap_musl(void) RIMF_HIDDEN; /* for MMAP_MUSL_SIZE bytes of musl's */
#define MMAP_MUSL_SIZE 10
#define INIT_THUNK_SIZE 16

/* knobs.c */
void knobs_read(struct loader *);
void say_and_exit(const struct rimf_sys *, const char *text) __attribute__((noreturn));
/* Stops logging when the file behind the descriptor is not the one of the start. */
void log_guard(struct loader *);

/* process/auditor.c */
const char *auditor_of(const char *setting);
void auditor_look(struct loader *);

/* process/limits.c */
int space_is_limited(struct loader *);

/* cpuid.c */
void loader_cpuid(struct loader *, struct cpuid_call *) RIMF_HIDDEN;
/* Before the host loader's text is written: what an earlier process left. */
void cpuid_find(struct loader *);
/* cpu_identity; nothing is asked that a record that fits has made known. */
uint64_t cpuid_identity(const struct loader *);
/* For later ones, beside the image that was just written to that folder. */
void cpuid_keep(struct loader *, const char *image, uint32_t user);
/* The same beside that with which this process started, where what is there does not fit. */
void cpuid_renew(struct loader *, const char *image, uint32_t user);

#define POPULATE_MAX (64ul << 10) /* data of no more than this is filled when it is mapped */

/* place.c */
void place_plan(struct loader *);
void place_near_low(struct loader *, int spacious); /* of it, for tests */
void place_finish(struct loader *); /* it is known which passes there are */
/* 1: the object lies elsewhere in the arena each time.  And tells the image of all that do. */
int place_varies(const struct loader *, const struct mvld_object *);
void place_set_unplaced(const struct loader *);
/* Memory within reach of what lies near the program, or negative errno; for the image. */
long place_room(void *loader, size_t size);
/* Such a mapping, at a place in the arena, `first` (or 0) before any other; or an error. */
struct mmap_call;
long place_map(struct loader *, const struct mmap_call *, uintptr_t first);
/* start/mapped.c */
struct mmap_call {
    uintptr_t address, length, prot, flags, fd, offset;
};
long loader_mmap(struct loader *, const struct mmap_call *) RIMF_HIDDEN;

/* place/draw.c */
int place_is_random(const struct loader *); /* 1: the kernel draws addresses */
int place_random(const struct loader *, uint64_t *out); /* 0: it gives nothing */
void place_loosen(struct arena *); /* nothing lies in it yet */
uintptr_t place_take(struct arena *, size_t length);
void place_taken(struct arena *, uintptr_t at, size_t length); /* something lies there now */
/* Nothing shall be put there. */
void place_keep(struct arena *, uintptr_t at, size_t length);

/* files.c */
void files_start(struct loader *);
void files_note(struct loader *, uintptr_t start, size_t length, int fd);
const struct file_id *files_identity(const struct loader *, uintptr_t address);
uintptr_t files_layout_shift(const struct loader *, uintptr_t address);

/* start/map_stage.c: the program is known, and its passes; nothing is mapped yet. */
void mapstage_start(struct loader *);
/* So many places are known at which the host loader maps files. */
void mapstage_require(struct loader *, size_t mmap_sites);
/* As the kernel knows it; memory of the heap, or NULL. */
char *mapstage_name(struct loader *, int fd);
/* It is about to map this one.  0, or -EACCES: a pass refused it. */
int mapstage_file(struct loader *, int fd);

/* start/relocate_stage.c */
void relocatestage_start(struct loader *); /* the executable is mapped, and nothing else */
void relocatestage_event(struct loader *); /* the link map is what counts from now on */
void relocatestage_mapped(struct loader *, uintptr_t at, size_t length, size_t offset, int fd, int first);

/* filtered.c */
void filtered_start(struct loader *); /* there is a pipeline */
/* What comes by dlopen is looked at, and was.  `new`: something came. */
void filtered_enter(struct loader *, int new);
void filtered_leave(struct loader *);

/* store/store.c */
void store_find(struct loader *); /* before the host loader runs */
void store_run(struct loader *);
/* What was laid over, if nothing came of it: words lead home again, or the program ends. */
void store_forget(struct loader *);
void store_or_exit(struct loader *);

/* store/layout.c: once it is known with which image this process starts, and before anything is mapped */
void layout_choose(struct loader *);

/* store/relocations.c */
void relocations_expect(struct loader *);
void relocations_replace(struct loader *);
/* Texts of the image that lie over those of files are these again; 0, or negative errno: some are not. */
int relocations_take_texts_back(struct loader *);

/* later.c */
void later_start(struct loader *, const char *folder, uint32_t user, size_t passes, int learns);
uintptr_t later_place(struct loader *, int fd, size_t length);
void later_added(struct loader *, const struct mvld_object *const *objects, size_t n,
                 int unentered);

/* manager/refused.c: l->refusal, on standard error */
void say_refused(struct loader *);
/* Maps passes that were not mapped yet; when one is refused, none is left. */
void program_complete(struct loader *);

/* program.c */
struct identity {
    const uint8_t *build_id;
    size_t size;
};
void program_plan(struct loader *);
/* A DT_NEEDED of the program; the name stays. */
void program_needs(struct loader *, const char *needed);
/* program_memory.c: l->host.musl, l->injection.first, l->interpreter */
void program_look(struct loader *);
/* Unset where it has none.  Asks the kernel before it reads. */
void program_build_id(const struct loader *, struct identity *out);
/* Sets *out when the notes hold a build-id. */
void find_build_id(const char *notes, uint64_t size, struct identity *out);

/* process/paths.c: on the heap; or NULL, when there is no file, or it is not known */
char *path_mapped_at(struct loader *, uintptr_t address);
char *path_of_file(struct loader *, int fd);
/* 1: the last part of `path`, by which the program was called, is its file's own name. */
int path_is_programs(struct loader *, const char *path);

/* hook.c */
void loader_event(struct loader *) RIMF_HIDDEN;

/* init.c */
int init_catch(struct loader *, struct link_map *);
int init_is_pending(const struct loader *, const struct link_map *);
void init_finish(struct loader *);
void init_forget(struct loader *, struct link_map *);
uintptr_t loader_init(struct loader *, size_t index) RIMF_HIDDEN;

/* objects.c */
int objects_create_image(struct loader *); /* 0, or -ENOMEM */
void objects_start(struct loader *);
void objects_changed(struct loader *);
void objects_relocated(struct loader *);

/* caches.c */
uint32_t caches_user(const struct loader *);
int caches_own(const struct loader *);
size_t caches_folder(struct loader *, const char *what, char *to, size_t size);
/* FILE beside `images`, in which this image lies: of the same cache.  Its length, or 0 when it does not fit. */
size_t caches_beside(const char *image, const char *file, char *to, size_t size);
/* cache_lock of that cache. */
long caches_lock(const struct loader *, const char *image, uint32_t user, int wait, const char **why);
/* 1: there is such a file, and it was written less than a minute ago. */
int caches_young(const struct loader *, const char *path);

/* analysis.c */
void analysis_start(struct loader *);

/* start.c */
struct start {
    uintptr_t entry, sp;
};
struct start loader_start(struct loader *, uintptr_t *sp) RIMF_HIDDEN;
void loader_relocate(void) RIMF_HIDDEN;
void stage_time(struct loader *, int stage);

#endif
