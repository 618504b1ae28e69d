/* SPDX-License-Identifier: MIT
 *
 * rimf/base/status.c: reads /proc/PID/status and /proc/PID/pagemap.
 */
#include "rimf/base/status.h"

#include "rimf/base/base.h"
#include "rimf/base/sys.h"

#include <errno.h> /* numbers only */
#include <fcntl.h> /* numbers only */

/* Whether the decimal number there, after blanks, is none or 0. */
static int is_zero(const char *value)
{
    while (*value == ' ' || *value == '\t' || *value == '0')
        value++;
    return *value < '1' || *value > '9';
}

/* The text after `name` ("TracerPid:") at the start of a line of `status`, or NULL. */
static const char *status_field(const char *status, const char *name)
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

/* Reads the complete lines in `text`, of `n` bytes; returns their length.  A line that fills the
 * buffer (there may be thousands of groups) is none of ours, and counts as complete. */
static size_t look_at_lines(char *text, size_t n, size_t room, struct status *status, unsigned *seen)
{
    size_t whole = n;
    const char *value;

    while (whole && text[whole - 1] != '\n')
        whole--;
    if (!whole)
        return n == room ? n : 0;
    text[whole - 1] = '\0';
    if ((value = status_field(text, "TracerPid:"))) {
        status->traced = !is_zero(value);
        *seen |= 1;
    }
    if ((value = status_field(text, "Seccomp:"))) {
        status->filtered = !is_zero(value);
        *seen |= 2;
    }
    return whole;
}

int status_read(const struct rimf_sys *sys, int is_first, struct status *status)
{
    char text[1024];
    size_t n = 0, whole;
    unsigned seen = 0;
    long fd = sys_openat(sys, is_first ? "/proc/self/status" : "/proc/thread-self/status", O_RDONLY | O_CLOEXEC, 0);
    long got = 0;

    *status = (struct status){0, 0};
    if (sys_failed(fd))
        return (int)fd;
    while (seen != 3) {
        got = sys_read(sys, (int)fd, text + n, sizeof text - 1 - n);
        if (got == -EINTR)
            continue;
        if (got <= 0)
            break;
        n += (size_t)got;
        whole = look_at_lines(text, n, sizeof text - 1, status, &seen);
        n -= whole;
        memmove(text, text + whole, n);
    }
    sys_close(sys, (int)fd);
    /* A kernel without filters has no such line. */
    return seen & 1 ? 0 : got < 0 ? (int)got : -EIO;
}

/* ---- pages ------------------------------------------------------------------------- *
 *
 * A word for each page (admin-guide/mm/pagemap.rst).  A write to a page of a private mapping, by a
 * store, by ptrace or by a uprobe, makes a copy that belongs to the process.  Such pages are not of
 * a file.  An absent page will come from the file.
 */
#define PAGE_OF_FILE (1ul << 61)
#define PAGE_IS_THERE (3ul << 62) /* in memory, or swapped out */

int pagemap_is_own(struct pagemap *map, uintptr_t page)
{
    uint64_t entry;
    long got;

    if (!map->is_opened)
        map->fd = (int)sys_openat(map->sys, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC, 0);
    map->is_opened = 1;
    if (map->fd >= 0 && (page - map->first) / RIMF_PAGE >= map->n) {
        got = sys_pread(map->sys, map->fd, map->entries, sizeof map->entries, page / RIMF_PAGE * sizeof entry);
        map->n = got > 0 ? (size_t)got / sizeof entry : 0;
        map->first = page;
    }
    if (!map->n)
        return 1;
    entry = map->entries[(page - map->first) / RIMF_PAGE];
    return entry & PAGE_IS_THERE && !(entry & PAGE_OF_FILE);
}

void pagemap_close(struct pagemap *map)
{
    if (map->is_opened && !sys_failed(map->fd))
        sys_close(map->sys, map->fd);
}

int status_is_unwritten(const struct rimf_sys *sys, uintptr_t start, size_t size)
{
    struct pagemap map = {.sys = sys};
    uintptr_t page = rimf_page_down(start);

    while (page < start + size && !pagemap_is_own(&map, page))
        page += RIMF_PAGE;
    pagemap_close(&map);
    return page >= start + size;
}
