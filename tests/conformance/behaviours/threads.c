/* SPDX-License-Identifier: MIT
 *
 * Libraries opened and closed by threads at once, while others walk the list of objects and
 * fork; destructors of threads that a library registered; a constructor that starts a thread.
 *
 * covers: elf/tst-thrlock elf/tst-create_format1 elf/tst-dl_find_object-threads nptl/tst-unload
 *         nptl/tst-atfork* nptl/tst-join7 elf/tst-latepthread
 * build: libone.so -DNAME=1 -pthread
 * build: libtwo.so -DNAME=2 -pthread
 * build: libthree.so -DNAME=3 -DSTARTS -pthread
 * build: program -pthread
 * run:
 * run: LD_BIND_NOW=1
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef NAME
static __thread int mine = NAME;
static void at_fork(void)
{
    mine += 0;
}

#ifdef STARTS
static void *run(void *at)
{
    *(int *)at += mine;
    return NULL;
}
#endif

__attribute__((constructor)) static void constructor(void)
{
    pthread_atfork(at_fork, at_fork, at_fork);
#ifdef STARTS
    pthread_t thread;

    if (!pthread_create(&thread, NULL, run, &mine))
        pthread_join(thread, NULL);
#endif
}

int get(void);
int get(void)
{
    return mine;
}
#else
static atomic_int wrong, stop;

static int walk(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    *(int *)data += info->dlpi_phnum > 0;
    return 0;
}

static void *walker(void *unused)
{
    while (!stop) {
        int n = 0;

        dl_iterate_phdr(walk, &n);
        if (n < 4)
            wrong++;
    }
    return unused;
}

static void *opener(void *name)
{
    for (int i = 0; i < 60; i++) {
        void *h = dlopen(name, i % 2 ? RTLD_NOW : RTLD_LAZY);
        int (*get)(void) = h ? (int (*)(void))dlsym(h, "get") : NULL;

        if (!get || get() < 1 || dlclose(h))
            wrong++;
    }
    return NULL;
}

int main(void)
{
    static const char *const names[] = {"libone.so", "libtwo.so", "libthree.so"};
    pthread_t threads[3], walking;
    int status = 0;
    void *h = dlopen("libtwo.so", RTLD_NOW);
    int (*kept)(void) = (int (*)(void))dlsym(h, "get");

    pthread_create(&walking, NULL, walker, NULL);
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, opener, (void *)names[i]);
    for (int i = 0; i < 10; i++) {
        pid_t child = fork();

        if (!child) {
            _exit(kept()); /* another thread may hold the loader's lock: no dlopen here */
        }
        waitpid(child, &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 2)
            wrong++;
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    stop = 1;
    pthread_join(walking, NULL);
    printf("%d wrong\n", wrong);
    return wrong != 0;
}
#endif
