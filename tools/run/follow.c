/* SPDX-License-Identifier: MIT
 *
 * follow.c: see follow.h.
 *
 * What a thread needs at a stop is in its stop, its registers and /proc: nothing is kept from one stop to the next,
 * so that nothing is wrong when a thread, a process or this tracer is killed in between.
 */
#include "tools/run/follow.h"
#include "tools/run/itself.h"
#include "tools/run/program.h"
#include "tools/attach/attach.h"
#include "tools/common/tools.h"

#include "rimf/base/base.h"
#include "rimf/elf/headers.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether the process has the same file under this path as we: it may have other mounts, or another root folder. */
static int is_same(pid_t pid, const char *path)
{
    char there[PATH_MAX + 32];
    struct stat a, b;

    snprintf(there, sizeof there, "/proc/%d/root%s", (int)pid, path);
    return !stat(path, &a) && !stat(there, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* By the rules for the program itself. */
static const char *begin(const struct tracing *t, pid_t pid)
{
    struct program p;
    char name[32];

    snprintf(name, sizeof name, "/proc/%d/exe", (int)pid);
    if (program_open(&p, name))
        return NULL;
    free(p.path);
    if (p.kind != PROGRAM_PLAIN || memory_is_short(pid) || !is_same(pid, "/") || !is_same(pid, t->loader) ||
        !is_same(pid, p.interpreter))
        return NULL;
    return tracer_exchange(t, pid);
}

/* Where the file has the names of its dynamic symbols and libraries; 0: nowhere. */
static uint64_t find_names(int fd, uint64_t *size)
{
    _Alignas(8) char head[4096];
    ssize_t got = pread(fd, head, sizeof head, 0);
    Elf64_Dyn dynamic[128] = {{0}};
    uint64_t strings = 0;
    size_t headers;
    const Elf64_Phdr *ph = got > 0 ? elf_headers(head, (size_t)got, &headers) : NULL;

    for (size_t i = 0; ph && i < headers; i++)
        if (ph[i].p_type == PT_DYNAMIC && pread(fd, dynamic, sizeof dynamic - sizeof *dynamic, (off_t)ph[i].p_offset) < 0)
            return 0;
    for (const Elf64_Dyn *d = dynamic; d->d_tag != DT_NULL; d++) {
        strings = d->d_tag == DT_STRTAB ? d->d_un.d_ptr : strings;
        *size = d->d_tag == DT_STRSZ ? d->d_un.d_val : *size;
    }
    for (size_t i = 0; ph && i < headers; i++)
        if (ph[i].p_type == PT_LOAD && strings - ph[i].p_vaddr < ph[i].p_filesz &&
            *size <= ph[i].p_filesz - (strings - ph[i].p_vaddr))
            return strings - ph[i].p_vaddr + ph[i].p_offset;
    return 0;
}

static int is_sign(const char *name)
{
    return !strcmp(name, "ptrace") || !strncmp(name, "__asan_", 7) || !strncmp(name, "__lsan_", 7) ||
           !strncmp(name, "liblsan.", 8);
}

/* Whether it may trace others, or itself, as leak sanitizers do: then nobody else can. */
static int is_tracer(pid_t pid)
{
    struct stat st;
    char file[32];
    uint64_t size = 0;
    int found = 0;

    snprintf(file, sizeof file, "/proc/%d/exe", (int)pid);
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    uint64_t from = fd < 0 || fstat(fd, &st) ? 0 : find_names(fd, &size), page = rimf_page_down(from), end = from + size;
    int is_whole = from && size && from < (uint64_t)st.st_size && size <= (uint64_t)st.st_size - from;
    /* If such a file is truncated in this moment, which the kernel hardly allows, this tracer ends by SIGBUS. */
    char *names = is_whole ? mmap(NULL, end - page, PROT_READ, MAP_PRIVATE, fd, (off_t)page) : MAP_FAILED;
    if (names != MAP_FAILED) {
        const char *last = names + (end - page) - 1;
        for (const char *name = names + (from - page); !*last && name <= last && !found; name += strlen(name) + 1)
            found = is_sign(name);
        munmap(names, end - page);
    }
    if (fd >= 0)
        close(fd);
    return found;
}

/* The signal that the thread gets.  A signal that it ignores, and SIGCONT while it runs, interrupt no untraced thread. */
static int mend(pid_t pid, int event, int signal)
{
    struct user_regs_struct r;
    int taken_back = 0;

    if (!ptrace(PTRACE_GETREGS, pid, 0, &r) && r.cs == CODE64) {
        taken_back = !event && signal == SIGTRAP && tracer_take_back(pid, &r);
        if (taken_back || attach_mend_call(&r))
            ptrace(PTRACE_SETREGS, pid, 0, &r);
    }
    return event || taken_back ? 0 : signal;
}

void follow_descendants(const struct tracing *t)
{
    const char *why = begin(t, t->pid);
    int event, signal, detach = is_tracer(t->pid);

    if (why)
        complain(t->name, "%s: started without mvld: %s", t->file, why);
    close(STDERR_FILENO); /* a reader of a pipe must not wait for us, nor an unmount */
    if (chdir("/"))
        return;
    ptrace(detach ? PTRACE_DETACH : PTRACE_CONT, t->pid, 0, 0);
    for (pid_t pid; (pid = tracer_wait(&event, &signal)) > 0;) {
        if (event == PTRACE_EVENT_STOP && signal != SIGTRAP) {
            ptrace(PTRACE_LISTEN, pid, 0, 0);
            continue;
        }
        if (event == PTRACE_EVENT_EXEC)
            begin(t, pid);
        detach = event == PTRACE_EVENT_EXEC && is_tracer(pid);
        signal = !event || event == PTRACE_EVENT_STOP ? mend(pid, event, signal) : 0;
        ptrace(detach ? PTRACE_DETACH : PTRACE_CONT, pid, 0, signal);
    }
}
