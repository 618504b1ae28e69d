/* SPDX-License-Identifier: MIT
 *
 * tracer.c: see tracer.h.
 *
 * It stops the program once, when execv is complete and none of it has run.  What it writes has no
 * effect before its last write, which is in one page and therefore done or not done: whenever this
 * process ends, the other one continues, under its own interpreter before that write and under our
 * loader after it.
 */
#include "tools/run/tracer.h"
#include "tools/attach/attach.h"
#include "tools/common/tools.h"

#include "loader/start/exchange.h"
#include "rimf/base/base.h"
#include "rimf/elf/headers.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_close_range /* Linux 5.9 */
#define SYS_close_range 436
#endif

#define STUB_ADDRESS 2   /* offset of the address of the struct exchange in the stub */
#define NEAR_JUMP 5      /* bytes: e9 and a distance */
#define FREE_BELOW 256   /* bytes below the stack pointer that nobody writes to meanwhile */
#define INT3 0xcc

extern const unsigned char run_stub[], run_stub_end[], run_stub_failed[];

/* ---- before execv ---------------------------------------------------------------------- */

/* Closes files of the program: a reader of a pipe must not wait for us.  Standard error stays open,
 * for messages. */
static void close_files(const struct tracing *t)
{
    int kept = t->own;

    close(t->other);
    if (kept <= STDERR_FILENO)
        return; /* there are none, or few */
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    if (kept > STDERR_FILENO + 1)
        syscall(SYS_close_range, STDERR_FILENO + 1, kept - 1, 0);
    syscall(SYS_close_range, kept + 1, ~0u, 0);
}

static int open_memory(pid_t pid)
{
    char name[32];

    snprintf(name, sizeof name, "/proc/%d/mem", (int)pid);
    return open(name, O_RDWR | O_CLOEXEC);
}

/* The kernel may refuse writes to read-only memory: tried with a byte of ours, which does not
 * change. */
static int try_memory(pid_t pid)
{
    int fd = open_memory(pid), error = 0;

    if (fd < 0)
        return errno;
    if (pwrite(fd, run_stub, 1, (off_t)(uintptr_t)run_stub) != 1)
        error = errno;
    close(fd);
    return error;
}

static int seize(const struct tracing *t)
{
    long options = PTRACE_O_TRACEEXEC | (t->must ? PTRACE_O_EXITKILL : 0) |
                   (t->follow ? PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE : 0);

    return ptrace(PTRACE_SEIZE, t->pid, 0, options) ? errno : try_memory(t->pid);
}

pid_t tracer_wait(int *event, int *signal)
{
    siginfo_t info = {0};
    int status;

    while (!waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOWAIT | __WALL)) {
        int stops = info.si_code == CLD_TRAPPED || info.si_code == CLD_STOPPED;
        *event = 0;
        *signal = info.si_status;
        if (stops && !(info.si_status >> 8))
            return info.si_pid;
        /* A stop at execve by a thread that is not read forbids all requests.  The execve of another thread may end it
         * meanwhile, and waits until we have read the ends of all the others. */
        if (waitpid(info.si_pid, &status, __WALL | WNOHANG) == info.si_pid && WIFSTOPPED(status)) {
            *event = status >> 16;
            *signal = WSTOPSIG(status);
            return info.si_pid;
        }
    }
    return -1;
}

/* Signals reach the program as usual, and stop and continue it.  0: it has ended. */
static int wait_for_exec(pid_t pid)
{
    for (;;) {
        int event, signal;

        if (tracer_wait(&event, &signal) != pid)
            return 0;
        if (event == PTRACE_EVENT_EXEC)
            return 1;
        if (event == PTRACE_EVENT_STOP && signal != SIGTRAP)
            ptrace(PTRACE_LISTEN, pid, 0, 0);
        else
            ptrace(PTRACE_CONT, pid, 0, event ? 0 : signal);
    }
}

/* ---- behind it ----------------------------------------------------------------------------- */

static int read_memory(int fd, uint64_t at, void *to, size_t n)
{
    return pread(fd, to, n, (off_t)at) == (ssize_t)n;
}

static int write_memory(int fd, uint64_t at, const void *from, size_t n)
{
    return pwrite(fd, from, n, (off_t)at) == (ssize_t)n;
}

/* Reads values of auxv, which follows the environment.  Missing ones are 0. */
static int read_auxv(int fd, uint64_t sp, uint64_t *base, uint64_t *secure)
{
    enum { ENVIRONMENT, TYPE, VALUE } next = ENVIRONMENT;
    uint64_t argc, type = AT_NULL, words[256];

    *base = *secure = 0;
    if (!read_memory(fd, sp, &argc, sizeof argc))
        return 0;
    for (uint64_t at = sp + (argc + 2) * sizeof argc;;) {
        ssize_t n = pread(fd, words, sizeof words, (off_t)at);
        if (n < (ssize_t)sizeof *words)
            return 0;
        n /= (ssize_t)sizeof *words;
        for (ssize_t i = 0; i < n; i++) {
            if (next == ENVIRONMENT) {
                next = words[i] ? ENVIRONMENT : TYPE;
            } else if (next == TYPE) {
                type = words[i];
                next = VALUE;
                if (type == AT_NULL)
                    return 1;
            } else {
                next = TYPE;
                if (type == AT_BASE)
                    *base = words[i];
                else if (type == AT_SECURE)
                    *secure = words[i];
            }
        }
        at += (uint64_t)n * sizeof *words;
    }
}

/* The end of the interpreter; 0: not one that starts at `entry`. */
static uint64_t interpreter_end(int fd, uint64_t base, uint64_t entry)
{
    _Alignas(8) char head[4096];
    uint64_t end = 0;
    size_t n;

    if (!read_memory(fd, base, head, sizeof head))
        return 0;
    const Elf64_Phdr *ph = elf_headers(head, sizeof head, &n);
    if (!ph || base + ((const Elf64_Ehdr *)(const void *)head)->e_entry != entry)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (ph[i].p_type == PT_LOAD && ph[i].p_vaddr + ph[i].p_memsz > end)
            end = ph[i].p_vaddr + ph[i].p_memsz;
    return rimf_page_up(base + end);
}

/* Places the stub at the entry, or before it with a jump, all in one page.  Sets its offset in
 * x->code; 0: impossible. */
static int place_stub(unsigned char *code, uint64_t stub_reads, struct exchange *x)
{
    size_t n = (size_t)(run_stub_end - run_stub), left = RIMF_PAGE - x->entry % RIMF_PAGE;
    int32_t back = -(int32_t)(n + NEAR_JUMP);

    memcpy(code, run_stub, n);
    memcpy(code + STUB_ADDRESS, &stub_reads, sizeof stub_reads);
    x->code = x->entry;
    x->code_size = n;
    if (left >= n)
        return 1;
    code[n] = 0xe9; /* jmp */
    memcpy(code + n + 1, &back, sizeof back);
    x->code -= n;
    x->code_size += NEAR_JUMP;
    return left >= NEAR_JUMP && rimf_page_down(x->code) == rimf_page_down(x->entry);
}

/* NULL, or why the program starts under its own interpreter. */
static const char *exchange(const struct tracing *t, pid_t pid, int fd)
{
    struct user_regs_struct r;
    unsigned char code[EXCHANGE_CODE + NEAR_JUMP];
    union {
        struct exchange x;
        char room[sizeof(struct exchange) + PATH_MAX];
    } whole = {0};
    struct exchange *x = &whole.x;
    size_t size = sizeof(struct exchange) + strlen(t->loader) + 1;
    uint64_t secure;

    if (fd < 0 || ptrace(PTRACE_GETREGS, pid, 0, &r))
        return strerror(errno);
    if (r.cs != CODE64)
        return "it is no 64-bit program";
    if (!read_auxv(fd, r.rsp, &x->base, &secure))
        return "its stack cannot be read";
    if (secure)
        return "it has other rights";
    x->stack = r.rsp;
    x->entry = r.rip;
    x->text = t->text;
    x->enter = t->enter;
    x->end = x->base ? interpreter_end(fd, x->base, r.rip) : 0;
    if (!x->end)
        return "it is not at an interpreter's entry";
    memcpy(x->path, t->loader, strlen(t->loader) + 1);
    uint64_t at = (r.rsp - FREE_BELOW - size) & ~63ull;
    if (!place_stub(code, at, x) || x->code_size > EXCHANGE_CODE)
        return "there is no room at its interpreter's entry";
    if (t->follow)
        code[run_stub_failed - run_stub] = INT3;
    if (!read_memory(fd, x->code, x->original, x->code_size) || !write_memory(fd, at, x, size) ||
        !write_memory(fd, x->code, code, x->code_size))
        return "its memory cannot be written to";
    return NULL;
}

const char *tracer_exchange(const struct tracing *t, pid_t pid)
{
    int fd = open_memory(pid);
    const char *why = exchange(t, pid, fd);

    if (fd >= 0)
        close(fd);
    return why;
}

/* The address at which the stub would stop by int3, by the struct exchange that rbx points to; 0: none.  Asked by
 * ptrace: until Linux 5.11 to open its memory waits for an execve of another of its threads, which may wait for us. */
static uint64_t stub_end(pid_t pid, const struct user_regs_struct *r)
{
    errno = 0;
    long code = ptrace(PTRACE_PEEKDATA, pid, r->rbx + offsetof(struct exchange, code), 0);
    return r->cs != CODE64 || errno ? 0 : (uint64_t)code + (uint64_t)(run_stub_failed - run_stub) + 1;
}

int tracer_take_back(pid_t pid, struct user_regs_struct *r)
{
    struct exchange x;
    int fd = r->rip == stub_end(pid, r) ? open_memory(pid) : -1, is_ours;

    if (fd < 0)
        return 0;
    is_ours = read_memory(fd, r->rbx, &x, sizeof x) && x.code_size <= sizeof x.original &&
              write_memory(fd, x.code, x.original, x.code_size);
    close(fd);
    if (!is_ours)
        return 0;
    /* The kernel gives a new program no other values. */
    r->rax = r->rbx = r->rcx = r->rdx = r->rsi = r->rdi = r->rbp = 0;
    r->r8 = r->r9 = r->r10 = r->r11 = r->r12 = r->r13 = r->r14 = r->r15 = 0;
    r->orig_rax = (uint64_t)-1;
    r->rip = x.entry;
    r->rsp = x.stack;
    return 1;
}

int trace_execution(void *tracing)
{
    const struct tracing *t = tracing;
    char go;
    int error;

    close_files(t);
    if (read(t->own, &go, 1) != 1)
        return 0;
    error = seize(t);
    if (write(t->own, &error, sizeof error) != sizeof error || error || !wait_for_exec(t->pid))
        return 0;
    if (t->follow) {
        t->follow(t);
        return 0;
    }
    const char *why = tracer_exchange(t, t->pid);
    if (why)
        complain(t->name, "%s: %s: %s", t->file, t->must ? "not started" : "started without mvld", why);
    if (why && t->must)
        kill(t->pid, SIGKILL);
    close(STDERR_FILENO);
    ptrace(PTRACE_DETACH, t->pid, 0, 0);
    return 0;
}
