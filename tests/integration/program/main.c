/* SPDX-License-Identifier: MIT
 *
 * program WHAT: one behaviour a word; prints what it saw.  Linked with no
 * multiverse library: the run time is found with dlsym, or is not there.
 */
#include "program.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((multiverse("values", 0, 1, 2))) int mode;

static __typeof__(&multiverse_commit) commit;
static __typeof__(&multiverse_commit_refs) commit_refs;
static __typeof__(&multiverse_revert) revert;
static __typeof__(&multiverse_info_fn) info_fn;
static __typeof__(&multiverse_error) error;

static void commit_mode(int value)
{
    mode = value;
    printf("commit mode=%d: %d function\n", value, commit());
}

static void constructor(void)
{
    printf("run time: %s, mode %d, constructor saw %d, main sees %d\n", commit ? "yes" : "no", mode,
           seen_by_constructor, which_while(2));
}

static void commits(void)
{
    commit_mode(1);
    mode = 0;
    printf("switch 0: executable %d, library %d\n", which(), call_which());
    printf("commit_refs: %d\n", commit_refs(&mode));
    mode = 2;
    printf("switch 2: executable %d, library %d\n", which(), call_which());
    printf("revert: %d\n", revert());
    printf("switch 2: executable %d, library %d\n", which(), call_which());
}

static void callsites(void)
{
    commit_mode(1);
    const struct multiverse_info_fn *info = info_fn((void *)which);
    if (!info)
        exit(3);
    printf("%s: %zu variants, call sites %s 3, active %s\n", info->name, info->n_variants,
           info->n_callsites >= 3 ? ">=" : "<", info->active ? "yes" : "no");
}

static void late(const char *path)
{
    commit_mode(1);
    mode = 2;
    for (int i = 0; i < 50; i++) {
        void *handle = dlopen(path, RTLD_NOW);
        if (!handle) {
            printf("dlopen: %s\n", dlerror());
            exit(4);
        }
        late_fn *of_constructor = NULL, *call = NULL;
        *(void **)&of_constructor = dlsym(handle, "late_constructor");
        *(void **)&call = dlsym(handle, "late_call");
        if (i == 0 || i == 49)
            printf("opened: constructor %d, call %d\n", of_constructor(), call());
        if (i == 0) {
            commit_mode(0);
            printf("committed again: call %d\n", call());
        }
        dlclose(handle);
    }
    commit_mode(1);
    mode = 2;
    printf("closed: executable %d, library %d\n", which(), call_which());
}

static void forks(void)
{
    commit_mode(1);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        mode = 2;
        printf("child: %d\n", which());
        commit_mode(0);
        mode = 2;
        printf("child after its commit: %d\n", which());
        exit(0);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    mode = 2;
    printf("status %d, parent: %d\n", status, which());
}

static atomic_int stop, wrong;

static void *caller(void *unused)
{
    (void)unused;
    while (!stop) {
        int a = which(), b = call_which();
        if (a < 0 || a > 2 || b < 10 || b > 12)
            wrong++;
    }
    return NULL;
}

static void threads(void)
{
    pthread_t thread[3];
    int failed = 0;
    for (int i = 0; i < 3; i++)
        pthread_create(&thread[i], NULL, caller, NULL);
    for (int i = 0; i < 1000; i++) {
        mode = i % 3;
        if (commit() < 0 && failed++ == 0)
            printf("commit: %s\n", error());
        int expected = mode;
        mode = (i + 1) % 3;
        wrong += which() != expected || call_which() != expected + 10;
        if (i % 100 == 99)
            failed += revert() < 0;
    }
    stop = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    printf("wrong %d, failed %d\n", wrong, failed);
}

static void environment(void)
{
    extern char **environ;
    const char *preload = getenv("LD_PRELOAD");
    int found = 0;
    for (char **e = environ; *e; e++)
        found += strstr(*e, "libmultiverse") != NULL;
    printf("run time: %s, in environ: %d, LD_PRELOAD: %s\n", commit ? "yes" : "no", found,
           preload ? preload : "none");
    fflush(stdout);
    execlp("sh", "sh", "-c", "echo in a child: \"${LD_PRELOAD-none}\"", (char *)NULL);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    *(void **)&commit = dlsym(RTLD_DEFAULT, "multiverse_commit");
    *(void **)&commit_refs = dlsym(RTLD_DEFAULT, "multiverse_commit_refs");
    *(void **)&revert = dlsym(RTLD_DEFAULT, "multiverse_revert");
    *(void **)&info_fn = dlsym(RTLD_DEFAULT, "multiverse_info_fn");
    *(void **)&error = dlsym(RTLD_DEFAULT, "multiverse_error");
    if (!strcmp(what, "constructor"))
        return constructor(), 0;
    if (!strcmp(what, "environment"))
        return environment(), 1;
    if (!strcmp(what, "exec"))
        return execl(argv[2], argv[2], "constructor", (char *)NULL);
    if (!commit || !commit_refs || !revert || !info_fn || !error)
        return puts("no run time"), 2;
    if (!strcmp(what, "commit"))
        commits();
    else if (!strcmp(what, "callsites"))
        callsites();
    else if (!strcmp(what, "dlopen") && argc > 2)
        late(argv[2]);
    else if (!strcmp(what, "fork"))
        forks();
    else if (!strcmp(what, "threads"))
        threads();
    else
        return 2;
    return 0;
}
