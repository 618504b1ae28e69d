/* SPDX-License-Identifier: MIT
 *
 * rimf/base/cache.h: folders and trust of analyses, snapshots and similar files.
 *
 * Whoever can write an analysis or a snapshot controls the programs that read it.  So there are two
 * caches: root's for everybody, and a user's own for that user.  A file in either is used only if
 * root or that user owns it and nobody else may write to it.  Under AT_SECURE nothing of a user is
 * read: `user` is then root, 0, and there is no user's folder.
 *
 * The path of a user's folder comes from the environment; before its first use it is checked that
 * nobody else can change it (trusted.h).
 *
 * A user writes to the user's folder.  Root writes for everybody, unless root has set
 * XDG_CACHE_HOME: this one rule holds for `mvld analyze' and snapshots.
 */
#ifndef RIMF_CACHE_H
#define RIMF_CACHE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h> /* the kernel's struct stat */

struct rimf_sys;

/* Writes $XDG_CACHE_HOME/mvld/WHAT, or $HOME/.cache/mvld/WHAT; `xdg` and `home` may be NULL.
 * Returns the length, or 0 if there is none or it does not fit.  Not for AT_SECURE. */
size_t cache_user_folder(char *to, size_t size, const char *xdg, const char *home,
                         const char *what);
/* Returns 1 if `user` writes to that folder, 0 if to root's. */
int cache_is_own(uint32_t user, const char *xdg);

/* Creates those of the `last` (at most three) folders above the file at `path` that do not exist:
 * CACHE, mvld, WHAT.  Folders above these are not ours to create, least of all in the bare root of
 * a sandbox.  0, or negative errno. */
int cache_make_folders(const struct rimf_sys *, char *path, size_t last);

/* Creates one folder, for everybody to read if root makes it.  0, or negative errno. */
int cache_make_folder(const struct rimf_sys *, const char *path);

/* Opens `path`, of the kind S_IFREG or S_IFDIR, relative to the folder `at` (or AT_FDCWD), never
 * through a symbolic link in its last component.  Returns the descriptor; or negative errno with a
 * static sentence in *why. */
long cache_open(const struct rimf_sys *, int at, const char *path, uint32_t kind, uint32_t user,
                struct stat *, const char **why);
/* The same, and maps the whole file for reading if it has least..most bytes.  0 or errno. */
int cache_map(const struct rimf_sys *, int at, const char *path, uint32_t user, size_t least,
              size_t most, void **map, size_t *size, const char **why);

/* A writer of a cache holds its lock, a file beside its folders that only its owner can open.  It
 * writes to files with this suffix, and renames them when they are complete.  So if the holder of
 * the lock finds such a file, its writer was killed.  Returns the descriptor, whose closing
 * releases the lock; or negative errno with a static sentence in *why.  `wait`: waits for another
 * process. */
#define CACHE_LOCK "lock"
#define CACHE_UNFINISHED ".new"
long cache_lock(const struct rimf_sys *, int at, const char *path, uint32_t user, int wait, const char **why);
/* Creates a file, relative to the folder `at`, for everybody to read if root makes it.  Returns its descriptor, or
 * negative errno. */
long cache_create(const struct rimf_sys *, int at, const char *path);
/* Writes these bytes to the open file.  The next: a new file, synced.  0, or negative errno. */
int cache_write_part(const struct rimf_sys *, int fd, const void *from, size_t size, uint64_t offset);
int cache_write(const struct rimf_sys *, int at, const char *path, const void *bytes, size_t size);
/* Removes the files of the open folder for which `goes` is true. */
void cache_sweep(const struct rimf_sys *, int folder, int (*goes)(const void *cookie, const char *name),
                 const void *cookie);

#endif
