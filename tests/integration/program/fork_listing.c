/* SPDX-License-Identifier: MIT
 *
 * Forks while another thread is inside dl_iterate_phdr, whose lock nobody gives back in
 * the child; there it commits.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((multiverse)) int mode;
static sem_t inside, forked;

__attribute__((multiverse, noinline)) static int which(void)
{
    return mode == 1 ? 11 : 10;
}

static int wait_here(struct dl_phdr_info *info, size_t size, void *cookie)
{
    (void)info;
    (void)size;
    (void)cookie;
    sem_post(&inside);
    sem_wait(&forked);
    return 1;
}

static void *lists(void *cookie)
{
    dl_iterate_phdr(wait_here, NULL);
    return cookie;
}

int main(void)
{
    int (*commit)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "multiverse_commit");
    pthread_t thread;
    int status = -1;
    pid_t child;

    if (!commit || pthread_create(&thread, NULL, lists, NULL))
        return 1;
    sem_wait(&inside);
    child = fork();
    if (!child) {
        alarm(5);
        mode = 1;
        _exit(commit() == 1 && which() == 11 ? 0 : 2);
    }
    sem_post(&forked);
    waitpid(child, &status, 0);
    pthread_join(thread, NULL);
    printf("child %x\n", (unsigned)status);
    return 0;
}
