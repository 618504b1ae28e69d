/* SPDX-License-Identifier: MIT
 *
 * Preloaded: the process is killed at its KILLED_AT-th call of those with which it changes another one; with KILLS_PARENT
 * its parent is, and the call goes on when that has ended.  With NO_WCHAN it cannot learn in which function of the kernel
 * a thread waits.  With LATE it looks at a thread two seconds before it traces it, but for the thread of this number.
 * With SLOW it stops a thread two seconds after that has returned from a call.  With STRAY the first thread that is to be
 * stopped does not, as if it waited for a disk.
 * With STARVED threads that are stopped together stop after two seconds, as if they waited for a processor.
 * With RESTARTED it stops threads when the kernel has prepared their interrupted calls to be made again.
 * With UNLISTED=THREAD:N the first N lists of threads lack this thread, as where another one ends; every second of them has the
 * ended one.  The process ends with 99 if it writes code while this thread is not stopped.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ptrace.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static time_t starved; /* until then nobody is seen to stop */

static void count(void)
{
    static long calls, at;

    if (!at) {
        const char *text = getenv("KILLED_AT");

        at = text ? strtol(text, NULL, 10) : -1;
    }
    if (++calls != at)
        return;
    if (!getenv("KILLS_PARENT"))
        kill(getpid(), SIGKILL);
    for (pid_t parent = getppid(); getppid() == parent; usleep(100))
        kill(parent, SIGKILL);
}

long ptrace(int request, ...)
{
    static long (*real)(int, ...);
    static int last;
    va_list args;
    pid_t pid;
    void *address, *data;

    va_start(args, request);
    pid = va_arg(args, pid_t);
    address = va_arg(args, void *);
    data = va_arg(args, void *);
    va_end(args);
    if (!real)
        real = (long (*)(int, ...))dlsym(RTLD_NEXT, "ptrace");
    count();
    if (request == PTRACE_SEIZE && getenv("LATE") && pid != atoi(getenv("LATE")))
        sleep(2);
    if (request == PTRACE_INTERRUPT && last == PTRACE_CONT && getenv("SLOW"))
        sleep(2);
    last = request;
    if (request == PTRACE_SEIZE && !data && getenv("STARVED"))
        starved = starved ? starved : time(NULL) + 3;
    if (request == PTRACE_INTERRUPT && getenv("STRAY")) {
        unsetenv("STRAY");
        return 0;
    }
    if (request == PTRACE_GETREGS && !real(request, pid, address, data)) {
        struct user_regs_struct *r = data;

        if (getenv("RESTARTED") && (long)r->rax == -516) { /* ERESTART_RESTARTBLOCK */
            r->rax = SYS_restart_syscall;
            r->rip -= 2;
            real(PTRACE_SETREGS, pid, NULL, r);
        }
        return 0;
    }
    return real(request, pid, address, data);
}

pid_t waitpid(pid_t pid, int *status, int options)
{
    static pid_t (*real)(pid_t, int *, int);

    if (!real)
        real = (pid_t(*)(pid_t, int *, int))dlsym(RTLD_NEXT, "waitpid");
    return time(NULL) < starved ? 0 : real(pid, status, options);
}

struct dirent *readdir(DIR *folder)
{
    static struct dirent *(*real)(DIR *);
    static struct dirent ended = {.d_name = "4194304"}; /* no thread has this number */
    static long left = -1;
    const char *unlisted = getenv("UNLISTED");
    struct dirent *entry;

    if (!real)
        real = (struct dirent *(*)(DIR *))dlsym(RTLD_NEXT, "readdir");
    if (unlisted && left < 0)
        left = atol(strchr(unlisted, ':') + 1);
    entry = real(folder);
    if (!unlisted || !entry || atol(entry->d_name) != atol(unlisted) || left == 0)
        return entry;
    return left-- % 2 ? &ended : real(folder);
}

/* The bytes that `mvld patch` writes over code. */
static void check_unlisted(size_t size)
{
    const char *unlisted = getenv("UNLISTED");
    char path[64], state = 0;
    FILE *file;

    if (!unlisted || size != 5)
        return;
    snprintf(path, sizeof path, "/proc/%ld/stat", atol(unlisted));
    file = fopen(path, "re");
    if (!file || fscanf(file, "%*d (%*[^)]) %c", &state) != 1 || state != 't')
        _exit(99);
    fclose(file);
}

ssize_t pwrite(int fd, const void *from, size_t size, off_t at)
{
    static ssize_t (*real)(int, const void *, size_t, off_t);

    if (!real)
        real = (ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite");
    count();
    check_unlisted(size);
    return real(fd, from, size, at);
}

int openat(int folder, const char *path, int flags, ...)
{
    static int (*real)(int, const char *, int, ...);

    if (!real)
        real = (int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, "openat");
    if (getenv("NO_WCHAN") && strstr(path, "wchan")) {
        errno = ENOENT;
        return -1;
    }
    return real(folder, path, flags);
}
