/* SPDX-License-Identifier: MIT
 *
 * rimf/patch/threads.c: reads /proc/self/task/<tid>/status of each thread before breakpoints are set.
 */
#include <fcntl.h>

#include "rimf/patch/private.h"
#include "rimf/base/status.h"

#define SIGTRAP_BIT (1u << (5 - 1))

struct dirent { /* struct linux_dirent64 */
    uint64_t inode, next;
    uint16_t size;
    uint8_t type;
    char name[];
};

static int look(struct rimf_patcher *p, int task, const char *tid, struct patch_threads *out)
{
    const struct rimf_sys *sys = p->host.sys;
    const char *tracer, *blocked, *pending;
    char path[32];
    size_t n = 0;
    long fd, r;

    rimf_format(path, sizeof(path), "%s/status", tid);
    fd = SYS6(sys, SYS_openat, task, path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (fd < 0)
        return fd == -ENOENT ? 0 : (int)fd; /* it has ended */
    while ((r = sys_read(sys, (int)fd, p->name + n, sizeof(p->name) - 1 - n)) > 0 || r == -EINTR)
        n += r > 0 ? (size_t)r : 0;
    sys_close(sys, (int)fd);
    if (r < 0)
        return r == -ESRCH ? 0 : (int)r;
    p->name[n] = 0;
    tracer = status_field(p->name, "TracerPid:");
    blocked = status_field(p->name, "SigBlk:");
    pending = status_field(p->name, "SigPnd:");
    if (!tracer || !blocked || !pending)
        return -EIO;
    out->traced |= status_hex(tracer) != 0;
    out->blocked |= (status_hex(blocked) & SIGTRAP_BIT) != 0;
    out->pending |= (status_hex(pending) & SIGTRAP_BIT) != 0;
    return 0;
}

int patch_threads_look(struct rimf_patcher *p, struct patch_threads *out)
{
    const struct rimf_sys *sys = p->host.sys;
    int32_t self = (int32_t)SYS3(sys, SYS_gettid, 0, 0, 0);
    long fd, n;
    int r = 0;

    *out = (struct patch_threads){0, 0, 0};
    fd = sys_openat(sys, "/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0)
        return (int)fd;
    while (r == 0 && (n = SYS3(sys, SYS_getdents64, fd, p->maps.buffer,
                               sizeof(p->maps.buffer))) > 0) {
        for (long at = 0; r == 0 && at < n;) {
            const struct dirent *entry = (const void *)(p->maps.buffer + at);
            int64_t tid;
            at += entry->size;
            if (rimf_parse_int(entry->name, &tid) == 0 && tid != self)
                r = look(p, (int)fd, entry->name, out);
        }
    }
    sys_close(sys, (int)fd);
    return r ? r : n < 0 ? (int)n : 0;
}
