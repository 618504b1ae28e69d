/* SPDX-License-Identifier: MIT
 *
 * rimf/base/trusted.h: paths that nobody else steers.
 *
 * Whoever may change one component of a path decides where it leads, and by a link or a
 * rename it can lead to any file of another user's: that such a file is root's says nothing.
 * So a path whose first part came from the environment (HOME is kept by su) is gone along
 * one component after the other, and each must be root's or the user's, and no one else's to write:
 *
 *   folders   also those with the sticky bit (/tmp) on the way, for what is in them is checked, too;
 *             but of what lies in such a one directly only folders count, because files and links
 *             of root's or the user's can be moved there by who has them in a folder of their own
 *   links     followed, their target under the same rules; as /home -> /usr/home
 *   root      is not asked: who may write `/' may put another host loader there
 *   groups    none may write, but a group with the user's own number counts as the user
 *             (umask 002 is the rule where each user has one)
 */
#ifndef RIMF_TRUSTED_H
#define RIMF_TRUSTED_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h> /* struct stat, as the kernel has it */

struct rimf_sys;

/* 0 and what lies at the absolute `path`; -ENOENT: nothing does, and nobody but root and `user`
 * can put something there; else negative errno, a sentence (static) in *why, and in *length how
 * much of the path names what is wrong.  `why` and `length` may be NULL. */
int trusted_path(const struct rimf_sys *, const char *path, uint32_t user, struct stat *,
                 const char **why, size_t *length);

#endif
