/* SPDX-License-Identifier: MIT
 *
 * main [LATE] [threads]: a program that prints the same whatever works and whatever
 * fails: that all its calls of which() (integration/program) agree, and that they
 * follow the switch, or what was committed last.  An operation that fails must say
 * why and leave everything as it was.
 *
 * With LATE that library is opened, called and closed; with "threads" another thread
 * runs meanwhile.
 */
#include "../../integration/program/program.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((multiverse("values", 0, 1, 2))) int mode;

static __typeof__(&multiverse_commit) commit, revert;
static __typeof__(&multiverse_commit_refs) commit_refs;
static __typeof__(&multiverse_commit_fn) revert_fn;
static __typeof__(&multiverse_error) error;

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

static void late(const char *path)
{
    void *handle = NULL;
    late_fn *of_constructor = NULL;
    int saw;

    mode = 2;
    for (int tries = 0; !handle && tries < 3; tries++)
        handle = dlopen(path, RTLD_NOW);
    if (!handle) { /* as without us where there is no memory */
        const char *why = dlerror();

        if (!strstr(why, "map segment") && !strstr(why, "allocate memory")) {
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

static void *other(void *unused)
{
    char c;

    while (read(wait_here[0], &c, 1) > 0)
        ;
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    int threads = argc > 2;

    *(void **)&commit = dlsym(RTLD_DEFAULT, "multiverse_commit");
    *(void **)&commit_refs = dlsym(RTLD_DEFAULT, "multiverse_commit_refs");
    *(void **)&revert = dlsym(RTLD_DEFAULT, "multiverse_revert");
    *(void **)&revert_fn = dlsym(RTLD_DEFAULT, "multiverse_revert_fn");
    *(void **)&error = dlsym(RTLD_DEFAULT, "multiverse_error");
    say("main\n");
    if (threads && (pipe(wait_here) || pthread_create(&thread, NULL, other, NULL)))
        return 3;
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
