/* SPDX-License-Identifier: MIT
 *
 * Calls a library, and opens another one, or says why it cannot; with one more argument in a thread that has descriptors of
 * its own, and in which those of the first thread are free.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>
int first(void);

static void *open_apart(void *name)
{
    int opened = open("/dev/null", O_RDONLY);

    for (int i = 0; i < 9; i++)
        dup(opened);
    if (unshare(CLONE_FILES))
        return NULL;
    for (int i = 0; i < 10; i++)
        close(opened + i);
    return dlopen(name, RTLD_NOW);
}

int main(int argc, char **argv)
{
    void *late = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    pthread_t thread;

    if (argc > 2 && !pthread_create(&thread, NULL, open_apart, argv[1]))
        pthread_join(thread, &late);

    printf("first %d\n", first());
    if (argc > 1)
        puts(late ? "late" : dlerror());
    return 0;
}
