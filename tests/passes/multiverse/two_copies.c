/* SPDX-License-Identifier: MIT
 *
 * libmultiverse.a in the executable and libmultiverse.so.1 opened beside it: both
 * speak to one engine, for two would fight over the same bytes.
 * Argument: libmultiverse.so.1.
 */
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

/* Each copy stops the engine for a fork, and lets it go on in both processes. */
static void check_fork(int (*commit)(void))
{
    int status;
    pid_t child = fork();

    CHECK(child >= 0);
    CHECK(commit() == 1 && multiverse_revert() == 1, "(%s)", multiverse_error());
    if (!child)
        _exit(0);
    CHECK(waitpid(child, &status, 0) == child && !status);
}

int main(int argc, char **argv)
{
    int (*commit)(void), (*revert)(void), (*is_committed)(void *);
    void *library;

    CHECK(argc == 2);
    mode = 0;
    CHECK(multiverse_commit() == 1);
    library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    CHECK(library, "(%s)", dlerror());
    commit = (int (*)(void))dlsym(library, "multiverse_commit");
    revert = (int (*)(void))dlsym(library, "multiverse_revert");
    is_committed = (int (*)(void *))dlsym(library, "multiverse_is_committed");
    CHECK(commit != multiverse_commit);
    CHECK(is_committed(decide) == 1);
    CHECK(commit() == 0);
    CHECK(revert() == 1);
    check_calls("reverted by the other copy", 100, 100);
    CHECK(multiverse_is_committed(decide) == 0);
    mode = 1;
    CHECK(commit() == 1);
    check_calls("committed by the other copy", 1001, 1001);
    CHECK(multiverse_revert() == 1);
    check_calls("reverted", 101, 101);
    check_fork(commit);
    return 0;
}
