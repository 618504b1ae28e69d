/* SPDX-License-Identifier: MIT
 *
 * The program forks in the middle of its first call of libmultiverse, where that asks for a key, as
 * a thread beside it may; the child calls the library, too.
 *
 * A failure means that the child waits for a thread that it does not have.
 */
#include <multiverse.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((multiverse)) _Bool mode;

__attribute__((multiverse, noinline)) int value(int x)
{
    return mode ? x * 3 + 1 : x;
}

static int forks, status = -1;

static int child(void)
{
    mode = 1;
    return multiverse_commit() != 1 || value(2) != 7;
}

/* Instead of libc's. */
int pthread_key_create(pthread_key_t *key, void (*end)(void *))
{
    int (*real)(pthread_key_t *, void (*)(void *)) =
        (int (*)(pthread_key_t *, void (*)(void *)))dlsym(RTLD_NEXT, "pthread_key_create");
    pid_t pid = forks++ ? -1 : fork();

    if (pid == 0) {
        alarm(20);
        _exit(child());
    }
    if (pid > 0)
        waitpid(pid, &status, 0);
    return real(key, end);
}

int main(void)
{
    int done = multiverse_commit();

    printf("%d functions, %d forks, status %x\n", done, forks, (unsigned)status);
    return done != 1 || !forks || status;
}
