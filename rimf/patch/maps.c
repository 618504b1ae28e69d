/* SPDX-License-Identifier: MIT
 *
 * rimf/patch/maps.c: the kernel's mapping at an address.
 *
 * Since Linux 6.11 an ioctl on /proc/self/maps answers for one address; before, the lines are read, in one
 * sweep for ascending addresses.
 *
 * Opening and closing that file is half the cost of a small commit, so a program that commits often may
 * have its descriptor kept (rimf_patcher_often).  But descriptors belong to the application, which may do
 * anything to ours:
 *
 *   close it, and open something else   before each use the file is compared with
 *   under the same number                what was kept (fstat); a stranger is left alone
 *   fork                                 the child's copy speaks of the parent's memory:
 *                                        its scratch page is cleared, which tells
 *   exec                                 close-on-exec
 *   threads                              one could close it between the comparison and
 *                                        the question: it is not used while any run
 *   take the lowest free number          ours is a high one
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "rimf/patch/private.h"

/* struct procmap_query of <linux/fs.h>, not in older headers. */
struct query {
    uint64_t size, flags, address;
    uint64_t start, end, vma_flags, page_size, offset, inode;
    uint32_t major, minor, name_size, build_id_size;
    uint64_t name, build_id;
};
#define PROCMAP_QUERY 0xc0686611UL /* _IOWR('f', 17, struct query) */
#define VMA_READABLE 1u
#define VMA_WRITABLE 2u
#define VMA_EXECUTABLE 4u
#define VMA_SHARED 8u

int patch_maps_open(struct patch_maps *m, const struct rimf_sys *sys, int alone)
{
    long fd;

    do {
        fd = sys_openat(sys, alone ? "/proc/self/maps" : "/proc/thread-self/maps", O_RDONLY | O_CLOEXEC, 0);
    } while (fd == -EINTR);
    m->sys = sys;
    m->fd = (int)fd;
    m->fill = m->next = 0;
    m->last.end = 0;
    m->answered = m->ended = m->unread = 0;
    return fd < 0 ? (int)fd : 0;
}

void patch_maps_close(struct patch_maps *m)
{
    if (m->fd >= 0)
        sys_close(m->sys, m->fd);
    if (m->fd == m->kept)
        m->kept = 0;
    m->fd = -1;
}

/* ---- a descriptor that is kept ---- */

#define KEPT_LEAST 512 /* its least number: out of the way of programs that count on low ones */

static int is_kept(const struct patch_maps *m)
{
    struct stat st;

    return SYS3(m->sys, SYS_fstat, m->kept, &st, 0) == 0 && st.st_dev == m->kept_device &&
           st.st_ino == m->kept_inode;
}

void patch_maps_forget(struct patch_maps *m)
{
    if (m->kept > 0 && is_kept(m))
        sys_close(m->sys, m->kept);
    m->kept = 0;
}

int patch_maps_reopen(struct patch_maps *m, const struct rimf_sys *sys, int own)
{
    if (m->kept > 0 && !own)
        patch_maps_forget(m);
    if (m->kept <= 0 || !is_kept(m)) {
        m->kept = 0;
        return patch_maps_open(m, sys, 1);
    }
    m->fd = m->kept;
    m->ended = m->unread = 0;
    return 0;
}

void patch_maps_keep(struct patch_maps *m)
{
    struct stat st;
    long fd = m->fd;

    m->fd = -1;
    if (m->kept > 0 && fd == m->kept) {
        if (m->text) /* it was read from, and cannot be queried again */
            patch_maps_forget(m);
        return;
    }
    m->kept = 0;
    if (m->answered && !m->text) {
        m->kept = (int)SYS3(m->sys, SYS_fcntl, fd, F_DUPFD_CLOEXEC, KEPT_LEAST);
        if (m->kept > 0 && SYS3(m->sys, SYS_fstat, m->kept, &st, 0) == 0) {
            m->kept_device = st.st_dev;
            m->kept_inode = st.st_ino;
        } else if (m->kept > 0) {
            sys_close(m->sys, m->kept);
            m->kept = 0;
        }
    }
    sys_close(m->sys, (int)fd);
}

static int find_by_ioctl(struct patch_maps *m, uintptr_t address, struct patch_vma *out,
                         char *name, size_t name_size)
{
    struct query q = {.size = sizeof(q), .address = address};
    long r;

    if (name) {
        q.name = (uintptr_t)name;
        q.name_size = (uint32_t)name_size;
        name[0] = 0;
    }
    do {
        r = SYS3(m->sys, SYS_ioctl, m->fd, PROCMAP_QUERY, &q);
    } while (r == -EINTR);
    if (r < 0)
        return (int)r;
    m->answered = 1;
    if (name)
        name[q.name_size ? q.name_size - 1 : 0] = 0;
    out->start = q.start;
    out->end = q.end;
    out->prot = (q.vma_flags & VMA_READABLE ? PROT_READ : 0) |
                (q.vma_flags & VMA_WRITABLE ? PROT_WRITE : 0) |
                (q.vma_flags & VMA_EXECUTABLE ? PROT_EXEC : 0);
    out->shared = !!(q.vma_flags & VMA_SHARED);
    out->page_size = q.page_size;
    out->offset = q.offset;
    out->device = ((uint64_t)q.major << 32) | q.minor;
    out->inode = q.inode;
    return 0;
}

/* ---- lines ---- */

/* The next character, or -1: the end, or a read error. */
static int next_character(struct patch_maps *m)
{
    if (m->next == m->fill) {
        long n;
        do {
            n = sys_read(m->sys, m->fd, m->buffer, sizeof(m->buffer));
        } while (n == -EINTR);
        if (n <= 0) {
            m->ended = n == 0;
            return -1;
        }
        m->fill = (size_t)n;
        m->next = 0;
    }
    return (unsigned char)m->buffer[m->next++];
}

/* Reads a number up to the character `stop`. */
static int number(struct patch_maps *m, unsigned base, int stop, uint64_t *out)
{
    uint64_t value = 0;
    int c;

    while ((c = next_character(m)) >= 0 && c != stop) {
        unsigned digit = c <= '9' ? (unsigned)c - '0' : ((unsigned)c | 32) - 'a' + 10;
        if (digit >= base)
            return -EIO;
        value = value * base + digit;
    }
    *out = value;
    return c < 0 ? -EIO : 0;
}

/* start-end rwxp offset major:minor inode     name */
static int line(struct patch_maps *m, struct patch_vma *v, char *name, size_t name_size)
{
    uint64_t major = 0, minor = 0;
    size_t length = 0;
    int c, r = number(m, 16, '-', &v->start);

    if (r)
        return r;
    r = number(m, 16, ' ', &v->end);
    if (r)
        return r;
    v->prot = next_character(m) == 'r' ? PROT_READ : 0;
    v->prot |= next_character(m) == 'w' ? PROT_WRITE : 0;
    v->prot |= next_character(m) == 'x' ? PROT_EXEC : 0;
    v->shared = next_character(m) != 'p';
    v->page_size = 0;
    next_character(m);
    if ((r = number(m, 16, ' ', &v->offset)) || (r = number(m, 16, ':', &major)) ||
        (r = number(m, 16, ' ', &minor)))
        return r;
    v->device = (major << 32) | minor;
    v->inode = 0;
    while ((c = next_character(m)) >= '0' && c <= '9')
        v->inode = v->inode * 10 + (unsigned)(c - '0');
    while (c == ' ')
        c = next_character(m);
    for (; c >= 0 && c != '\n'; c = next_character(m)) {
        if (name && length + 1 < name_size)
            name[length++] = (char)c;
    }
    if (name && name_size)
        name[length] = 0;
    return 0;
}

static int find_by_line(struct patch_maps *m, uintptr_t address, struct patch_vma *out,
                        char *name, size_t name_size)
{
    /* The line that ended the last search may be the answer to this one. */
    while (m->last.end <= address) {
        if (line(m, &m->last, name, name_size)) {
            m->unread |= !m->ended;
            m->last = (struct patch_vma){.start = ~0UL, .end = ~0UL};
            return -ENOENT;
        }
    }
    *out = m->last;
    return out->start <= address ? 0 : -ENOENT;
}

int patch_maps_find(struct patch_maps *m, uintptr_t address, struct patch_vma *out, char *name,
                    size_t name_size)
{
    if (!m->text) {
        int r = find_by_ioctl(m, address, out, name, name_size);
        if (r == 0 || r == -ENOENT)
            return r;
        m->text = 1; /* too old, or filtered */
    }
    return find_by_line(m, address, out, name, name_size);
}
