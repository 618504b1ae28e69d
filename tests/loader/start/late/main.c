/* SPDX-License-Identifier: MIT
 *
 * late: opens and closes libraries as told, one letter and name a word:
 *
 *   +NAME   dlopen, RTLD_NOW          -       dlclose the last one
 *   ~NAME   dlopen, RTLD_LAZY         ?       print `mark` of the last one
 *   *NAME   dlmopen into a new namespace
 *   @NAME   open and close it 2000 times
 *   #NAME   four threads open and close it 200 times each
 *   ^NAME   dlopen in another thread; as soon as the pass holds that up, a child opens libone.so
 *   %NAME   map what 400 threads have as stacks, then dlopen, RTLD_NOW
 *   !       print how many objects were reported as gone
 *   =       write over argc, as a program may whose arguments name it in ps(1)
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

int mark, ran, gone;
volatile int held; /* 1: by the pass, until it is another number */
int *pointer_to_mark = &mark;

static void *last;

__attribute__((constructor)) static void constructor(void)
{
    ran = 1;
    printf("main constructor: %d\n", mark);
}

static void opened(const char *name, void *handle)
{
    last = handle;
    printf("%s: %s\n", name, handle ? "opened" : strstr(dlerror(), "nobody_defines_this")
                                                     ? "undefined symbol" : "error");
}

static int times(const char *name, int n)
{
    int good = 0;

    for (int i = 0; i < n; i++) {
        void *handle = dlopen(name, RTLD_NOW);
        int *value = handle ? dlsym(handle, "mark") : NULL;

        good += value && *value == 1;
        if (handle)
            dlclose(handle);
    }
    return good;
}

static void *in_thread(void *name)
{
    return (void *)(long)times(name, 200);
}

static int in_threads(char *name)
{
    pthread_t threads[4];
    int good = 0;
    void *one;

    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, in_thread, name);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], &one);
        good += (int)(long)one;
    }
    return good;
}

static void crowd(void)
{
    for (int i = 0; i < 400; i++)
        mmap(NULL, (8 << 20) + 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static void *opens(void *name)
{
    opened(name, dlopen(name, RTLD_NOW));
    return NULL;
}

static void fork_within(char *name)
{
    pthread_t thread;
    pid_t child;
    int status;

    fflush(stdout);
    pthread_create(&thread, NULL, opens, name);
    while (!held)
        usleep(100);
    child = fork();
    if (!child) {
        alarm(5); /* glibc may have left a lock to a thread that is not there */
        opened("libone.so", dlopen("libone.so", RTLD_NOW));
        _exit(0);
    }
    waitpid(child, &status, 0);
    held = 2;
    pthread_join(thread, NULL);
    printf("child: %d\n", status);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 1; i < argc; i++) {
        char *name = argv[i] + 1;

        switch (argv[i][0]) {
        case '%': crowd(); /* fall through */
        case '+': opened(name, dlopen(name, RTLD_NOW)); break;
        case '~': opened(name, dlopen(name, RTLD_LAZY)); break;
        case '*': opened(name, dlmopen(LM_ID_NEWLM, name, RTLD_NOW)); break;
        case '-': printf("close: %d\n", dlclose(last)); break;
        case '?': printf("mark: %d\n", *(int *)dlsym(last, "mark")); break;
        case '@': printf("good: %d\n", times(name, 2000)); break;
        case '#': printf("good: %d\n", in_threads(name)); break;
        case '^': fork_within(name); break;
        case '!': printf("gone: %d\n", gone); break;
        case '=': ((volatile long *)argv)[-1] = 1L << 60; break;
        default: return 2;
        }
    }
    return 0;
}
