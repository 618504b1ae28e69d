/* SPDX-License-Identifier: MIT
 *
 * Code of the program that runs in the middle of a commit: the handler of SIGSYS, by which a
 * sandbox answers system calls (trapped.h), and handlers of signals that only faults raise, sent
 * by somebody.  They call what is being patched.  A failure means that a browser's
 * processes are killed, crash or hang when code is changed behind their sandbox.
 */
#include <pthread.h>
#include <sys/wait.h>

#include "../../trapped.h"
#include "sites.h"

static struct patch_text t;
static int state = 1;
static unsigned long interrupted;

static void call_sites(void)
{
    for (size_t i = 0; i < PATCH_SITES; i++) {
        int value = patch_sites_table[i].caller();
        CHECK(value >= 1 && value <= PATCH_STATES);
    }
    interrupted++;
}

static long allow(long nr, const long *arguments)
{
    (void)nr, (void)arguments;
    call_sites();
    return 0;
}

static long refuse_the_process(long nr, const long *arguments)
{
    call_sites();
    if (nr == SYS_openat)
        return strncmp((const char *)arguments[1], "/proc", 5) ? 0 : -EACCES;
    return nr == SYS_mprotect || nr == SYS_mremap ? 0 : -EPERM;
}

static void commits(const char *method, int threads)
{
    struct mvld_patch_report report;

    if (threads)
        patch_park_thread();
    for (int i = 0; i < 12; i++) {
        int r = patch_sites_commit(t.patcher, &state, &report);
        if (trapped_decide == refuse_the_process)
            CHECK(r == -EPERM && report.applied == 0, "(%d)", r);
        else
            CHECK(r == 0 && report.refused == 0, "(%s: %d, %s)", method, r, t.sentence);
    }
    CHECK(interrupted >= 12, "(%lu)", interrupted);
}

static void emulated(const char *method, int threads)
{
    if (trapped_start(allow, 1))
        exit(SKIP);
    commits(method, threads);
}

static void refused(const char *method, int threads)
{
    if (trapped_start(refuse_the_process, 1))
        exit(SKIP);
    commits(method, threads);
}

/* ---- signals of faults, sent ---- */

static const int faults[] = {SIGTRAP, SIGILL, SIGBUS, SIGFPE, SIGSEGV, SIGSYS};
#define N_FAULTS (sizeof faults / sizeof *faults)

static void on_signal(int signal)
{
    (void)signal;
    call_sites();
}

static void send_before(struct patch_kernel *k, long nr)
{
    (void)nr;
    CHECK(rimf_syscall(SYS_tgkill, getpid(), gettid(), faults[(size_t)k->calls % N_FAULTS], 0, 0,
                       0) == 0);
}

static void sent(const char *method, int threads)
{
    struct sigaction action = {.sa_handler = on_signal};

    for (size_t i = 0; i < N_FAULTS; i++)
        CHECK(sigaction(faults[i], &action, NULL) == 0);
    t.kernel.before = send_before;
    commits(method, threads);
}

/* Of signals that nothing in a commit raises: sent in the middle they wait for its end, and a handler
 * of theirs changes nothing about the way. */
static void send_computed(struct patch_kernel *k, long nr)
{
    CHECK(interrupted == 0);
    if (nr == SYS_mprotect || nr == SYS_mremap || nr == SYS_pwrite64)
        CHECK(rimf_syscall(SYS_tgkill, getpid(), gettid(), k->calls % 2 ? SIGILL : SIGFPE, 0, 0,
                           0) == 0);
}

static void waits(const char *method, int threads)
{
    struct sigaction action = {.sa_handler = on_signal};
    struct mvld_patch_report report;

    CHECK(sigaction(SIGILL, &action, NULL) == 0 && sigaction(SIGFPE, &action, NULL) == 0);
    if (threads)
        patch_park_thread();
    t.kernel.before = send_computed;
    CHECK(patch_sites_commit(t.patcher, &state, &report) == 0);
    CHECK(interrupted > 0);
    CHECK(strcmp(method, "auto") || !strcmp(report.method, threads ? "remap" : "mprotect"), "(%s)",
          report.method);
}

/* ---- */

static int in_child(void (*test)(const char *method, int threads), const char *method, int threads)
{
    pid_t child = fork();
    int status;

    CHECK(child >= 0);
    if (child == 0) {
        alarm(30);
        patch_sites_open(&t);
        CHECK(rimf_patcher_set_method(t.patcher, method) == 0, "(%s)", t.sentence);
        test(method, threads);
        exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

int main(void)
{
    static const struct {
        const char *name;
        void (*test)(const char *method, int threads);
    } tests[] = {{"emulated", emulated}, {"refused", refused}, {"sent", sent}, {"waits", waits}};
    static const char *const methods[] = {"auto", "mprotect", "remap", "selfmem"};
    int wrong = 0;

    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        for (size_t j = 0; j < 2 * sizeof methods / sizeof *methods; j++) {
            int status = in_child(tests[i].test, methods[j / 2], j % 2);

            if (status == SKIP << 8)
                return SKIP;
            if (status)
                fprintf(stderr, "%s, %s%s: status %x\n", tests[i].name, methods[j / 2],
                        j % 2 ? ", threads" : "", (unsigned)status);
            wrong += status != 0;
        }
    return wrong != 0;
}
