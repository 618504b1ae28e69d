/* SPDX-License-Identifier: MIT
 *
 * A fault is told, and ends the process as ever.  A failure means that a crash has another status, that actions of
 * the program's are lost, or that commits take the slower way while a crash would be told.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "rimf/patch/crash.h"
#include "sites.h"

static const int signals[RIMF_CRASH_SIGNALS] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
static struct patch_text t;
static int state = 1;

static void tell(void *cookie, int signal, uintptr_t at)
{
    uint8_t told = at == (uintptr_t)cookie && signal == SIGILL ? 'y' : 'n';

    CHECK(write(3, &told, 1) == 1);
}

extern const uint8_t wrong[]; /* 0f 0b    ud2 */
__attribute__((noinline)) static void fault(void)
{
    __asm__ volatile(".globl wrong; wrong: ud2");
}

/* The status of a child that watches and faults, or is sent the signal; `told` is how often that was told. */
static int child(int sent, char *told)
{
    struct rimf_crash crash = {.sys = &rimf_sys_kernel, .tell = tell, .cookie = (void *)(uintptr_t)wrong};
    int status, ends[2];
    pid_t pid;

    CHECK(pipe(ends) == 0);
    pid = fork();
    if (pid == 0) {
        dup2(ends[1], 3);
        rimf_crash_watch(&crash);
        if (sent)
            raise(SIGILL);
        else
            fault();
        _exit(1);
    }
    close(ends[1]);
    CHECK(waitpid(pid, &status, 0) == pid);
    told[read(ends[0], told, 9)] = '\0';
    close(ends[0]);
    return status;
}

static void ends(void)
{
    char told[10];
    int status = child(0, told);

    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGILL && !strcmp(told, "y"), "(%x %s)", status, told);
    status = child(1, told);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGILL && !*told, "(%x %s)", status, told);
}

static void handler(int signal)
{
    (void)signal;
}

/* Those of the program, before and behind; while watched, its own is in force. */
static void actions(void)
{
    struct rimf_crash crash = {.sys = &rimf_sys_kernel, .tell = tell};
    struct sigaction action;

    signal(SIGBUS, handler);
    rimf_crash_watch(&crash);
    CHECK(!sigaction(SIGBUS, NULL, &action) && action.sa_handler == handler);
    CHECK(!sigaction(SIGSEGV, NULL, &action) && action.sa_handler != SIG_DFL);
    rimf_crash_leave(&crash);
    for (size_t i = 0; i < RIMF_CRASH_SIGNALS; i++)
        CHECK(!sigaction(signals[i], NULL, &action) &&
              action.sa_handler == (signals[i] == SIGBUS ? handler : SIG_DFL) && !(action.sa_flags & SA_SIGINFO));
    signal(SIGBUS, SIG_DFL);
}

static void commits(const char *method)
{
    struct rimf_crash crash = {.sys = &rimf_sys_kernel, .tell = tell};
    struct mvld_patch_report report;

    rimf_crash_watch(&crash);
    CHECK(crash.watched);
    CHECK(patch_sites_commit(t.patcher, &state, &report) == 0);
    CHECK(!strcmp(report.method, method), "(%s)", report.method);
    rimf_crash_leave(&crash);
    signal(SIGSEGV, handler);
    CHECK(patch_sites_commit(t.patcher, &state, &report) == 0);
    CHECK(strcmp(report.method, method), "(with a handler of the program's)");
    signal(SIGSEGV, SIG_DFL);
}

static void *watches(void *unused)
{
    struct rimf_crash crash = {.sys = &rimf_sys_kernel, .tell = tell};

    rimf_crash_watch(&crash);
    CHECK(!crash.watched);
    rimf_crash_leave(&crash);
    return unused;
}

int main(void)
{
    pthread_t thread;

    patch_sites_open(&t);
    CHECK(rimf_patcher_set_method(t.patcher, "mprotect") == 0, "(%s)", t.sentence);
    ends();
    actions();
    commits("mprotect");
    CHECK(pthread_create(&thread, NULL, watches, NULL) == 0 && pthread_join(thread, NULL) == 0);
    return 0;
}
