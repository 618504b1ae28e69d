/* SPDX-License-Identifier: MIT
 *
 * late_main CYCLES FOLDER [eager]: libraries with switches, variation points and
 * call sites come and go.  "eager": under mvld, where they are bound before their
 * constructors; under a plain ld.so that happens with the next call.
 */
#include "late.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define FORKS 60

__attribute__((multiverse("values", 0, 1, 2))) int mode;
int commit_in_constructor;
static int eager, line;
static const char *folder;

__attribute__((multiverse)) int which(void)
{
    if (mode == 0)
        return 10;
    if (mode == 1)
        return 11;
    return mode == 2 ? 12 : 99;
}

static void check_(const char *what, long got, long expected)
{
    if (got == expected)
        return;
    printf("line %d: %s: %ld, expected %ld\n%s%s\n", line, what, got, expected, multiverse_error(),
           multiverse_report());
    exit(1);
}
#define check(what, got, expected) (line = __LINE__, check_(what, got, expected))

static struct late *open_late(int number, int flags, void **handle)
{
    char name[4096], symbol[] = "late_1";
    struct late *late;

    snprintf(name, sizeof name, "%s/liblate%d.so", folder, number);
    *handle = dlopen(name, flags);
    if (!*handle) {
        printf("%s\n", dlerror());
        exit(2);
    }
    symbol[5] = (char)('0' + number);
    late = dlsym(*handle, symbol);
    check("its description", late != NULL, 1);
    return late;
}

static void cycle(int i, int flags)
{
    int now = i % 3, then = (now + 1) % 3, committed = i % 4 != 3;
    void *one, *two;
    struct late *late, *second;

    mode = now;
    if (committed)
        check("commit", multiverse_commit() >= 0, 1);
    else
        check("revert", multiverse_revert() >= 0, 1);
    mode = then;
    late = open_late(1 + i % 2, flags, &one);
    if (!eager)
        check("init", multiverse_init(), 0);
    else
        check("constructor", late->of_constructor, committed ? 10 + now : 12);
    check("executable's from the library", late->which(), committed ? 10 + now : 10 + then);
    check("executable's", which(), committed ? 10 + now : 10 + then);
    second = open_late(2 - i % 2, flags, &two);
    *late->mode = 1;
    *second->mode = 0;
    mode = now;
    check("commit", multiverse_commit() >= 0, 1);
    *late->mode = *second->mode = 2;
    check("own", late->own() % 100, 1);
    check("own of the other", late->other() % 100, 0);
    check("own, from the other", second->other() % 100, 1);
    check("is committed", multiverse_is_committed((void *)which), 1);
    if (i % 5 == 0)
        check("revert", multiverse_revert() >= 0, 1);
    dlclose(one);
    dlclose(two);
    if (i % 7 == 0) /* the place is taken when it comes again */
        check("mmap", mmap(late, 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED,
              1);
    check("executable's", which(), i % 5 == 0 ? 10 + mode : 10 + now);
}

/* A commit inside of a constructor, that is inside of dlopen. */
static void commits_there(void)
{
    void *handle;
    struct late *late, *needed;

    check("revert", multiverse_revert() >= 0, 1);
    commit_in_constructor = 1;
    mode = 1;
    late = open_late(1, RTLD_NOW, &handle);
    commit_in_constructor = 0;
    mode = *late->mode = 2;
    needed = dlsym(handle, "late_2");
    check("commits in constructors", late->committed_there + needed->committed_there, 3);
    check("executable's", which(), 11);
    check("from the library", late->which(), 11);
    check("its own", late->own(), 100);
    dlclose(handle);
}

/* Another namespace: its copies of switch and point are its own, and left alone. */
static void other_namespace(void)
{
    char name[4096];
    void *handle;
    int (*call)(void);
    int *its_mode;

    snprintf(name, sizeof name, "%s/libalone.so", folder);
    handle = dlmopen(LM_ID_NEWLM, name, RTLD_NOW);
    if (!handle) {
        printf("%s\n", dlerror());
        exit(3);
    }
    *(void **)&call = dlsym(handle, "alone_call");
    its_mode = dlsym(handle, "alone_mode");
    *its_mode = mode = 1;
    check("commit", multiverse_commit() >= 0, 1);
    *its_mode = 2;
    check("another namespace follows its switch", call(), 2);
    check("commit_refs of its switch", multiverse_commit_refs(its_mode), -1);
    check("it says why", strstr(multiverse_error(), "is no switch") != NULL, 1);
    dlclose(handle);
    check("commit", multiverse_commit() >= 0, 1);
}

static volatile int stop;

static void *comes_and_goes(void *unused)
{
    while (!stop) {
        void *handle;

        open_late(1, RTLD_NOW, &handle);
        dlclose(handle);
    }
    return unused;
}

/* A child of a fork that another thread's dlopen or dlclose is in the middle of: it commits, or is told that nobody knows
 * which objects are there. */
static void forks(void)
{
    pthread_t thread;

    pthread_create(&thread, NULL, comes_and_goes, NULL);
    for (int i = 0; i < FORKS; i++) {
        int status;
        pid_t child;

        usleep((useconds_t)i * 100);
        child = fork();
        if (!child) {
            alarm(20);
            mode = 1 + i % 2;
            _exit(multiverse_commit() >= 0 ? which() != 10 + mode : errno != EAGAIN);
        }
        check("waitpid", waitpid(child, &status, 0), child);
        check("a child that commits", status, 0);
    }
    stop = 1;
    pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
    static const int flags[] = {RTLD_NOW | RTLD_GLOBAL, RTLD_LAZY | RTLD_LOCAL,
                                RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND, RTLD_LAZY | RTLD_GLOBAL};
    int n = argc > 1 ? atoi(argv[1]) : 10;

    folder = argc > 2 ? argv[2] : ".";
    eager = argc > 3;
    mode = 0;
    check("commit", multiverse_commit() >= 0, 1);
    for (int i = 0; i < n; i++)
        cycle(i, flags[i / 2 % 4]);
    commits_there();
    other_namespace();
    forks();
    printf("%d cycles\n", n);
    return 0;
}
