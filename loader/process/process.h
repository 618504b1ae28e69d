/* SPDX-License-Identifier: MIT
 *
 * loader/process/process.h: facts about this process, and its permissions.
 */
#ifndef LOADER_PROCESS_H
#define LOADER_PROCESS_H

#include "rimf/base/base.h"
#include "rimf/base/cpu.h"
#include "rimf/base/sys.h"

#include <elf.h> /* numbers and layouts */

struct loader;

/* ---- block.c: the kernel's block on the stack, and our changes of it --------------------- */

/* The words at the stack pointer when a program starts. */
struct block {
    uintptr_t *sp; /* argc, argv[], NULL, envp[], NULL, auxv[] */
    size_t argc, envc;
    char **argv, **envp;
    Elf64_auxv_t *auxv;
    /* Entries of auxv, or NULL. */
    Elf64_auxv_t *phdr, *phnum, *entry, *base, *execfn, *vdso, *random;
    uint32_t user; /* the effective user at the program's start; an invalid one if unknown */
    int secure;
};

void block_read(struct block *, uintptr_t *sp);

/* The executable that the kernel mapped, by auxv. */
struct executable {
    const Elf64_Phdr *ph; /* NULL: unknown */
    size_t n;
    const Elf64_Phdr *own; /* PT_PHDR, or NULL: then the bias is unknown, and 0 */
    uintptr_t bias;
};

struct executable block_executable(const struct block *);

/* An LD_PRELOAD of ours, see block.c. */
struct injection {
    char *ours;  /* the whole "LD_PRELOAD=…"; NULL: not inserted */
    char *users; /* the user's own, which ours replaced, or NULL */
    const char *first; /* a library of the program that must precede ours, or NULL */
};

/* If the user has no LD_PRELOAD, the block moves down by so many words: the stack pointer must
 * first be lowered by them. */
#define BLOCK_MOVES 2

void block_inject(struct block *, struct injection *, char *preload);
/* Returns 1 if it was found and removed, 0 if it is not there any more. */
int block_restore(const struct block *, struct injection *);
/* Removes the variables NAME and NAME_* from the environment. */
void block_scrub(struct block *, const char *name);

/* ---- knobs.c ----------------------------------------------------------------------------- */

enum snapshot_asked {
    SNAPSHOT_NOT,
    SNAPSHOT_START, /* write a snapshot and exit */
    SNAPSHOT_RUN    /* write one, or use an existing one, run, and learn */
};

struct knobs {
    int off;                /* MVLD=off */
    enum snapshot_asked snapshot; /* MVLD_SNAPSHOT */
    int check;              /* MVLD_SNAPSHOT=check: report whether one is applied, and exit */
    int trace;              /* the program's libraries will be listed (ldd) */
    const char *host;       /* MVLD_HOST_LOADER */
    char *preload;          /* the user's "LD_PRELOAD=…", or NULL */
    const char *preload_option; /* value of --preload, if run directly; or NULL */
    const char *unknown;    /* MVLD=<unknown word> */
    const char *watcher;    /* the host loader's setting that audits calls in the PLT */
    /* Of others: whole settings, or NULL; and whether they are set. */
    const char *home, *cache_home; /* HOME=..., XDG_CACHE_HOME=...; not under AT_SECURE */
    int bind_now, tunables, debug; /* LD_BIND_NOW, GLIBC_TUNABLES, LD_DEBUG */
};

void knobs_read(struct loader *);

/* ---- say.c ------------------------------------------------------------------------------- */

void say_and_exit(const struct rimf_sys *, const char *text) __attribute__((noreturn));
/* Writes a line to standard error, if no MVLD_DEBUG has it.  Once the program has run, not to a regular
 * file: the program may have closed standard error, and opened a file of its own there. */
void say_line(struct loader *, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "ERROR: mvld: " and the sentence, likewise; `loader` is the struct. */
void say_error(void *loader, const char *why);
/* The same with l->refusal, the sentence of such an error of the pipeline: the program runs untransformed. */
void say_refused(struct loader *, int error);

/* ---- limits.c ---------------------------------------------------------------------------- */

const char *auditor_of(const char *setting);
void auditor_look(struct loader *);

int space_is_limited(struct loader *);
/* 1: the program may lack the 0.1 to 0.3 MiB that passes and a snapshot take. */
#define SPACE_SHORT (8ul << 20)
int space_is_short(struct loader *);

/* Makes our system calls, or refuses those that a filter (seccomp) may not expect. */
struct filtered {
    struct rimf_sys sys;  /* stays first */
    const struct rimf_sys *kernel;
    int on;               /* a filter of system calls is in force */
    int answered;         /* and the program handles SIGSYS */
    int starting;         /* no code of the program has run */
    int untraced;         /* there was no debugger when checked */
    uintptr_t event;      /* the thread that handles a dlopen, or 0 */
};

void filtered_start(struct loader *); /* called if there will be a pipeline */
void filtered_end(struct loader *);   /* called if there is none */
/* Called around the work for a dlopen.  `new`: an object was added. */
void filtered_enter(struct loader *, int new);
void filtered_leave(struct loader *);

/* ---- cpuid.c ----------------------------------------------------------------------------- */

struct cpu_answers {
    const struct cpu_record *record; /* of an earlier process; NULL: none fits */
    struct cpu_answer first[8]; /* of this process, which are queried repeatedly */
    size_t n_first;
};

struct cpuid_call { /* registers, as host/entry.S pushes them */
    uint64_t rax, rbx, rcx, rdx;
};

void loader_cpuid(struct loader *, struct cpuid_call *) RIMF_HIDDEN;
/* Called before the host loader's text is written: reads the record of an earlier process. */
void cpuid_find(struct loader *);
uint64_t cpuid_identity(const struct loader *);
/* If no record fits, writes one beside the snapshot that was just written to that folder. */
void cpuid_keep(struct loader *, const char *snapshot);

/* ---- caches.c ---------------------------------------------------------------------------- */

struct caches { /* the user's folder that contains all WHATs */
    int asked, steered; /* somebody else can change its path */
};

uint32_t caches_user(const struct loader *);
int caches_own(const struct loader *);
/* The user's folder for WHAT.  Returns its length, or 0 if there is none, or it does not fit. */
size_t caches_name(const struct loader *, const char *what, char *to, size_t size);
/* Returns 1 if somebody else can change that path.  The cookie of rimf_feeder is the loader. */
int caches_steered(void *loader, const char *path);
/* As caches_name, but 0 if somebody else can change its path. */
size_t caches_folder(struct loader *, const char *what, char *to, size_t size);
/* FILE beside `snapshots`, the folder of this snapshot.  Returns its length, or 0 if it does not
 * fit. */
size_t caches_beside(const char *snapshot, const char *file, char *to, size_t size);
/* Takes cache_lock of that cache. */
long caches_lock(const struct loader *, const char *snapshot, uint32_t user, int wait, const char **why);
/* Returns 1 if the file exists and was written less than a minute ago. */
int caches_young(const struct loader *, const char *path);

/* ---- paths.c ----------------------------------------------------------------------------- */

/* On the heap; or NULL if there is no file, or it is unknown. */
char *path_of_program(struct loader *);
char *path_of_file(struct loader *, int fd);
/* Returns 1 if the last component of `path`, by which the program was called, is its file's own
 * name. */
int path_is_programs(struct loader *, const char *path);

#endif
