/* SPDX-License-Identifier: MIT
 *
 * fork, vfork and exec, posix_spawn, system, popen, a thread that forks, clone with a stack of its
 * own; handlers of pthread_atfork; a function of a library and a pointer used in the children.
 *
 * A failure means that children crash, or run other code than their parent.
 *
 * build: libchild.so -DLIBRARY
 * build: program libchild.so -pthread
 * run:
 * run: LD_BIND_NOW=1
 */
#include "identity.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

int twice(int);
typedef int function(int);
function *given(void);

#ifdef LIBRARY
static int own(int n)
{
    RUNS;
    return n + 1;
}

function *given(void)
{
    return own;
}

int twice(int n)
{
    RUNS;
    return n * 2;
}
#else
static int wait_for(pid_t id)
{
    int status;

    while (waitpid(id, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void prepare(void)
{
    RUNS;
    printf("prepare\n");
}

static void in_child(void)
{
    RUNS;
}

static void *forks(void *data)
{
    pid_t id = fork();

    RUNS;
    if (!id)
        _exit(given()(twice(4)));
    printf("thread's child %d\n", wait_for(id));
    return data;
}

static int cloned(void *data)
{
    RUNS;
    _exit(twice(*(int *)data));
}

static __attribute__((noinline)) int virtual(char *const *words)
{
    pid_t id = vfork();

    if (!id) {
        if (!words[0])
            _exit(given()(twice(2)));
        execv(words[0], words);
        _exit(99);
    }
    RUNS;
    return wait_for(id);
}

int main(int argc, char **argv)
{
    static char stack[65536];
    static char argument[] = "child";
    char *words[] = {argv[0], argument, NULL}, *none[] = {NULL};
    int seven = 7;
    pthread_t thread;
    pid_t id;
    FILE *pipe;
    char line[100] = "";

    setvbuf(stdout, NULL, _IONBF, 0);
    RUNS;
    if (argc > 1)
        return given()(twice(20));
    printf("vfork %d %d\n", virtual(none), virtual(words));
    if (posix_spawn(&id, argv[0], NULL, NULL, words, environ))
        return 1;
    printf("spawn %d\n", wait_for(id));
    printf("system %d %d\n", WEXITSTATUS(system("exit 5")), system("echo from the shell"));
    pipe = popen("echo through a pipe", "r");
    printf("popen %s", fgets(line, sizeof(line), pipe) ? line : "nothing\n");
    printf("%d\n", pclose(pipe));
    id = clone(cloned, stack + sizeof(stack), SIGCHLD, &seven);
    printf("clone %d\n", wait_for(id));
    id = clone(cloned, stack + sizeof(stack), SIGCHLD | CLONE_VM | CLONE_VFORK, &seven);
    printf("clone in the same memory %d\n", wait_for(id));
    pthread_atfork(prepare, in_child, in_child);
    for (int i = 0; i < 3; i++) {
        id = fork();
        if (!id)
            _exit(i < 2 ? given()(twice(i)) : (raise(SIGKILL), 1));
        printf("fork %d\n", wait_for(id));
    }
    pthread_create(&thread, NULL, forks, NULL);
    pthread_join(thread, NULL);
    return 0;
}
#endif
