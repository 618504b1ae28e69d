/* SPDX-License-Identifier: MIT
 *
 * itself.c: see itself.h.
 *
 *     this process ──┬── execv ── the program, under our loader
 *       child ───────┘                │ traced at the end of execv
 *         tracer, its child: init's as soon as the child has ended
 *
 * Both share this process's memory: nothing is copied, and after execv only the tracer has it.
 */
#include "tools/run/itself.h"
#include "tools/run/program.h"
#include "tools/run/tracer.h"
#include "tools/common/tools.h"

#include "loader/start/exchange.h"
#include "rimf/base/base.h"
#include "rimf/elf/headers.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define HEAD 4096 /* contains the ELF header, program headers and notes */
#define OWN_STACK 8192
#define STACK 65536
#define DATA_SHORT (1u << 20) /* the loader needs 21 KB, and a pass some 100 */
#define ADDRESSES_SHORT (8u << 20) /* a program needs 2.6 MB, and with the loader 3.5 */

int memory_is_short(pid_t pid)
{
    struct rlimit data, addresses;

    return prlimit(pid, RLIMIT_DATA, NULL, &data) || data.rlim_cur < DATA_SHORT ||
           prlimit(pid, RLIMIT_AS, NULL, &addresses) || addresses.rlim_cur < ADDRESSES_SHORT;
}

/* Reads the start of the loader's file.  NULL, or why the file cannot be executed. */
static const char *read_head(const char *loader, char head[static HEAD], const Elf64_Phdr **ph, size_t *headers)
{
    struct stat st;
    int fd = open(loader, O_RDONLY | O_CLOEXEC), error;
    ssize_t got = fd < 0 || fstat(fd, &st) ? -1 : pread(fd, head, HEAD, 0);

    error = errno;
    if (fd >= 0)
        close(fd);
    if (got < 0)
        return strerror(error);
    *ph = elf_headers(head, (size_t)got, headers);
    for (size_t i = 0; i < *headers; i++)
        if ((*ph)[i].p_offset > (uint64_t)st.st_size || (*ph)[i].p_filesz > (uint64_t)st.st_size - (*ph)[i].p_offset)
            return "it is truncated";
    return *ph ? NULL : "it is no ELF file";
}

const char *loader_damage(const char *loader)
{
    _Alignas(8) char head[HEAD];
    const Elf64_Phdr *ph;
    size_t headers;

    return access(loader, X_OK) ? strerror(errno) : read_head(loader, head, &ph, &headers);
}

/* Finds our loader's entry for this.  NULL, or why there is none. */
static const char *read_loader(struct tracing *t, const char *loader)
{
    _Alignas(8) char head[HEAD] = {0};
    const Elf64_Phdr *ph;
    size_t headers;
    const char *damage = read_head(loader, head, &ph, &headers);

    if (damage)
        return damage;
    for (size_t i = 0; i < headers; i++) {
        size_t at = ph[i].p_offset, n;
        const unsigned char *desc;

        if (ph[i].p_type == PT_LOAD && !t->text && !at && !ph[i].p_vaddr && ph[i].p_flags & PF_X)
            t->text = rimf_page_up(ph[i].p_filesz);
        if (ph[i].p_type != PT_NOTE || at > sizeof head || ph[i].p_filesz > sizeof head - at)
            continue;
        desc = program_note((const unsigned char *)head + at, ph[i].p_filesz, "mvld", EXCHANGE_NOTE, &n);
        if (desc && n == sizeof(int32_t))
            t->enter = (uint64_t)(desc - (const unsigned char *)head) + (uint64_t)*(const int32_t *)(const void *)desc;
    }
    return t->enter < t->text ? NULL : "this loader is none that takes an interpreter's place";
}

/* The tracer must not become a child of the program: it would if this process adopts orphans. */
static const char *adopts(void)
{
    int subreaper = 0;

    prctl(PR_GET_CHILD_SUBREAPER, &subreaper);
    return getpid() == 1 ? "it would be process 1" : subreaper ? "it would adopt processes" : NULL;
}

struct child {
    struct tracing *tracing;
    char *stacks; /* one below the other: its own, and the tracer's */
    pid_t tracer; /* or -errno */
};

static int become_parent(void *cookie)
{
    struct child *c = cookie;

    setsid(); /* signals to the program's group are not for us */
    c->tracer = clone(trace_execution, c->stacks + OWN_STACK + STACK, CLONE_VM | SIGCHLD, c->tracing);
    if (c->tracer < 0)
        c->tracer = -errno;
    return 0;
}

/* The tracer's pid, or -errno.  No signal tells of its parent, and its CPU time is not added to
 * ours, as long as there is no other child, whose end the kernel would then forget. */
static pid_t start_orphan(struct tracing *t)
{
    struct child c = {t, NULL, -EAGAIN};
    struct sigaction before, ignore = {.sa_handler = SIG_IGN};
    siginfo_t info;
    int status, alone = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) && errno == ECHILD;

    /* Shared, since that does not count as data (RLIMIT_DATA). */
    c.stacks = mmap(NULL, OWN_STACK + STACK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (c.stacks == MAP_FAILED)
        return -errno;
    if (alone)
        sigaction(SIGCHLD, &ignore, &before);
    pid_t child = clone(become_parent, c.stacks + OWN_STACK, CLONE_VM | (alone ? SIGCHLD : 0), &c);
    if (child < 0)
        c.tracer = -errno;
    else /* SIGSTOP for our group may stop the child just before it leaves; the group's SIGCONT then misses it. */
        while (waitpid(child, &status, __WALL | WUNTRACED) == child && WIFSTOPPED(status))
            kill(child, SIGCONT);
    if (alone)
        sigaction(SIGCHLD, &before, NULL);
    return c.tracer;
}

/* Sets the mask of blocked signals, and returns the one before.  A C library's sigprocmask leaves out signals that it
 * keeps for itself: musl's also SIGRTMIN, which the program may have been given blocked. */
static uint64_t block(uint64_t mask)
{
    uint64_t before = 0;

    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, &before, sizeof mask);
    return before;
}

/* 0: it traces us.  Its pid is given to the kernel as permitted (Yama). */
static int let_trace(const struct tracing *t, pid_t tracer)
{
    int error = 0;

#ifdef PR_SET_PTRACER
    prctl(PR_SET_PTRACER, (unsigned long)tracer, 0, 0, 0);
#endif
    if (send(t->other, "", 1, MSG_NOSIGNAL) != 1 || recv(t->other, &error, sizeof error, MSG_WAITALL) != sizeof error)
        return ECONNRESET;
    return error;
}

const char *execute_itself(const char *loader, const char *file, char **argv, int must,
                           void (*follow)(const struct tracing *))
{
    static char why[256];
    struct tracing t = {.pid = getpid(), .must = must, .name = must ? "build" : "run", .file = file, .follow = follow};
    uint64_t before;
    int pair[2], error;
    char end;
    const char *wrong = adopts();

    t.loader = realpath(loader, NULL);
    if (!wrong)
        wrong = t.loader ? read_loader(&t, t.loader) : strerror(errno);
    if (wrong)
        return wrong;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
        snprintf(why, sizeof why, "no pair of sockets: %s", strerror(errno));
        return why;
    }
    t.own = pair[0];
    t.other = pair[1];
    fflush(NULL);
    before = block(~UINT64_C(0));
    pid_t tracer = start_orphan(&t);
    close(t.own);
    error = tracer < 0 ? -tracer : let_trace(&t, tracer);
    block(before);
    if (!error) {
        execvp(file, argv); /* by its path; see run.c */
        error = errno;
        if (error != EPERM && error != EACCES) /* which may be the tracer's fault */
            return NULL;
        kill(tracer, SIGKILL);
    }
    /* The tracer must end first: proot ends with the status of the process that ends last. */
    recv(t.other, &end, 1, 0);
    close(t.other);
    snprintf(why, sizeof why, "no process may trace it: %s", strerror(error));
    return why;
}
