/* SPDX-License-Identifier: MIT
 *
 * rimf/base/file_id.c: which file, and which state of it; told in file_id.h.
 */
#include "rimf/base/file_id.h"

#include "rimf/base/base.h"
#include "rimf/base/hash.h"
#include "rimf/base/sys.h"

#include <linux/magic.h>
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

/* 1: the file there cannot change but by the kernel, which then notes the time. */
static int keeps_changes(const struct rimf_sys *sys, const char *path)
{
    struct statfs fs;

    if (SYS3(sys, SYS_statfs, path, &fs, 0) || fs.f_flags & ST_RDONLY)
        return 0;
    return fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_SUPER_MAGIC ||
           fs.f_type == BTRFS_SUPER_MAGIC || fs.f_type == F2FS_SUPER_MAGIC;
}

const char *file_id_unsettled(const struct rimf_sys *sys, const struct file_id *id, const char *path)
{
    int whole = id->changed % SECOND == 0;
    struct timespec now;
    int64_t left;

    if (whole && id->changed == id->modified && !keeps_changes(sys, path))
        return "its file system keeps no time of change";
    /* The clock that files are stamped with may be late; and where that was asked for, a stamp is finer, and so
     * a step ahead of it. */
    for (int tries = 0; tries < TRIES; tries++) {
        if (SYS3(sys, SYS_clock_gettime, CLOCK_REALTIME_COARSE, &now, 0))
            return "what time it is cannot be asked";
        left = id->changed + (whole ? COARSE : STEP) - nanoseconds(&now);
        if (left <= 0)
            return NULL;
        now = (struct timespec){.tv_nsec = left < TICK ? TICK : left}; /* less, and the clock says the same */
        if (left > 2 * STEP || SYS3(sys, SYS_nanosleep, &now, 0, 0))
            break;
    }
    return "it was changed a moment ago";
}
