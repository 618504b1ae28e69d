/* SPDX-License-Identifier: MIT
 *
 * main LATE [threads|files|maps|memory]...: a program that prints the same whatever
 * works and whatever fails: that all its calls of which() (integration/program) agree,
 * and that they follow the switch, or what was committed last.  An operation that fails
 * must say why and leave everything as it was.
 *
 * The library LATE is opened, called and closed.  With "threads" another thread runs
 * meanwhile; the other words use up what the process may have of descriptors, mappings,
 * memory, before anything is changed.
 */
#include "../../integration/program/program.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((multiverse("values", 0, 1, 2))) int mode;

static __typeof__(&multiverse_commit) commit, revert;
static __typeof__(&multiverse_commit_refs) commit_refs;
static __typeof__(&multiverse_commit_fn) revert_fn;
static __typeof__(&multiverse_error) error, report;

static int (*volatile by_pointer)(void) = which;
static late_fn *late_call;
static int bound = -1; /* to which value of the switch; -1: not at all */

static void say(const char *text)
{
    if (write(STDOUT_FILENO, text, strlen(text)) < 0)
        _exit(9);
}

__attribute__((constructor)) static void constructor(void)
{
    say("constructor\n");
}

/* What every way to call says, or -1. */
static int result(void)
{
    int a = which(), b = call_which() - 10, c = by_pointer(), d = late_call ? late_call() - 20 : a;

    return a == b && b == c && c == d ? a : -1;
}

static void check(const char *when)
{
    char line[200];

    for (int value = 0; value < 3; value++) {
        int expected = bound < 0 ? value : bound;

        mode = value;
        if (result() == expected)
            continue;
        snprintf(line, sizeof line, "BAD %s: switch %d, bound to %d: calls say %d %d %d %d\n", when,
                 value, bound, which(), call_which(), by_pointer(), late_call ? late_call() : -1);
        say(line);
        if (report)
            say(report());
    }
}

enum operation { COMMIT, COMMIT_REFS, REVERT, REVERT_FN };

static int operate(enum operation operation)
{
    switch (operation) {
    case COMMIT: return commit();
    case COMMIT_REFS: return commit_refs(&mode);
    case REVERT: return revert();
    case REVERT_FN: return revert_fn((void *)which);
    }
    return -1;
}

/* A fault may come once, or for ever. */
static void change(enum operation operation, int value, const char *what)
{
    if (!commit)
        return;
    for (int tries = 0; tries < 3; tries++) {
        mode = value;
        errno = 0;
        if (operate(operation) >= 0) {
            bound = operation == COMMIT || operation == COMMIT_REFS ? value : -1;
            check(what);
            return;
        }
        if (!errno || !*error())
            say("BAD it fails without a reason\n");
        check(what);
    }
}

/* As without us where something is used up. */
static int is_shortage(const char *why)
{
    static const char *const words[] = {"map segment", "allocate memory", "Too many open files",
                                        "cannot create", "out of memory", "Error 24", "Error 12"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(why, words[i]))
            return 1;
    return 0;
}

static void late(const char *path)
{
    void *handle = NULL;
    late_fn *of_constructor = NULL;
    int saw;

    mode = 2;
    for (int tries = 0; !handle && tries < 3; tries++)
        handle = dlopen(path, RTLD_NOW);
    if (!handle) {
        const char *why = dlerror();

        if (!is_shortage(why)) {
            say("BAD ");
            say(why);
            say("\n");
        }
        return;
    }
    *(void **)&of_constructor = dlsym(handle, "late_constructor");
    *(void **)&late_call = dlsym(handle, "late_call");
    saw = of_constructor() - 20;
    if (saw != (bound < 0 ? 2 : bound))
        say("BAD the constructor of the library saw something else\n");
    check("opened");
    change(COMMIT, 0, "commit with the library");
    change(REVERT, 0, "revert with the library");
    change(COMMIT, 1, "commit with the library again");
    late_call = NULL;
    dlclose(handle);
    check("closed");
    change(COMMIT_REFS, 2, "commit_refs after closing");
}

static void fork_and_change(void)
{
    int status = -1, was = bound;
    pid_t pid = fork();

    if (pid == 0) {
        change(COMMIT, 1, "commit in a child");
        _exit(0);
    }
    waitpid(pid, &status, 0);
    bound = was;
    if (status)
        say("BAD the child died\n");
    check("after fork");
}

static int wait_here[2];
static pthread_barrier_t started;

static void *other(void *unused)
{
    char c;

    pthread_barrier_wait(&started);
    while (read(wait_here[0], &c, 1) > 0)
        ;
    return unused;
}

static void use_up(const char *what)
{
    static const struct rlimit none = {0, 0};
    char *pages;

    if (!strcmp(what, "files")) {
        while (open("/dev/null", O_RDONLY) >= 0)
            ;
    } else if (!strcmp(what, "maps")) { /* every second page is a mapping, and so are the others */
        pages = mmap(NULL, 1ul << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (size_t at = 0; pages != MAP_FAILED && at < 1ul << 30; at += 8192)
            if (mprotect(pages + at, 4096, PROT_READ))
                break;
    } else if (!strcmp(what, "memory")) {
        setrlimit(RLIMIT_AS, &none);
    }
}

int main(int argc, char **argv)
{
    pthread_t thread;
    int threads = 0;

    *(void **)&commit = dlsym(RTLD_DEFAULT, "multiverse_commit");
    *(void **)&commit_refs = dlsym(RTLD_DEFAULT, "multiverse_commit_refs");
    *(void **)&revert = dlsym(RTLD_DEFAULT, "multiverse_revert");
    *(void **)&revert_fn = dlsym(RTLD_DEFAULT, "multiverse_revert_fn");
    *(void **)&error = dlsym(RTLD_DEFAULT, "multiverse_error");
    *(void **)&report = dlsym(RTLD_DEFAULT, "multiverse_report");
    say("main\n");
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "threads"))
            continue;
        threads = 1;
        pthread_barrier_init(&started, NULL, 2);
        if (pipe(wait_here) || pthread_create(&thread, NULL, other, NULL))
            return 3;
        pthread_barrier_wait(&started);
    }
    for (int i = 2; i < argc; i++)
        use_up(argv[i]);
    mode = 1; /* was the program committed before it started? */
    bound = which() == 0 ? 0 : -1;
    check("start");
    change(COMMIT, 1, "commit");
    change(REVERT_FN, 0, "revert_fn");
    change(COMMIT_REFS, 2, "commit_refs");
    if (argc > 1)
        late(argv[1]);
    fork_and_change();
    change(REVERT, 0, "revert");
    if (threads) {
        close(wait_here[1]);
        pthread_join(thread, NULL);
    }
    say("end\n");
    return 0;
}
