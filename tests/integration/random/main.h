/* SPDX-License-Identifier: MIT
 *
 * What a random program (random_libraries.py) does besides calling its functions: in a signal handler, a coroutine, a
 * child, other threads, and in libraries that it opens.  ANY is one of the functions.  Commits do nothing without mvld.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

__thread int budget = 100000, quiet;
u64 call_back(int depth, u64 x, function *f) { return depth > 0 && budget > 0 ? f(depth - 1, x) : x; }

static int (*commit_all)(void), (*revert_all)(void);
static void commit(void)
{
    if (commit_all && commit_all() < 0)
        printf("a commit failed: %d\n", errno);
}
static void revert(void)
{
    if (revert_all)
        revert_all();
}

static u64 aside(int depth, u64 x) /* with a budget of its own */
{
    int before = budget;
    budget = 500;
    x = ANY(depth, x);
    budget = before;
    return x;
}

static volatile u64 handled, switched;
static void on_signal(int signal) { handled += aside(3, (u64)signal); }

static ucontext_t within, outside;
static void coroutine(void) { switched = aside(3, 5); }
static void in_coroutine(void)
{
    static char stack[65536];
    getcontext(&within);
    within.uc_stack.ss_sp = stack;
    within.uc_stack.ss_size = sizeof stack;
    within.uc_link = &outside;
    makecontext(&within, coroutine, 0);
    swapcontext(&outside, &within);
    printf("coroutine %llx\n", (unsigned long long)switched);
}

static void in_child(u64 x)
{
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        printf("child %llx\n", (unsigned long long)aside(5, x));
        fflush(stdout);
        _exit((int)x & 63);
    }
    waitpid(child, &status, 0);
    printf("status %d\n", status);
}

static u64 in_library(const char *path, int mode, bool closes, u64 x)
{
    void *handle = dlopen(path, mode);
    if (!handle)
        return puts(dlerror()), x;
    budget = 1000;
    x = ((function *)dlsym(handle, "entry"))(4, x);
    printf("%s %llx\n", path, (unsigned long long)x);
    if (closes)
        dlclose(handle);
    return x;
}

static volatile int ended;
static void *call_on(void *x)
{
    volatile u64 result = (u64)(uintptr_t)x;
    quiet = 1;
    for (int i = 0; i < 300 && !ended; i++) {
        budget = 300;
        result = ANY(4, result);
    }
    return NULL;
}
#define WHILE_THREADS_CALL(what)                                                  \
    {                                                                             \
        pthread_t thread[3];                                                      \
        ended = 0;                                                                \
        for (int i = 0; i < 3; i++)                                               \
            pthread_create(&thread[i], NULL, call_on, (void *)(uintptr_t)(i + 1)); \
        for (int i = 0; i < 40; i++) {                                            \
            what;                                                                 \
        }                                                                         \
        ended = 1;                                                                \
        for (int i = 0; i < 3; i++)                                               \
            pthread_join(thread[i], NULL);                                        \
    }

static void begin(void)
{
    commit_all = (int (*)(void))dlsym(RTLD_DEFAULT, "multiverse_commit");
    revert_all = (int (*)(void))dlsym(RTLD_DEFAULT, "multiverse_revert");
    signal(SIGUSR1, on_signal);
}
