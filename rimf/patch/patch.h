/* SPDX-License-Identifier: MIT
 *
 * rimf/patch/patch.h: the patch engine: changes code of the running process in
 * verified batches.
 *
 * Passes call it through `struct mvld_api` (patch_begin … patch_end), whose functions are the
 * rimf_patch_* below.  The engine knows only what `struct rimf_patch_host` tells it about the
 * image, so it can be built and tested alone.
 *
 * What a commit promises
 *
 *   Every patch names the bytes that it expects.  Those that do not verify are
 *   refused one by one; the others are applied together.  Either all of these
 *   are applied, or commit returns an error and no byte has changed; only when
 *   undoing fails too (out of memory, twice) is a batch applied in part, and
 *   then each patch's `result` tells the truth.  No page is writable and
 *   executable at any moment; protections afterwards are those before.
 *
 *   A thread that runs through a site meanwhile executes the old instruction or
 *   the new one, never a mixture.  Every call made after the commit returned
 *   sees the new bytes, on every CPU.  A thread may still be inside code that it
 *   entered before.
 *
 * Methods (report->method; may be forced by name)
 *
 *   mprotect  R-X to RW-, write, RW- to R-X.  The cheapest; only while nothing
 *             else runs in this address space, handlers of signals included,
 *             because the pages cannot be executed in between; or while nobody
 *             has entered the code (rimf_patch_unentered).
 *   remap     changed pages are prepared aside and moved over the old ones.
 *             Threads may run.  The first choice when they do.
 *   selfmem   writes through /proc/self/mem, which needs no protection change, under the conditions of
 *             mprotect.  The only way on sealed mappings.
 *
 * The mappings are read from /proc/self/maps at every commit: code that is not private, readable,
 * executable and unwritable there is refused (-EFAULT), and without /proc every commit is (-EPERM).
 * A program that commits often can have the descriptor kept (rimf_patcher_often); patch/maps.c
 * explains the consequences.
 *
 * Signals
 *
 *   A commit blocks signals in its thread, but not SIGSYS, SIGSEGV, SIGBUS and SIGTRAP: the kernel ends a
 *   process that blocks one when an instruction raises it, or a filter of system calls answers with it
 *   (SECCOMP_RET_TRAP, as browsers' sandboxes do).  So a handler of these may run at any system call of a
 *   commit, in the thread that commits, and call what is being patched.  It meets the old instruction or the
 *   new one; a commit of its own fails (-EDEADLK).  Where the program has such a handler, `mprotect`
 *   gives way to `remap`, unless nobody has entered the code yet.
 *
 * System calls of a batch: rt_sigprocmask, rt_sigaction, openat and ioctl or read on
 * /proc/self/maps, unshare (which changes nothing: it tells whether threads run),
 * prctl, mprotect, close; when it is kept, fstat, and once fcntl, madvise, munmap;
 * under threads also mmap, mremap, munmap, membarrier, and pread64 on /proc/self/pagemap; with selfmem
 * pwrite64.  A filter that answers any of them with an error is coped with.
 *
 * Fork: the child starts with its parent's patches.  A child made in the middle of another thread's
 * batch may find it applied in part, each site whole; it takes over the lock.  To have only complete
 * batches in children, serialise forks and commits, as multiverse does with its own lock.  No commit
 * between vfork and exec.
 */
#ifndef RIMF_PATCH_H
#define RIMF_PATCH_H

#include "mvld/pass.h"
#include "rimf/base/sys.h"

#include <stdarg.h>

struct rimf_lock;

/* What the engine needs of its image. */
struct rimf_patch_host {
    const struct rimf_sys *sys;
    struct rimf_lock *lock; /* one for the whole process; not held by the committing thread */
    void *cookie;
    void *(*alloc)(void *cookie, size_t size); /* 16-byte aligned, zeroed, or NULL */
    void (*release)(void *cookie, void *memory);
    /* The segment of an object that contains `address`: 0, or -ENOENT.  Objects that must not be
     * changed (the vDSO) have none. */
    int (*segment)(void *cookie, uintptr_t address, struct mvld_segment *out);
    /* Where a copy of this code runs, or 0.  May be NULL.  See rimf_patch_all_copies. */
    uintptr_t (*copy)(void *cookie, uintptr_t address, size_t length);
    /* Reports a sentence: with err < 0 it explains an error that is about to be returned, with 0 it
     * is a line for the log.  May be NULL. */
    void (*say)(void *cookie, int err, const char *format, va_list);
};

struct rimf_patcher; /* opaque: the engine's state for one image */

struct rimf_patcher *rimf_patcher_create(const struct rimf_patch_host *); /* NULL: no memory */
void rimf_patcher_destroy(struct rimf_patcher *);                         /* NULL: does nothing */
/* "auto", "mprotect", "remap", "selfmem".  A forced method that is not possible for a batch
 * (mprotect while threads run) is replaced by another.  -EINVAL: no such name.  -EPERM: this
 * process may not use it.  -EDEADLK. */
int rimf_patcher_set_method(struct rimf_patcher *, const char *name);
/* Batches will be frequent: from now on the descriptor of /proc/self/maps may stay open between
 * batches while nothing else runs. */
void rimf_patcher_often(struct rimf_patcher *);
struct mvld_batch *rimf_patcher_begin(struct rimf_patcher *);

/* No thread is in the code that this batch changes, and none will be before it is committed: its
 * objects are new.  Then patches of several instructions are safe while threads run. */
void rimf_patch_unentered(struct mvld_batch *);

/* Refuses a patch of code that has a moved copy (-EXDEV), unless the batch also has a patch of the
 * copy.  Patches of rimf_patch_add_words are not compared. */
void rimf_patch_all_copies(struct mvld_batch *);

/* See mvld/pass.h.  patch_at has the order of patch_add. */
void rimf_patch_often(struct mvld_image *);
struct mvld_batch *rimf_patch_begin(struct mvld_image *);
int rimf_patch_add(struct mvld_batch *, uintptr_t address, const void *expect,
                   const void *replace, size_t length);
int rimf_patch_add_words(struct mvld_batch *, uintptr_t base, const struct mvld_word *,
                         const uint64_t *expect, const uint64_t *replace, size_t n);
/* Has `write` read and change the code at these ascending addresses, while nothing else runs and
 * none of their pages are executable: it must not call code in them.  It is called for one stretch
 * after the other, each up to `end`, UINTPTR_MAX for the last; the pages of a stretch are made
 * private together just before, which is cheaper than one by one.  If this is not possible, it is
 * not called.  `words` must live until the commit. */
int rimf_patch_add_writer(struct mvld_batch *, uintptr_t base, const struct mvld_word *, size_t n,
                          void (*write)(void *cookie, uintptr_t end), void *cookie);
/* -EDEADLK: this thread is already inside a commit. */
int rimf_patch_commit(struct mvld_batch *, struct mvld_patch_report *);
size_t rimf_patch_count(const struct mvld_batch *);
const struct mvld_patch *rimf_patch_at(const struct mvld_batch *, size_t index);
void rimf_patch_end(struct mvld_batch *);

#endif
