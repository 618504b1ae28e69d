/* SPDX-License-Identifier: MIT
 *
 * Who commits often may have the descriptor of /proc/self/maps kept.  A failure means
 * that a program loses or finds a descriptor that it does not expect, or that code is
 * changed by what was true of another file, another process, or another time.
 */
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "sites.h"
#include "../../count_descriptors.h"

static struct patch_text t;
static int state = 1;
static long opened;

static void count_opens(struct patch_kernel *k, long nr)
{
    (void)k;
    opened += nr == SYS_openat;
}

static int commit_next(void)
{
    struct mvld_patch_report report;
    int r = patch_sites_commit(t.patcher, &state, &report);

    CHECK(r || report.refused == 0);
    return r;
}

/* Commits, and how many files were opened for it? */
static long opens(void)
{
    opened = 0;
    CHECK(commit_next() == 0, "(%s)", t.sentence);
    return opened;
}

/* The number of the kept descriptor, or -1. */
static int kept(void)
{
    char path[64], target[64] = "", own[64];

    snprintf(own, sizeof own, "/proc/%d/maps", (int)getpid());
    for (int fd = 512; fd < 1024; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(path, target, sizeof target - 1);
        if (n > 0 && !strncmp(target, own, (size_t)n) && own[n] == 0)
            return fd;
    }
    return -1;
}

static void only_when_asked_for(void)
{
    int before = count_descriptors();

    for (int i = 0; i < 20; i++)
        CHECK(opens() == 1);
    CHECK(kept() < 0 && count_descriptors() == before);
    rimf_patcher_often(t.patcher);
    CHECK(opens() == 1);
    CHECK(kept() >= 512 && count_descriptors() == before + 1);
    CHECK(fcntl(kept(), F_GETFD) == FD_CLOEXEC);
    for (int i = 0; i < 20; i++)
        CHECK(opens() == 0);
    CHECK(count_descriptors() == before + 1);
}

static void closed_by_the_program(void)
{
    close(kept());
    CHECK(kept() < 0);
    CHECK(opens() == 1 && kept() >= 512 && opens() == 0);
}

/* The number is now that of another process's mappings. */
static void replaced_by_the_program(void)
{
    int ends[2], fd = kept(), before, stranger;
    char path[64];
    struct stat was, is;
    pid_t other;

    CHECK(pipe(ends) == 0);
    other = fork();
    if (other == 0) {
        char c;

        close(ends[1]);
        munmap((void *)t.segment.start, 4096);
        _exit(read(ends[0], &c, 1) != 0);
    }
    snprintf(path, sizeof path, "/proc/%d/maps", (int)other);
    stranger = open(path, O_RDONLY);
    CHECK(stranger >= 0 && dup2(stranger, fd) == fd && fstat(fd, &was) == 0);
    before = count_descriptors();
    CHECK(opens() == 1 && opens() == 0);
    CHECK(fstat(fd, &is) == 0 && was.st_ino == is.st_ino && kept() != fd);
    CHECK(count_descriptors() == before + 1);
    close(fd);
    close(stranger);
    close(ends[0]);
    close(ends[1]);
    CHECK(waitpid(other, NULL, 0) == other);
}

/* A child asks what is mapped in itself, and keeps its own; so does its child. */
static void in_descendant(int before, int generations)
{
    pid_t child = generations & 1 ? fork() : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    int status;

    if (child == 0) {
        CHECK(rimf_patcher_set_method(t.patcher, "auto") == 0);
        CHECK(mprotect(t.code, t.size, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
        CHECK(commit_next() == -EFAULT);
        CHECK(mprotect(t.code, t.size, PROT_READ | PROT_EXEC) == 0);
        CHECK(opens() == 1 || kept() >= 512);
        CHECK(opens() == 0 && count_descriptors() == before);
        if (generations > 1)
            in_descendant(before, generations - 1);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0, "(status %x)", status);
    CHECK(opens() == 0 && count_descriptors() == before);
}

static void asked_by_children(void)
{
    in_descendant(count_descriptors(), 2);
    in_descendant(count_descriptors(), 3);
}

/* What is mapped is asked for anew, though by the same descriptor. */
static void mappings_change(void)
{
    CHECK(opens() == 0);
    CHECK(mprotect(t.code, t.size, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
    CHECK(commit_next() == -EFAULT);
    CHECK(mprotect(t.code, t.size, PROT_READ | PROT_EXEC) == 0);
    CHECK(opens() == 0);
}

static void no_room(void)
{
    struct rlimit old, low = {500, 500};

    CHECK(getrlimit(RLIMIT_NOFILE, &old) == 0);
    low.rlim_max = old.rlim_max;
    close(kept());
    CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0);
    CHECK(opens() == 1 && opens() == 1 && kept() < 0);
    CHECK(setrlimit(RLIMIT_NOFILE, &old) == 0);
    CHECK(opens() == 1 && kept() >= 512 && opens() == 0);
}

/* The kernel answers no more: lines are read, from a file that is opened for it. */
static void no_ioctl(void)
{
    t.kernel.fail_number = SYS_ioctl;
    t.kernel.fail_from = 1;
    t.kernel.error = -EPERM;
    CHECK(opens() == 0 && kept() < 0);
    CHECK(opens() == 1 && opens() == 1 && kept() < 0);
    t.kernel.fail_from = 0;
    t.kernel.fail_number = -1;
}

static void under_threads(void)
{
    int before = count_descriptors(), fd = kept();

    patch_park_thread();
    CHECK(opens() >= 1 && opens() >= 1);
    CHECK(kept() == fd && count_descriptors() == before);
}

/* Each system call of the first commit that keeps something fails in turn. */
static void calls_fail(void)
{
    static const int errors[] = {-ENOMEM, -EPERM, -EINTR, -EMFILE};
    int before = count_descriptors(), r;
    long calls = 100;

    for (size_t e = 0; e < sizeof(errors) / sizeof(*errors); e++)
        for (long i = 1; i <= calls; i++) {
            patch_text_engine(&t);
            rimf_patcher_often(t.patcher);
            t.kernel.calls = t.kernel.last = 0;
            t.kernel.error = errors[e];
            t.kernel.fail_at = i;
            r = commit_next();
            if (t.kernel.calls < i)
                calls = i; /* there was no such call */
            t.kernel.fail_at = 0;
            for (size_t site = 0; site < PATCH_SITES; site++)
                CHECK(patch_sites_table[site].caller() == state, "(%d)", r);
            /* A kernel that fails to answer once is not asked again. */
            CHECK(commit_next() == 0 && opens() ==
                  (t.kernel.last == SYS_ioctl && errors[e] != -EINTR));
            rimf_patcher_destroy(t.patcher);
            if (t.kernel.last == SYS_close) /* which was not made */
                before = count_descriptors();
            CHECK(count_descriptors() == before, "(call %ld, number %ld)", i, t.kernel.last);
        }
    patch_text_engine(&t);
}

static void in_child(void (*test)(void))
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        int before;

        patch_sites_open(&t);
        t.kernel.before = count_opens;
        before = count_descriptors();
        if (test != only_when_asked_for && test != calls_fail) {
            rimf_patcher_often(t.patcher);
            CHECK(opens() == 1 && kept() >= 512);
        }
        test();
        rimf_patcher_destroy(t.patcher);
        CHECK(test == calls_fail || (kept() < 0 && count_descriptors() == before));
        exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0, "(status %x)", status);
}

int main(void)
{
    in_child(only_when_asked_for);
    in_child(closed_by_the_program);
    in_child(replaced_by_the_program);
    in_child(asked_by_children);
    in_child(mappings_change);
    in_child(no_room);
    in_child(no_ioctl);
    in_child(calls_fail);
    in_child(under_threads);
    return 0;
}
