/* SPDX-License-Identifier: MIT
 *
 * Which file, and which state of it.  A failure means that what was kept of one file is used for
 * another, or that nothing is kept of files that change as files do.
 */
#include "rimf/base/file_id.h"

#include "rimf/base/sys.h"

#include "../../check.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <time.h>

#define SECOND 1000000000l

/* A kernel with a clock and one file system. */
static struct {
    int64_t now, slept, late;
    long type, flags;
    int no_clock, no_sleep;
    int64_t modified, changed, since; /* the file's times; it was changed since it was looked at */
    int64_t synced; /* when it was written back */
    int open_for_writing, lease; /* somebody has it open so; we have this one */
    int others; /* it is not ours */
} world;

static long lease(int kind)
{
    CHECK(kind == F_UNLCK || kind == F_RDLCK);
    if (kind == F_RDLCK && (world.others || world.open_for_writing))
        return world.others ? -EACCES : -EAGAIN;
    world.lease = kind == F_RDLCK;
    return 0;
}

static long answer(const struct rimf_sys *sys, long nr, long a, long b, long c, long d, long e, long f)
{
    struct timespec *time = (struct timespec *)(nr == SYS_nanosleep ? a : b);

    (void)sys, (void)d, (void)e, (void)f;
    switch (nr) {
    case SYS_openat:
        return 5;
    case SYS_close:
        CHECK(a == 5);
        return 0;
    case SYS_fcntl:
        return b == F_SETSIG ? 0 : lease((int)c);
    case SYS_sync_file_range:
        CHECK(a == 5 && !b && !c); /* all of it */
        world.synced = world.now;
        return 0;
    case SYS_fstat:
        *(struct stat *)b = (struct stat){.st_dev = 1, .st_ino = 2, .st_size = 3,
                                          .st_mtim = {world.modified / SECOND, world.modified % SECOND},
                                          .st_ctim = {world.changed / SECOND, world.changed % SECOND}};
        return 0;
    case SYS_clock_gettime:
        CHECK(a == CLOCK_REALTIME_COARSE);
        *time = (struct timespec){world.now / SECOND, world.now % SECOND};
        return world.no_clock ? -EPERM : 0;
    case SYS_nanosleep:
        world.slept += time->tv_sec * SECOND + time->tv_nsec;
        world.now += world.late-- > 0 ? 0 : time->tv_sec * SECOND + time->tv_nsec;
        return world.no_sleep ? -EINTR : 0;
    case SYS_statfs:
    case SYS_fstatfs:
        *(struct statfs *)b = (struct statfs){.f_type = world.type, .f_flags = world.flags};
        return 0;
    default:
        return -ENOSYS;
    }
}

static const struct rimf_sys sys = {answer};

/* 1: no other state has this id, at `now`; what was slept for that is in world.slept. */
static int settled(int64_t now, int64_t modified, int64_t changed)
{
    const struct file_id id = {1, 2, 3, modified, changed};

    world.modified = modified;
    world.changed = changed + world.since;
    world.now = now;
    world.slept = 0;
    return !file_id_unsettled(&sys, &id, "/lib/libx.so");
}

static void all_of_it(void)
{
    static const struct file_id id = {1, 2, 3, 4, 5}, none = {0};

    CHECK(file_id_same(&id, &(struct file_id){1, 2, 3, 4, 5}));
    for (int i = 0; i < 5; i++) {
        uint64_t words[5];
        struct file_id other;

        memcpy(words, &id, sizeof words);
        words[i] ^= 1ul << 63;
        memcpy(&other, words, sizeof other);
        CHECK(!file_id_same(&id, &other) && !file_id_same(&other, &id), "(field %d)", i);
        CHECK(file_id_key(&id) != file_id_key(&other), "(field %d)", i);
    }
    CHECK(!file_id_is_none(&id) && file_id_is_none(&none));
}

static void of_a_stat(void)
{
    const struct stat st = {.st_dev = 1, .st_ino = 2, .st_size = 3, .st_mtim = {4, 5}, .st_ctim = {6, 7}};
    struct file_id id;

    file_id_of(&id, &st);
    CHECK(id.device == 1 && id.inode == 2 && id.size == 3 && id.modified == 4 * SECOND + 5 &&
          id.changed == 6 * SECOND + 7);
    CHECK(file_id_is(&id, &st) && file_id_is_own(&id, &st));
    id.changed--;
    CHECK(!file_id_is(&id, &st) && file_id_is_own(&id, &st));
    id.modified--;
    CHECK(!file_id_is_own(&id, &st));
}

/* Within a step of the clock another change has the same time. */
static void steps(void)
{
    int64_t t = 1000 * SECOND + 123456789;

    CHECK(settled(t + SECOND, 0, t) && !world.slept);
    CHECK(settled(t + SECOND, t, t) && !world.slept); /* as a compiler leaves it */
    CHECK(settled(t, 0, t) && world.slept >= SECOND / 100 && world.slept <= SECOND / 10);
    CHECK(settled(t - SECOND / 100, 0, t) && world.now - t >= SECOND / 100); /* a finer stamp */
    CHECK(settled(t + SECOND / 200, 0, t) && world.slept && world.now - t >= SECOND / 100);
    world.late = 2; /* the clock that stamps files stands still */
    CHECK(settled(t, 0, t) && world.now - t >= SECOND / 100);
    world.late = 1000;
    CHECK(!settled(t, 0, t));
    world.late = 0;
    world.no_sleep = 1;
    CHECK(!settled(t, 0, t));
    world.no_sleep = 0;
    world.no_clock = 1;
    CHECK(!settled(t + SECOND, 0, t));
    world.no_clock = 0;
}

/* The clock was set back, or is another machine's: nobody waits for it. */
static void to_come(void)
{
    int64_t t = 1000 * SECOND + 123456789;

    CHECK(!settled(t - SECOND / 10, 0, t) && !world.slept);
    CHECK(!settled(t - 3600 * SECOND, 0, t) && !world.slept);
}

/* A page that was written through a mapping may be written again, and no time tells.  So all are written back when
 * the step of the clock has passed, and then the file is still the same; or nobody can write to it. */
static void mapped(void)
{
    int64_t t = 1000 * SECOND + 123456789;

    CHECK(settled(t, 0, t) && world.synced - t >= SECOND / 100);
    world.since = 1;
    CHECK(!settled(t + SECOND, 0, t));
    world.since = 0;
    world.type = TMPFS_MAGIC;
    CHECK(settled(t + SECOND, 0, t) && !world.lease);
    world.open_for_writing = 1;
    CHECK(!settled(t + SECOND, 0, t) && !world.lease);
    world.others = 1; /* that cannot be asked */
    CHECK(settled(t + SECOND, 0, t));
    world.others = world.open_for_writing = 0;
    world.type = EXT4_SUPER_MAGIC;
}

static void whole_seconds(void)
{
    int64_t t = 1000 * SECOND;

    CHECK(!settled(t + SECOND, 0, t) && !settled(t + 2 * SECOND - SECOND / 10, 0, t) && !world.slept);
    CHECK(settled(t + 2 * SECOND, 0, t));
}

/* What somebody else said when the file system was made. */
static void without_that_time(void)
{
    int64_t t = 1000 * SECOND, later = 2000 * SECOND;

    CHECK(settled(later, t - SECOND, t));
    for (size_t i = 0; i < 2; i++) {
        world.type = i ? 0x65735546 /* FUSE */ : SQUASHFS_MAGIC;
        CHECK(!settled(later, t, t));
    }
    world.type = EXT4_SUPER_MAGIC;
    CHECK(settled(later, t, t));
    world.flags = ST_RDONLY;
    CHECK(!settled(later, t, t));
}

int main(void)
{
    all_of_it();
    of_a_stat();
    steps();
    to_come();
    mapped();
    whole_seconds();
    without_that_time();
    return 0;
}
