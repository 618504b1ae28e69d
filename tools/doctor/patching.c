/* SPDX-License-Identifier: MIT
 *
 * doctor/patching.c: whether a process may change its own code, and by which method.
 *
 * Each method is tried in a child, on a page of code that is mapped privately
 * from this command's file, as code of every object is: SELinux and others look
 * at that.  The page gets a function, the child calls it, and dies.
 */
#include "tools/doctor/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#define PR_GET_MDWE 66
#endif
#define MDWE_REFUSE_EXEC_GAIN 1UL

#define PAGE 4096u

static const unsigned char answer[] = {
    0xb8, 0x2a, 0x00, 0x00, 0x00, /* mov $42, %eax */
    0xc3,                         /* ret */
};

/* A child's result. */
struct outcome {
    const char *step; /* a literal: the same address in parent and child */
    int error;
    int works;
};

struct method {
    const char *name;
    int (*write)(unsigned char *page, struct outcome *);
    const char *remedy;
};

static int failed(struct outcome *o, const char *step)
{
    o->error = errno;
    o->step = step;
    return -1;
}

static int write_mprotect(unsigned char *page, struct outcome *o)
{
    if (mprotect(page, PAGE, PROT_READ | PROT_WRITE))
        return failed(o, "mprotect to RW-");
    memcpy(page, answer, sizeof answer);
    if (mprotect(page, PAGE, PROT_READ | PROT_EXEC))
        return failed(o, "mprotect back to R-X");
    return 0;
}

/* Prepared in other memory, and moved over the page. */
static int write_remap(unsigned char *page, struct outcome *o)
{
    unsigned char *aside =
        mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (aside == MAP_FAILED)
        return failed(o, "mmap");
    memcpy(aside, page, PAGE);
    memcpy(aside, answer, sizeof answer);
    if (mprotect(aside, PAGE, PROT_READ | PROT_EXEC))
        return failed(o, "mprotect of a page aside to R-X");
    if (mremap(aside, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, page) != page)
        return failed(o, "mremap over the code");
    return 0;
}

static int write_selfmem(unsigned char *page, struct outcome *o)
{
    int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return failed(o, "open of /proc/self/mem");
    if (pwrite(fd, answer, sizeof answer, (off_t)(uintptr_t)page) != (ssize_t)sizeof answer)
        return failed(o, "pwrite to /proc/self/mem");
    close(fd);
    return 0;
}

static void child(const struct method *m, int mdwe, struct outcome *o)
{
    int (*function)(void);
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

    if (mdwe && prctl(PR_SET_MDWE, MDWE_REFUSE_EXEC_GAIN, 0, 0, 0)) {
        failed(o, "prctl(PR_SET_MDWE)");
        _exit(1);
    }
    unsigned char *page = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    if (page == MAP_FAILED) {
        failed(o, "mmap of code");
        _exit(1);
    }
    if (m->write(page, o))
        _exit(1);
    memcpy(&function, &page, sizeof function);
    o->works = function() == 42;
    _exit(0);
}

/* The child's outcome; a signal that killed it also counts as an error. */
static struct outcome try_method(const struct method *m, int mdwe)
{
    struct outcome *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct outcome o = {.step = "mmap", .error = ENOMEM};
    if (shared == MAP_FAILED)
        return o;
    fflush(stdout); /* or the child may print it again */
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        child(m, mdwe, shared);
    if (pid < 0) {
        failed(shared, "fork");
    } else {
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        if (WIFSIGNALED(status))
            *shared = (struct outcome){.step = strsignal(WTERMSIG(status))};
    }
    o = *shared;
    munmap(shared, sizeof *shared);
    return o;
}

static const struct method methods[] = {
    {"mprotect", write_mprotect, "allow it: SELinux permission execmod, or no PR_SET_MDWE"},
    {"remap", write_remap, "allow it: SELinux permission execmem, or no PR_SET_MDWE"},
    {"selfmem", write_selfmem,
     "mount /proc; boot with proc_mem.force_override=always; no sandbox that hides /proc"},
};
#define N_METHODS (sizeof methods / sizeof *methods)

static void report_method(struct report *r, const struct method *m, struct outcome o)
{
    if (o.works)
        report_finding(r, m->name, FINDING_OK, NULL, "code can be changed this way");
    else if (o.error)
        report_finding(r, m->name, FINDING_ABSENT, m->remedy, "%s: %s", o.step,
                       strerror(o.error));
    else
        report_finding(r, m->name, FINDING_ABSENT, m->remedy, "%s",
                       o.step ? o.step : "the new code did not take effect");
}

static void report_mdwe(struct report *r)
{
    char works[64] = "";
    long state = prctl(PR_GET_MDWE, 0, 0, 0, 0);

    if (state < 0) {
        report_finding(r, "PR_SET_MDWE", FINDING_OK, NULL,
                       "this kernel does not know it: nothing forbids executable pages");
        return;
    }
    for (size_t i = 0; i < N_METHODS; i++) {
        if (!try_method(&methods[i], 1).works)
            continue;
        strcat(works, *works ? ", " : "");
        strcat(works, methods[i].name);
    }
    report_finding(r, "PR_SET_MDWE", *works ? FINDING_OK : FINDING_ABSENT, NULL,
                   "%s here; a process that sets it can be patched by: %s",
                   state & 1 ? "set" : "not set", *works ? works : "nothing");
}

static void report_selinux(struct report *r)
{
    char enforce[8];
    if (read_line("/sys/fs/selinux/enforce", enforce, sizeof enforce))
        report_finding(r, "SELinux", FINDING_OK, NULL, "not active");
    else
        report_finding(r, "SELinux", FINDING_OK, NULL, "%s",
                       *enforce == '1' ? "enforcing: other domains may be allowed less than this"
                                       : "permissive");
}

static void report_membarrier(struct report *r)
{
    static const char *const name = "membarrier SYNC_CORE";
    long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
    const char *remedy = "a kernel with CONFIG_MEMBARRIER; no seccomp filter that refuses it";

    if (commands < 0)
        report_finding(r, name, FINDING_ABSENT, remedy, "membarrier: %s", strerror(errno));
    else if (!(commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE))
        report_finding(r, name, FINDING_ABSENT, remedy, "this kernel does not offer it");
    else if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0) ||
             syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0))
        report_finding(r, name, FINDING_ABSENT, remedy, "%s", strerror(errno));
    else
        report_finding(r, name, FINDING_OK, NULL, "code can be changed while threads run it");
}

void doctor_patching(struct report *r)
{
    unsigned works = 0;

    report_heading(r, "Patching code");
    for (size_t i = 0; i < N_METHODS; i++) {
        struct outcome o = try_method(&methods[i], 0);
        works += o.works != 0;
        report_method(r, &methods[i], o);
    }
    if (!works)
        report_finding(r, "any method", FINDING_PROBLEM, NULL,
                       "no process here may change its code: passes that patch cannot work");
    report_mdwe(r);
    report_selinux(r);
    report_membarrier(r);
}
