/* SPDX-License-Identifier: MIT
 *
 * loader/process/process.h: what this process is, and what it may do.
 */
#ifndef LOADER_PROCESS_H
#define LOADER_PROCESS_H

#include "rimf/base/cpu.h"
#include "rimf/base/sys.h"

struct loader;

/* ---- knobs.c ----------------------------------------------------------------------------- */

enum snapshot_asked {
    SNAPSHOT_NOT,
    SNAPSHOT_START, /* write a snapshot and exit */
    SNAPSHOT_RUN    /* write one, or take the one that is there, run, and learn what comes */
};

struct knobs {
    int off;                /* MVLD=off */
    enum snapshot_asked snapshot; /* MVLD_SNAPSHOT */
    int check;              /* MVLD_SNAPSHOT=check: say whether one is applied, and exit */
    int trace;              /* the program will be listed, not run (ldd) */
    const char *host;       /* MVLD_HOST_LOADER */
    char *preload;          /* the user's "LD_PRELOAD=…", or NULL */
    const char *preload_option; /* what --preload says, run directly; or NULL */
    const char *unknown;    /* MVLD=<what we do not know> */
    const char *watcher;    /* what of the host loader's watches calls through the PLT */
};

void knobs_read(struct loader *);
void say_and_exit(const struct rimf_sys *, const char *text) __attribute__((noreturn));

/* ---- auditor.c --------------------------------------------------------------------------- */

const char *auditor_of(const char *setting);
void auditor_look(struct loader *);

/* ---- limits.c ---------------------------------------------------------------------------- */

int space_is_limited(struct loader *);
/* 1: the 0.1 to 0.3 MiB that passes and a snapshot take may be what the program then lacks. */
#define SPACE_SHORT (8ul << 20)
int space_is_short(struct loader *);

/* ---- filtered.c -------------------------------------------------------------------------- */

struct filtered {
    struct rimf_sys sys;  /* stays first */
    const struct rimf_sys *kernel;
    int on;               /* a filter of system calls is in force */
    int answered;         /* and the program answers what it stops (SIGSYS) */
    int starting;         /* no code of the program has run */
    int untraced;         /* no debugger was there when it was asked */
    uintptr_t event;      /* the thread in which a dlopen is answered, or 0 */
};

void filtered_start(struct loader *); /* there will be a pipeline */
void filtered_end(struct loader *);   /* there is none */
/* What comes by dlopen is looked at, and was.  `new`: something came. */
void filtered_enter(struct loader *, int new);
void filtered_leave(struct loader *);

/* ---- cpuid.c ----------------------------------------------------------------------------- */

struct cpu_answers {
    const struct cpu_answer *earlier; /* of a record that fits, with what was asked for that; or NULL */
    size_t n_earlier;
    struct cpu_answer first[6]; /* of this process, which are asked again */
    size_t n_first;
    int outdated; /* beside the snapshot lies one that does not fit */
};

struct cpuid_call { /* registers, as entry.S pushes them */
    uint64_t rax, rbx, rcx, rdx;
};

void loader_cpuid(struct loader *, struct cpuid_call *) RIMF_HIDDEN;
/* Before the host loader's text is written: what an earlier process left. */
void cpuid_find(struct loader *);
/* cpu_identity; nothing is asked that a record that fits has made known. */
uint64_t cpuid_identity(const struct loader *);
/* For later ones, beside the snapshot that was just written to that folder. */
void cpuid_keep(struct loader *, const char *snapshot, uint32_t user);
/* The same beside that with which this process started, where what is there does not fit. */
void cpuid_renew(struct loader *, const char *snapshot, uint32_t user);

/* ---- caches.c ---------------------------------------------------------------------------- */

struct caches { /* the user's folder, around all WHATs */
    int asked, steered; /* somebody else can change where it leads */
};

uint32_t caches_user(const struct loader *);
int caches_own(const struct loader *);
/* The user's folder for WHAT.  Its length, or 0 when there is none, or it does not fit. */
size_t caches_name(const struct loader *, const char *what, char *to, size_t size);
/* 1: somebody else can change where that path leads. */
int caches_steered(struct loader *, const char *path);
/* As caches_name, and 0 when somebody else can change where its path leads. */
size_t caches_folder(struct loader *, const char *what, char *to, size_t size);
/* FILE beside `snapshots`, in which this snapshot lies: of the same cache.  Its length, or 0 when it does not fit. */
size_t caches_beside(const char *snapshot, const char *file, char *to, size_t size);
/* cache_lock of that cache. */
long caches_lock(const struct loader *, const char *snapshot, uint32_t user, int wait, const char **why);
/* 1: there is such a file, and it was written less than a minute ago. */
int caches_young(const struct loader *, const char *path);

/* ---- paths.c ----------------------------------------------------------------------------- */

/* On the heap; or NULL, when there is no file, or it is not known. */
char *path_mapped_at(struct loader *, uintptr_t address);
char *path_of_program(struct loader *);
char *path_of_file(struct loader *, int fd);
/* 1: the last part of `path`, by which the program was called, is its file's own name. */
int path_is_programs(struct loader *, const char *path);

/* ---- notes.c ----------------------------------------------------------------------------- */

struct identity {
    const uint8_t *build_id;
    size_t size;
};
/* Sets *out when the notes hold a build-id. */
void find_build_id(const char *notes, uint64_t size, struct identity *out);

#endif
