/* SPDX-License-Identifier: MIT
 *
 * rimf/base/trusted.h: paths that nobody else can change.
 *
 * Whoever can change one component of a path decides where it ends.  By a link or a rename it can
 * end at any file of another user, so the owner of that file proves nothing.  So a path that begins
 * with a variable of the environment (su keeps HOME) is checked component by component: each must
 * belong to root or the user, and be writable by nobody else:
 *
 *   folders   on the path, also those with the sticky bit (/tmp), because their entries are checked,
 *             too.  But directly in a sticky folder only folders are trusted, because root's or the
 *             user's files and links can be moved there by whoever has them in a folder of their own
 *   links     are followed, and their targets checked by the same rules; as /home -> /usr/home
 *   root      is not checked: whoever may write to `/' can replace the host loader
 *   groups    must not have write permission, but a group with the user's own number counts as the
 *             user (umask 002 is usual where each user has one)
 */
#ifndef RIMF_TRUSTED_H
#define RIMF_TRUSTED_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h> /* the kernel's struct stat */

struct rimf_sys;

/* Returns 0 and the stat of the absolute `path`; -ENOENT: it does not exist, and nobody but root
 * and `user` can create it; else negative errno, a static sentence in *why, and in *length how much
 * of the path names the problem.  `why` and `length` may be NULL. */
int trusted_path(const struct rimf_sys *, const char *path, uint32_t user, struct stat *,
                 const char **why, size_t *length);

#endif
