/* SPDX-License-Identifier: MIT
 *
 * rimf/status.c: what /proc/PID/status says, and /proc/PID/pagemap.
 */
#include "status.h"

#include "base.h"
#include "sys.h"

#include <errno.h> /* numbers only */
#include <fcntl.h> /* numbers only */

uint64_t status_hex(const char *value)
{
    uint64_t number = 0;

    while (*value == ' ' || *value == '\t')
        value++;
    for (;; value++) {
        unsigned digit = *value >= '0' && *value <= '9'   ? (unsigned)(*value - '0')
                         : *value >= 'a' && *value <= 'f' ? (unsigned)(*value - 'a') + 10
                                                          : 16;
        if (digit == 16)
            return number;
        number = number * 16 + digit;
    }
}

const char *status_field(const char *status, const char *name)
{
    while (status && *status) {
        const char *value = rimf_after(status, name);
        if (value)
            return value;
        while (*status && *status != '\n')
            status++;
        status += *status == '\n';
    }
    return NULL;
}

int status_is_traced(const struct rimf_sys *sys)
{
    char text[512]; /* TracerPid is the eighth line, and only the first can be long (64) */
    long fd = sys_openat(sys, "/proc/self/status", O_RDONLY | O_CLOEXEC, 0), n;
    const char *tracer;

    if (sys_failed(fd))
        return (int)fd;
    n = sys_read(sys, (int)fd, text, sizeof text - 1);
    sys_close(sys, (int)fd);
    if (n < 0)
        return (int)n;
    text[n] = '\0';
    tracer = status_field(text, "TracerPid:");
    return !tracer ? -EIO : status_hex(tracer) != 0;
}

/* ---- pages ------------------------------------------------------------------------- *
 *
 * A word for each page (admin-guide/mm/pagemap.rst).  Who writes to a page of a private
 * mapping gets a copy that is the process's own, whichever way he writes: by a store, by
 * ptrace, by a uprobe.  Own pages are not of a file, or swapped out.  A page that is not
 * there will come from the file.
 */
#define PAGE_OF_FILE (1ul << 61)
#define PAGE_SWAPPED (1ul << 62)
#define PAGE_PRESENT (1ul << 63)
#define PAGES 128u /* at a time */

static int is_own(uint64_t page)
{
    return page & PAGE_SWAPPED || (page & PAGE_PRESENT && !(page & PAGE_OF_FILE));
}

static int has_no_own(const struct rimf_sys *sys, int fd, uintptr_t page, uintptr_t end)
{
    uint64_t pages[PAGES];

    while (page < end) {
        size_t n = end - page < PAGES ? end - page : PAGES;
        long got = sys_pread(sys, fd, pages, n * sizeof *pages, page * sizeof *pages);

        if (got == -EINTR)
            continue;
        if (got < (long)sizeof *pages)
            return 0;
        n = (size_t)got / sizeof *pages;
        for (size_t i = 0; i < n; i++)
            if (is_own(pages[i]))
                return 0;
        page += n;
    }
    return 1;
}

int status_is_unwritten(const struct rimf_sys *sys, uintptr_t start, size_t size)
{
    long fd = sys_openat(sys, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC, 0);
    int unwritten;

    if (sys_failed(fd))
        return 0;
    unwritten = has_no_own(sys, (int)fd, start / RIMF_PAGE, rimf_page_up(start + size) / RIMF_PAGE);
    sys_close(sys, (int)fd);
    return unwritten;
}
