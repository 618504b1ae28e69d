/* SPDX-License-Identifier: MIT
 *
 * rimf/base/file_id.c: identity of a file in one state; explained in file_id.h.
 */
#include "rimf/base/file_id.h"

#include "rimf/base/base.h"
#include "rimf/base/sys.h"

#include <errno.h> /* numbers only */
#include <fcntl.h> /* numbers only */
#include <linux/magic.h>
#include <signal.h> /* numbers only */
#include <sys/statfs.h>
#include <sys/statvfs.h> /* numbers only */
#include <time.h>        /* numbers only */

#define SECOND 1000000000l
#define TICK (SECOND / 100) /* of the slowest kernel (HZ = 100) */
#define STEP (2 * TICK)
#define COARSE (2 * SECOND) /* FAT */
#define TRIES 8

static int64_t nanoseconds(const struct timespec *t)
{
    return (int64_t)t->tv_sec * SECOND + t->tv_nsec;
}

void file_id_of(struct file_id *out, const struct stat *st)
{
    *out = (struct file_id){
        .device = st->st_dev,
        .inode = st->st_ino,
        .size = (uint64_t)st->st_size,
        .modified = nanoseconds(&st->st_mtim),
        .changed = nanoseconds(&st->st_ctim),
    };
}

int file_id_same(const struct file_id *a, const struct file_id *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           a->modified == b->modified && a->changed == b->changed;
}

int file_id_is(const struct file_id *id, const struct stat *now)
{
    struct file_id is;

    file_id_of(&is, now);
    return file_id_same(id, &is);
}

int file_id_is_own(const struct file_id *id, const struct stat *now)
{
    struct file_id is;

    file_id_of(&is, now);
    is.changed = id->changed;
    return file_id_same(id, &is);
}

int file_id_is_none(const struct file_id *id)
{
    return !(id->device | id->inode | id->size | (uint64_t)id->modified | (uint64_t)id->changed);
}

uint64_t file_id_key(const struct file_id *id)
{
    return rimf_hash(id, sizeof *id);
}

/* Returns 1 if only the kernel changes the file there, and records the time. */
static int keeps_changes(const struct rimf_sys *sys, const char *path)
{
    struct statfs fs;

    if (SYS3(sys, SYS_statfs, path, &fs, 0) || fs.f_flags & ST_RDONLY)
        return 0;
    return fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_SUPER_MAGIC ||
           fs.f_type == BTRFS_SUPER_MAGIC || fs.f_type == F2FS_SUPER_MAGIC;
}

/* On tmpfs the memory is the file: a page that was written once stays dirty.  A writable mapping
 * keeps the file open for writing, and such a file gets no read lease.  Only its owner may ask.  A
 * process that opens the file meanwhile makes the kernel send us SIGURG, which is ignored, and
 * waits until the lease is released. */
static int is_written(const struct rimf_sys *sys, int fd)
{
    long error = SYS3(sys, SYS_fcntl, fd, F_SETSIG, SIGURG);

    if (!error)
        error = SYS3(sys, SYS_fcntl, fd, F_SETLEASE, F_RDLCK);
    if (!error)
        SYS3(sys, SYS_fcntl, fd, F_SETLEASE, F_UNLCK);
    return error == -EAGAIN;
}

/* The kernel records the time when a clean page is written through a mapping, and not again until
 * it has written that page back.  So have it written back. */
static const char *clean(const struct rimf_sys *sys, const struct file_id *id, int fd)
{
    const unsigned whole = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    struct statfs fs;
    struct stat st;

    if (SYS3(sys, SYS_fstatfs, fd, &fs, 0) || SYS6(sys, SYS_sync_file_range, fd, 0, 0, whole, 0, 0))
        return "whether it is being written cannot be told";
    if ((fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC) && is_written(sys, fd))
        return "somebody has it open for writing, or mapped";
    return SYS3(sys, SYS_fstat, fd, &st, 0) || !file_id_is(id, &st) ? "it is another file now" : NULL;
}

/* A file that we may not read has no stored knowledge. */
static const char *unclean(const struct rimf_sys *sys, const struct file_id *id, const char *path)
{
    long fd = sys_openat(sys, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
    const char *why;

    if (sys_failed(fd))
        return NULL;
    why = clean(sys, id, (int)fd);
    sys_close(sys, (int)fd);
    return why;
}

const char *file_id_unsettled(const struct rimf_sys *sys, const struct file_id *id, const char *path)
{
    int whole = id->changed % SECOND == 0;
    struct timespec now;
    int64_t left;

    if (whole && id->changed == id->modified && !keeps_changes(sys, path))
        return "its file system keeps no time of change";
    /* The clock for time stamps may be behind; and a stamp that was queried may be finer, and so
     * ahead of it by a step. */
    for (int tries = 0; tries < TRIES; tries++) {
        if (SYS3(sys, SYS_clock_gettime, CLOCK_REALTIME_COARSE, &now, 0))
            return "what time it is cannot be asked";
        left = id->changed + (whole ? COARSE : STEP) - nanoseconds(&now);
        if (left <= 0)
            return unclean(sys, id, path);
        now = (struct timespec){.tv_nsec = left < TICK ? TICK : left}; /* with less the clock shows the same time */
        if (left > 2 * STEP || SYS3(sys, SYS_nanosleep, &now, 0, 0))
            break;
    }
    return "it was changed a moment ago";
}
