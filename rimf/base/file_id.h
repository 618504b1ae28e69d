/* SPDX-License-Identifier: MIT
 *
 * rimf/base/file_id.h: identity of a file in one state.
 *
 * Stored knowledge about a file (its analysis, changed copies of its code) is valid for these bytes
 * only, and no start can read them all to compare.  So it is stored together with this id, all of
 * which is compared: device, inode, size, time of modification, and the time of the inode's last
 * change.  The kernel sets the last by its clock, and nobody else can: neither tar, cp -p nor
 * touch, which copy another file's time of modification, nor the file system, which reuses inodes
 * of removed files.  Linking, renaming or chmod of a file changes that time, too: then its stored
 * knowledge is not used, although it would be valid.
 *
 * WHERE THIS IS NOT ENOUGH, file_id_unsettled says so, and nothing is stored:
 *   - two changes within one step of the clock.  An id is final when the step of its creation has
 *     passed (20 ms; where times are whole seconds, two of them);
 *   - a page that was written through a mapping (MAP_SHARED) and not written back: another store to
 *     it changes no time.  So the file is written back (sync_file_range), without waiting for the
 *     disk's own cache.  tmpfs writes nothing back, so there nobody may have the file open for
 *     writing (a lease tells, but only its owner).  Not covered: a file on tmpfs of another user, or
 *     behind overlayfs;
 *   - a time in the future: the clock was set back, or is another machine's;
 *   - file systems without that time, which return the time of modification instead, set for ever by
 *     whoever made them (squashfs, erofs, sshfs).  Images with given times (mke2fs -d) are similar, but
 *     where they are writable, each change gets a real time.
 */
#ifndef RIMF_FILE_ID_H
#define RIMF_FILE_ID_H

#include <stdint.h>
#include <sys/stat.h> /* the kernel's struct stat */

struct rimf_sys;

/* Times in nanoseconds.  All 0: no file. */
struct file_id {
    uint64_t device, inode, size;
    int64_t modified, changed;
};

void file_id_of(struct file_id *, const struct stat *);
/* Returns 1 for the same state of the same file. */
int file_id_same(const struct file_id *, const struct file_id *);
/* The same, for a file whose stat was read now. */
int file_id_is(const struct file_id *, const struct stat *now);
/* The same, for a file of a cache, written by us.  Its time of modification is always the clock's.
 * perf links each file that it meets, so the time of the last change is ignored. */
int file_id_is_own(const struct file_id *, const struct stat *now);
int file_id_is_none(const struct file_id *);
/* A hash of the id. */
uint64_t file_id_key(const struct file_id *);
/* Why another state of the file at that path might get this id, too (static), or NULL.  Waits for
 * the next step of the clock.  The caller gets the id before, and reads the file after this call. */
const char *file_id_unsettled(const struct rimf_sys *, const struct file_id *, const char *path);

#endif
