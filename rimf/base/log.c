/* SPDX-License-Identifier: MIT
 *
 * rimf/base/log.c: lines of MVLD_DEBUG.
 *
 * The line is formatted on the stack, or in a page of its own if it does not fit: the application's
 * stack may be small.
 */
#include "rimf/base/log.h"

#include "rimf/base/base.h"
#include "mvld/pass.h"
#include "rimf/base/sys.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */
#include <sys/stat.h>

#define LINE_ON_STACK 512

static int look(const struct rimf_log *log, struct stat *status)
{
    return sys_failed(SYS3(log->sys, SYS_fstat, log->fd, status, 0)) ? -1 : 0;
}

void rimf_log_start(struct rimf_log *log, int fd)
{
    struct stat status;

    log->fd = fd;
    if (look(log, &status)) {
        log->fd = -1;
        return;
    }
    log->device = status.st_dev;
    log->inode = status.st_ino;
}

static int is_same_file(const struct rimf_log *log)
{
    struct stat status;

    return !log->inode || (!look(log, &status) && status.st_dev == log->device && status.st_ino == log->inode);
}

int rimf_log_enabled(const struct rimf_log *log, uint32_t category)
{
    if (!log || log->fd < 0)
        return 0;
    if (category & MVLD_LOG_WARNING)
        return log->categories != 0;
    return (log->categories & category) != 0;
}

static void write_all(const struct rimf_log *log, const char *text, size_t n)
{
    while (n) {
        long written = sys_write(log->sys, log->fd, text, n);

        if (written == -EINTR)
            continue;
        if (written <= 0)
            return;
        text += written;
        n -= (size_t)written;
    }
}

/* Formats the whole line with its newline; returns the length that it would have. */
static size_t format_line(char *to, size_t size, long pid, const char *format, va_list args)
{
    size_t head = rimf_format(to, size, "%10ld:\t", pid);
    size_t n = head + rimf_vformat(head < size ? to + head : to, head < size ? size - head : 0,
                                   format, args);

    if (n + 1 < size) {
        to[n] = '\n';
        to[n + 1] = '\0';
    }
    return n + 1;
}

void rimf_vlog(const struct rimf_log *log, uint32_t category, const char *format, va_list args)
{
    char line[LINE_ON_STACK];
    va_list again;
    long pid, page;
    size_t n;

    if (!rimf_log_enabled(log, category) || !is_same_file(log))
        return;
    pid = SYS3(log->sys, SYS_getpid, 0, 0, 0);
    va_copy(again, args);
    n = format_line(line, sizeof line, pid, format, args);
    if (n < sizeof line) {
        write_all(log, line, n);
    } else {
        size_t size = rimf_page_up(n + 1);

        page = sys_mmap(log->sys, 0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                        -1, 0);
        if (!sys_failed(page)) {
            n = format_line((char *)page, size, pid, format, again);
            write_all(log, (const char *)page, n < size ? n : size - 1);
            sys_munmap(log->sys, (uintptr_t)page, size);
        } else { /* better cut than lost */
            line[sizeof line - 1] = '\n';
            write_all(log, line, sizeof line);
        }
    }
    va_end(again);
}

void rimf_log(const struct rimf_log *log, uint32_t category, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    rimf_vlog(log, category, format, args);
    va_end(args);
}
