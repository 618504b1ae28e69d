/* SPDX-License-Identifier: MIT
 *
 * A process that may not change its code in one way is patched in another; one
 * that may not in any is left alone with -EPERM.  A failure means that hardened
 * services (MemoryDenyWriteExecute, seccomp, sealed mappings, no /proc) crash or
 * are left with pages that cannot be executed.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "sites.h"

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#endif
#ifndef SYS_mseal
#define SYS_mseal 462
#endif

static struct patch_text t;
static int state = 1;

static int commit_next(struct mvld_patch_report *report)
{
    int r = patch_sites_commit(t.patcher, &state, report);

    if (access("/proc/self/maps", R_OK) == 0)
        patch_text_all_rx(&t);
    return r;
}

static void commits_by(const char *method)
{
    struct mvld_patch_report report;

    for (int i = 0; i < 6; i++) {
        int r = commit_next(&report);
        CHECK(r == 0 && report.refused == 0, "(%d, %s)", r, t.sentence);
        CHECK(!strcmp(report.method, method), "(by %s, not %s)", report.method, method);
    }
}

static void add_thread(void)
{
    patch_park_thread();
}

/* mprotect with PROT_EXEC is refused, as MemoryDenyWriteExecute= does it. */
static void filter(unsigned nr, unsigned argument, unsigned mask)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[argument])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, mask, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(code) / sizeof(*code), code};

    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void denied_by_filter(void)
{
    commits_by("mprotect");
    filter(SYS_mprotect, 2, PROT_EXEC);
    commits_by("remap");
    CHECK(rimf_patcher_set_method(t.patcher, "mprotect") == -EPERM);
    CHECK(rimf_patcher_set_method(t.patcher, "remap") == 0);
    add_thread();
    commits_by("remap");
}

static void denied_by_mdwe(void)
{
    commits_by("mprotect");
    if (prctl(PR_SET_MDWE, 1, 0, 0, 0)) {
        printf("this kernel has no PR_SET_MDWE\n");
        exit(SKIP);
    }
    commits_by("remap");
    CHECK(rimf_patcher_set_method(t.patcher, "selfmem") == 0);
    commits_by("selfmem");
    add_thread();
    commits_by("remap");
}

static void sealed(void)
{
    commits_by("mprotect");
    if (syscall(SYS_mseal, t.code, t.size, 0)) {
        printf("this kernel cannot seal mappings\n");
        exit(SKIP);
    }
    commits_by("selfmem");
    add_thread();
    for (int i = 0; i < 3; i++) { /* no method that is safe while other threads run */
        struct mvld_patch_report report;

        CHECK(commit_next(&report) == -EPERM && report.applied == 0 && report.refused == PATCH_SITES);
    }
}

static void no_proc(void)
{
    struct mvld_patch_report report;

    commits_by("mprotect");
    CHECK(chroot("/var/lib") == 0);
    CHECK(commit_next(&report) == -EPERM && report.applied == 0 && report.refused == PATCH_SITES);
    CHECK_STR(t.sentence, "cannot read /proc/self/maps: no code is changed");
}

/* A kernel before 6.11 answers about mappings only with lines of text. */
static void no_ioctl(void)
{
    filter(SYS_ioctl, 0, 0xffffffff);
    commits_by("mprotect");
    add_thread();
    commits_by("remap");
}

/* Neither call tells whether other threads run: then the batch is treated as if some did. */
static void no_unshare(void)
{
    filter(SYS_unshare, 0, 0xffffffff);
    commits_by("mprotect"); /* /proc/self/task knows */
    add_thread();
    commits_by("remap");
}

/* The object's file, not anonymous memory, stays behind the pages. */
static void keeps_the_file(void)
{
    char line[4400], self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    size_t named = 0;
    FILE *maps;

    CHECK(n > 0);
    self[n] = 0;
    add_thread();
    commits_by("remap");
    maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof(line), maps)) {
        unsigned long from, to, at = (unsigned long)t.code;
        CHECK(sscanf(line, "%lx-%lx", &from, &to) == 2);
        if (to <= at || from >= at + t.size)
            continue;
        CHECK(strstr(line, self), "(%s)", line);
        named += (to < at + t.size ? to : at + t.size) - (from > at ? from : at);
    }
    CHECK(named == t.size);
}

static int in_child(const char *name, void (*test)(void))
{
    int status;
    pid_t child = fork();

    CHECK(child >= 0);
    if (child == 0) {
        patch_sites_open(&t);
        test();
        exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status), "(%s: signal %d)", name, WTERMSIG(status));
    CHECK(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == SKIP, "(%s failed)", name);
    if (WEXITSTATUS(status) == SKIP)
        printf("%s: not tested here\n", name);
    return WEXITSTATUS(status);
}

int main(void)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    in_child("filter", denied_by_filter);
    in_child("mdwe", denied_by_mdwe);
    in_child("seal", sealed);
    in_child("no ioctl", no_ioctl);
    in_child("no unshare", no_unshare);
    in_child("file", keeps_the_file);
    if (geteuid() == 0)
        in_child("no /proc", no_proc);
    return 0;
}
