/* SPDX-License-Identifier: MIT
 *
 * calls [THREADS [epoll]]: calls functions of the library, and says on each line of input
 *     ""      what value(1) is through the PLT, from inside of its library, by pointer, by a pointer held since the
 *             start; and second(1)
 *     "fork"  the same, of a child
 *     "fault" calls faults(), whose handler waits for one more line
 *     "loader ADDRESS", where a loader is mapped: from now on a thread waits in a system call of the loader's own
 *     "unmap ADDRESS SIZE" that memory is unmapped
 * So many threads call value() all the time, and accept its old and its new result.  With "epoll" another one waits by
 * epoll_wait(2), and accepts no error.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

int value(int), second(int), inner(int), faults(const int *);
int (*pointer(void))(int);

static int (*held)(int);

static void say(void)
{
    printf("%d %d %d %d %d\n", value(1), inner(1), pointer()(1), held(1), second(1));
    fflush(stdout);
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
    static const int seven = 7;
    char line[100];

    (void)signal, (void)info;
    puts("in the handler");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        _exit(3);
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RDI] = (greg_t)(unsigned long)&seven;
}

static void *work(void *nothing)
{
    for (;;) {
        int n = value(1);

        if (n != 4 && n != 1001) {
            printf("wrong: %d\n", n);
            exit(1);
        }
    }
    return nothing;
}

static void *polls(void *nothing)
{
    struct epoll_event event;
    int set = epoll_create1(0);

    while (epoll_wait(set, &event, 1, 2) == 0)
        ;
    puts("epoll_wait failed");
    exit(1);
    return nothing;
}

static void *waits(void *nothing)
{
    for (;;)
        pause();
    return nothing;
}

/* At the first bytes 0f 05 of the loader's first segment. */
static void *waits_in_loader(void *loader)
{
    static const unsigned char call[] = {0x0f, 0x05};

    __asm__ volatile("jmp *%1" : : "a"((long)SYS_pause), "r"(memmem(loader, 65536, call, sizeof call)));
    return NULL;
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    int threads = argc > 1 ? atoi(argv[1]) : 0;
    pthread_t thread;
    char line[100];
    void *loader, *memory;
    size_t size;

    held = pointer();
    sigaction(SIGSEGV, &action, NULL);
    if (pthread_create(&thread, NULL, waits, NULL)) /* who can be led somewhere while main is in the handler */
        return 2;
    if (argc > 2 && pthread_create(&thread, NULL, polls, NULL))
        return 2;
    while (threads-- > 0)
        if (pthread_create(&thread, NULL, work, NULL))
            return 2;
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "loader %p", &loader) == 1) {
            if (pthread_create(&thread, NULL, waits_in_loader, loader))
                return 2;
            puts("waits there");
            fflush(stdout);
        } else if (sscanf(line, "unmap %p %zu", &memory, &size) == 2) {
            puts(munmap(memory, size) ? "not unmapped" : "unmapped");
            fflush(stdout);
        } else if (!strcmp(line, "fault\n")) {
            printf("%d\n", faults(NULL));
            fflush(stdout);
        } else if (strcmp(line, "fork\n") != 0) {
            say();
        } else if (!fork()) {
            say();
            _exit(0);
        } else {
            wait(NULL);
        }
    }
    puts("whole");
    exit(0);
}
