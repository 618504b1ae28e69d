/* SPDX-License-Identifier: MIT
 *
 * rimf/base/file_id.h: which file, and which state of it.
 *
 * What is kept of a file (its analysis, changed copies of its code) is right for these bytes and no
 * others, and no start may read them all to see that they are still there.  So everybody who keeps
 * something keeps this with it, and compares all of it: device, inode, size, time of modification, and
 * the time of the inode's last change, which the kernel sets by its clock and nobody else can: neither
 * tar, cp -p nor touch, which give a file the time of modification of another, nor the file system, which
 * gives it the inode of one that was removed.  To link, rename or chmod a file changes that time, too: then
 * what was kept of it is not used, though it would be right.
 *
 * WHERE THAT IS NOT ENOUGH, file_id_unsettled says so, and nothing is kept:
 *   - two changes within one step of the clock.  An id is final when the step has passed in which it came to
 *     be (20 ms; where times are whole seconds, two of them);
 *   - a page that was written through a mapping (MAP_SHARED) and not written back: who writes there again changes
 *     no time.  So the file is written back (sync_file_range), without waiting for the disk's own cache; on
 *     tmpfs, which writes nothing back, none may have it open for writing (a lease tells, but its owner alone).  What
 *     remains is a file on tmpfs of somebody else than who asks, or behind overlayfs;
 *   - a time that is still to come: the clock was set back, or is another machine's;
 *   - file systems without that time, which give the time of modification in its place, and that is
 *     what whoever made them says, for ever the same (squashfs, erofs, sshfs).  Those that are made whole
 *     have such times too (mke2fs -d), but where they may be written, each change gets a real one.
 */
#ifndef RIMF_FILE_ID_H
#define RIMF_FILE_ID_H

#include <stdint.h>
#include <sys/stat.h> /* struct stat, as the kernel has it */

struct rimf_sys;

/* Times in nanoseconds.  All 0: no file. */
struct file_id {
    uint64_t device, inode, size;
    int64_t modified, changed;
};

void file_id_of(struct file_id *, const struct stat *);
/* 1: one state of one file. */
int file_id_same(const struct file_id *, const struct file_id *);
/* The same, of a file that was looked at now. */
int file_id_is(const struct file_id *, const struct stat *now);
/* The same, of a file of a cache, written by us.  Its time of modification is the clock's, whatever is done with
 * it; and perf links each file that it meets, so the time of the last change does not count. */
int file_id_is_own(const struct file_id *, const struct stat *now);
int file_id_is_none(const struct file_id *);
/* A hash: the same for the same. */
uint64_t file_id_key(const struct file_id *);
/* Why another state of the file at that path might get this id, too (static), or NULL.  The next step of the
 * clock is waited for.  Who asks has the id from before, and reads the file after. */
const char *file_id_unsettled(const struct rimf_sys *, const struct file_id *, const char *path);

#endif
