/* SPDX-License-Identifier: MIT
 *
 * rimf/base/cache.h: files that steer code, and where they lie.
 *
 * Whoever can write an analysis or a snapshot can steer the programs that read it.
 * So there are two places, root's for everybody and a user's own for that user, and in
 * either a file is taken only when root or that user owns it and nobody else may write
 * it.  Under AT_SECURE nothing of a user's is read: `user` is then root, 0, and the
 * user's folder is not asked for.
 *
 * The path of a user's folder comes from the environment; whether somebody else can change where it
 * leads is asked once (trusted.h), before it is used.
 *
 * What a user makes goes to that user's folder.  What root makes is for everybody, unless root
 * has chosen a folder (XDG_CACHE_HOME): `mvld analyze', snapshots, all by this one rule.
 */
#ifndef RIMF_CACHE_H
#define RIMF_CACHE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h> /* struct stat, as the kernel has it */

struct rimf_sys;

/* $XDG_CACHE_HOME/mvld/WHAT, or $HOME/.cache/mvld/WHAT; `xdg` and `home` may be NULL.
 * The length, or 0 when there is none or it does not fit.  Never under AT_SECURE. */
size_t cache_user_folder(char *to, size_t size, const char *xdg, const char *home,
                         const char *what);
/* 1 when what `user` makes goes there; else it goes to root's. */
int cache_is_own(uint32_t user, const char *xdg);

/* Of the `last` of the folders that the file at `path` lies in, at most three, those that are not there: CACHE,
 * mvld, WHAT.  What lies above is not ours to make, least of all in the bare root of a sandbox.  0, or
 * negative errno. */
int cache_make_folders(const struct rimf_sys *, char *path, size_t last);

/* Opens `path`, of the kind S_IFREG or S_IFDIR, from the folder `at` (or AT_FDCWD), never
 * through a symbolic link in its last component.  The descriptor; or negative errno with
 * a sentence (static) in *why. */
long cache_open(const struct rimf_sys *, int at, const char *path, uint32_t kind, uint32_t user,
                struct stat *, const char **why);
/* The same, and maps all of it for reading when it has least..most bytes.  0 or errno. */
int cache_map(const struct rimf_sys *, int at, const char *path, uint32_t user, size_t least,
              size_t most, void **map, size_t *size, const char **why);

/* Who writes to a cache holds its lock, a file beside its folders that only its owner can open, and writes
 * to things of this name in them, which are renamed when they are whole.  So who holds the lock and finds one
 * knows that its writer was killed.  The descriptor, which gives it back when it is closed; or negative errno
 * with a sentence (static) in *why.  Unless it is to `wait` for another process. */
#define CACHE_LOCK "lock"
#define CACHE_UNFINISHED ".new"
long cache_lock(const struct rimf_sys *, int at, const char *path, uint32_t user, int wait, const char **why);
/* Removes those files of the open folder of which `goes` says so. */
void cache_sweep(const struct rimf_sys *, int folder, int (*goes)(const void *cookie, const char *name),
                 const void *cookie);

#endif
