/* SPDX-License-Identifier: MIT
 *
 * attach/process.c: whether a process may be reached, and its memory.
 */
#include "tools/attach/attach.h"
#include "tools/common/elf_file.h"
#include "tools/common/tools.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OTHERS_MS 10000 /* for which other tools are waited for */

char *attach_file(const struct attach *a, const char *name, size_t *size)
{
    int fd = openat(a->folder, name, O_RDONLY | O_CLOEXEC);
    char *text = NULL;
    size_t used = 0;
    ssize_t n;

    if (fd < 0)
        return NULL;
    do {
        text = must_grow(text, used + 4097, 1);
        n = read(fd, text + used, 4096);
        used += n > 0 ? (size_t)n : 0;
    } while (n > 0);
    close(fd);
    if (n < 0) {
        free(text);
        return NULL;
    }
    text[used] = 0;
    if (size)
        *size = used;
    return text;
}

#define EXITING 4u /* PF_EXITING, among the flags of its stat: its memory may be gone by now */

int attach_has_ended(const struct attach *a)
{
    char *stat = attach_file(a, "stat", NULL), *at = stat ? strrchr(stat, ')') : NULL, state;
    unsigned flags;
    int n = at ? sscanf(at + 1, " %c %*d %*d %*d %*d %*d %u", &state, &flags) : 0;

    free(stat);
    return n != 2 || state == 'Z' || state == 'X' || flags & EXITING;
}

enum { N_THREADS = 20, STARTTIME = 22 };

/* A field of the process's stat from the third on, as numbered in proc(5); 0: it is no number, or there is none. */
static uint64_t stat_number(const struct attach *a, int wanted)
{
    char *stat = attach_file(a, "stat", NULL), *at = stat ? strrchr(stat, ')') : NULL;
    uint64_t number;

    for (int field = 2; at && field < wanted; field++)
        at = strchr(at + 1, ' ');
    number = at ? strtoull(at, NULL, 10) : 0;
    free(stat);
    return number;
}

static uint64_t when_began(const struct attach *a)
{
    return stat_number(a, STARTTIME);
}

/* A process whose first thread alone has ended goes on. */
int attach_is_gone(const struct attach *a)
{
    return attach_has_ended(a) && stat_number(a, N_THREADS) <= 1;
}

int attach_has_executed(const struct attach *a)
{
    char byte;

    return a->memory >= 0 && pread(a->memory, &byte, 1, 0) == 0; /* an error (EIO), as long as there is memory */
}

/* If a process has ended meanwhile, or its memory is gone with its old program, whatever failed did so for that. */
int attach_fail(struct attach *a, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(a->why, sizeof a->why, format, args);
    va_end(args);
    if (a->folder >= 0 && attach_has_ended(a))
        snprintf(a->why, sizeof a->why, attach_is_gone(a) ? "process %d has ended"
                 : "process %d: its first thread has ended; it cannot be reached", a->pid);
    else if (attach_has_executed(a))
        snprintf(a->why, sizeof a->why, "process %d executes another program", a->pid);
    return -1;
}

/* The line of /proc/PID/status of this name, behind its colon; or "". */
static const char *status_line(const char *status, const char *name)
{
    size_t length = strlen(name);

    for (const char *line = status; line; line = strchr(line, '\n'), line += line != NULL)
        if (!strncmp(line, name, length) && line[length] == ':')
            return line + length + 1;
    return "";
}

unsigned long attach_status_number(const struct attach *a, pid_t thread, const char *name)
{
    char *status = attach_thread_file(a, thread, "status");
    unsigned long number = strtoul(status_line(status, name), NULL, 10);

    free(status);
    return number;
}

uint64_t attach_auxiliary(const struct attach *a, uint64_t type)
{
    size_t size = 0;
    char *bytes = attach_file(a, "auxv", &size);
    uint64_t value = 0;

    for (size_t i = 0; bytes && i + sizeof(Elf64_auxv_t) <= size; i += sizeof(Elf64_auxv_t)) {
        Elf64_auxv_t entry;

        memcpy(&entry, bytes + i, sizeof entry);
        if (entry.a_type == type)
            value = entry.a_un.a_val;
    }
    free(bytes);
    return value;
}

static int check_machine(struct attach *a)
{
    unsigned char head[EI_NIDENT];
    int fd = openat(a->folder, "exe", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, head, sizeof head);

    if (fd >= 0)
        close(fd);
    if (n == sizeof head && head[EI_CLASS] == ELFCLASS64)
        return 0;
    return attach_fail(a, n < 0 ? "process %d: its program cannot be read" : "process %d is no 64-bit process", a->pid);
}

/* Same user or root, and nothing that the kernel guards for the process. */
static int check_rights(struct attach *a, const char *status)
{
    unsigned long ids[4], groups[4];
    struct stat st;

    if (sscanf(status_line(status, "Uid"), "%lu %lu %lu %lu", &ids[0], &ids[1], &ids[2], &ids[3]) != 4 ||
        sscanf(status_line(status, "Gid"), "%lu %lu %lu %lu", &groups[0], &groups[1], &groups[2], &groups[3]) != 4 ||
        fstat(a->folder, &st))
        return attach_fail(a, "process %d: /proc does not say whose it is", a->pid);
    if (geteuid() && ids[1] != geteuid())
        return attach_fail(a, "process %d is another user's", a->pid);
    for (int i = 1; i < 4; i++)
        if (ids[i] != ids[0] || groups[i] != groups[0])
            return attach_fail(a, "process %d has rights that its user has not", a->pid);
    if (ids[0] && strtoull(status_line(status, "CapPrm"), NULL, 16))
        return attach_fail(a, "process %d has capabilities", a->pid);
    if (st.st_uid != ids[1])
        return attach_fail(a, "process %d keeps its memory to itself (it is not dumpable)", a->pid);
    if (attach_auxiliary(a, AT_SECURE)) /* or it is a 32-bit process, whose vector was misread */
        return check_machine(a) ? -1
                                : attach_fail(a, "process %d was started with rights that its user had not (AT_SECURE)",
                                              a->pid);
    return 0;
}

/* A child of vfork(2) has its parent's memory, and its parent's other threads execute what is changed there. */
static int has_parents_memory(const struct attach *a, const char *status)
{
    long parent = strtol(status_line(status, "PPid"), NULL, 10);

    return parent > 0 && syscall(SYS_kcmp, a->pid, parent, KCMP_VM, 0, 0) == 0;
}

/* Returns 0 if nobody traces it. */
static int check_tracer(struct attach *a, const char *status)
{
    unsigned long tracer = strtoul(status_line(status, "TracerPid"), NULL, 10);

    return !tracer || tracer == (unsigned long)getpid() ? 0 : attach_fail(a, "process %d is traced by process %lu", a->pid,
                                                                          tracer);
}

int attach_refused(struct attach *a, pid_t thread, int error)
{
    char *status = attach_thread_file(a, thread, "status");
    int is_denied = error == EPERM || error == EACCES;

    if (!is_denied || !check_tracer(a, status))
        attach_fail(a, is_denied ? "process %d: ptrace(2) is not allowed (kernel.yama.ptrace_scope): %s"
                                 : "process %d: ptrace(2): %s", a->pid, strerror(error));
    free(status);
    return -1;
}

static int check_kind(struct attach *a, const char *status)
{
    static const char shadow[] = "shstk";
    const char *features = status_line(status, "x86_Thread_features");

    while (*features == '\t' || *features == ' ')
        features++;
    if (check_tracer(a, status))
        return -1;
    if (strtoul(status_line(status, "Seccomp"), NULL, 10))
        return attach_fail(a, "process %d has a filter of system calls (seccomp), which may kill it for ours", a->pid);
    if (!strncmp(features, shadow, sizeof shadow - 1))
        return attach_fail(a, "process %d has a shadow stack", a->pid);
    if (strtoull(status_line(status, "VmSize"), NULL, 10) == 0)
        return attach_fail(a, "process %d has no memory: it is ending, or is the kernel's", a->pid);
    if (has_parents_memory(a, status))
        return attach_fail(a, "process %d uses its parent's memory until it executes a program (vfork)", a->pid);
    return 0;
}

/* A thread may have rights, or a filter, of its own. */
int attach_check(struct attach *a)
{
    char *status = a->thread ? attach_thread_file(a, a->thread, "status") : attach_file(a, "status", NULL);
    int err;

    if (!status || when_began(a) != a->began) {
        free(status);
        return attach_fail(a, "process %d has ended", a->pid);
    }
    err = check_rights(a, status) || check_kind(a, status) ? -1 : 0;
    free(status);
    return err;
}

/* Until this tool has closed it, or ended.  Who may open this file may reach the process, so nobody else can hold the
 * lock; who may not is told why by the checks behind this. */
static int lock(struct attach *a)
{
    a->lock = openat(a->folder, "mem", O_RDONLY | O_CLOEXEC);
    if (a->lock >= 0 && lock_within(a->lock, LOCK_EX, OTHERS_MS))
        return attach_fail(a, "process %d: another mvld is at it, and has not ended within %d s", a->pid, OTHERS_MS / 1000);
    return 0;
}

struct attach *attach_open(pid_t pid)
{
    struct attach *a = must_alloc(1, sizeof *a);
    char path[32];

    prctl(PR_SET_TIMERSLACK, 1); /* pauses of microseconds shall be that */
    a->pid = pid;
    a->memory = a->maps = a->lock = a->priority = -1;
    snprintf(path, sizeof path, "/proc/%d", pid);
    a->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (a->folder < 0) {
        attach_fail(a, "there is no process %d", pid);
        return a;
    }
    a->began = when_began(a);
    if (lock(a) || attach_check(a) || check_machine(a))
        return a;
    attach_open_priority(a);
    a->memory = openat(a->folder, "mem", O_RDWR | O_CLOEXEC);
    a->maps = openat(a->folder, "maps", O_RDONLY | O_CLOEXEC);
    if (a->memory < 0 || a->maps < 0)
        attach_refused(a, pid, errno);
    return a;
}

void attach_close(struct attach *a)
{
    attach_let_go(a);
    attach_end(a);
    if (a->stray)
        attach_release_late(a, a->stray, ATTACH_LATE_MS);
    attach_end_priority(a);
    for (size_t i = 0; i < a->n_objects; i++)
        free(a->objects[i].name);
    free(a->objects);
    if (a->elf)
        elf_file_close(a->elf);
    free(a->elf);
    if (a->memory >= 0)
        close(a->memory);
    if (a->maps >= 0)
        close(a->maps);
    if (a->lock >= 0)
        close(a->lock);
    if (a->folder >= 0)
        close(a->folder);
    free(a);
}

int attach_read(const struct attach *a, uint64_t address, void *to, size_t size)
{
    return pread(a->memory, to, size, (off_t)address) == (ssize_t)size ? 0 : -1;
}

int attach_write(const struct attach *a, uint64_t address, const void *from, size_t size)
{
    return pwrite(a->memory, from, size, (off_t)address) == (ssize_t)size ? 0 : -1;
}

struct query { /* the kernel's struct procmap_query */
    uint64_t size, flags, address, start, end, protection, page_size, offset, inode;
    uint32_t major, minor, name_size, id_size;
    uint64_t name, id;
};
#define QUERY _IOWR('f', 17, struct query) /* PROCMAP_QUERY */

/* Finds the mapping that contains the address: 0, or -1.  `protection` is as in "r-xp". */
static int find_mapping(const char *maps, uint64_t address, uint64_t *start, uint64_t *end, char protection[8])
{
    for (const char *line = maps; line && *line; line = strchr(line, '\n'), line += line != NULL)
        if (sscanf(line, "%lx-%lx %7s", start, end, protection) == 3 && address >= *start && address < *end)
            return 0;
    return -1;
}

int attach_mapping(const struct attach *a, uint64_t address, char **text, uint64_t *start, uint64_t *end)
{
    struct query q = {.size = sizeof q, .address = address};
    char protection[8];

    if (!*text && !ioctl(a->maps, QUERY, &q)) {
        *start = q.start;
        *end = q.end;
        return 0;
    }
    if (!*text && errno == ENOENT)
        return -1;
    if (!*text)
        *text = attach_file(a, "maps", NULL);
    return find_mapping(*text, address, start, end, protection);
}

/* Whether this range is in one mapping, which has the protection. */
static int is_mapped_as(const struct attach *a, uint64_t address, size_t size, char protection)
{
    struct query q = {.size = sizeof q, .address = address};
    char *maps, has[8];
    uint64_t start, end;
    int is;

    if (!ioctl(a->maps, QUERY, &q))
        return address + size <= q.end && q.protection & (protection == 'w' ? PROT_WRITE : PROT_EXEC);
    maps = attach_file(a, "maps", NULL);
    is = !find_mapping(maps, address, &start, &end, has) && address + size <= end && strchr(has, protection);
    free(maps);
    return is;
}

int attach_is_writable(const struct attach *a, uint64_t address, size_t size)
{
    return is_mapped_as(a, address, size, 'w');
}

int attach_is_code(const struct attach *a, uint64_t address)
{
    return is_mapped_as(a, address, 1, 'x');
}
