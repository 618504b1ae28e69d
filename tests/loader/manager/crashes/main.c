/* SPDX-License-Identifier: MIT
 *
 * main WAY LIBRARY: opens a library and closes it, with a handler of its own, ignoring the signal, with a thread,
 * with a file of its own as standard error, or without any of these; for crashes.py.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void handler(int signal)
{
    (void)signal;
    _exit(7);
}

static void *waits(void *nothing)
{
    pause();
    return nothing;
}

/* 1: the action for this signal is `wanted`, as sigaction(2) made it. */
static int is(int signal, void (*wanted)(int))
{
    struct sigaction action;

    return !sigaction(signal, NULL, &action) && action.sa_handler == wanted && !(action.sa_flags & SA_SIGINFO);
}

int main(int argc, char **argv)
{
    const char *way = argv[1];
    void (*wanted)(int) = !strcmp(way, "handles") ? handler : !strcmp(way, "ignores") ? SIG_IGN : SIG_DFL;
    pthread_t thread;
    void *library;

    if (argc < 3 || !is(SIGSEGV, SIG_DFL) || !is(SIGBUS, SIG_DFL) || !is(SIGILL, SIG_DFL) || !is(SIGFPE, SIG_DFL))
        return 1;
    if (wanted != SIG_DFL)
        signal(SIGSEGV, wanted);
    if (!strcmp(way, "threads") && pthread_create(&thread, NULL, waits, NULL))
        return 1;
    if (!strcmp(way, "file")) {
        close(2);
        if (open("own", O_RDWR | O_CREAT | O_TRUNC, 0600) != 2)
            return 1;
    }
    library = dlopen(argv[2], RTLD_NOW);
    puts(library ? "opened" : "refused");
    fflush(stdout);
    if (library)
        dlclose(library);
    return !is(SIGSEGV, wanted) || !is(SIGBUS, SIG_DFL) || !is(SIGILL, SIG_DFL) || !is(SIGFPE, SIG_DFL);
}
