/* SPDX-License-Identifier: MIT
 *
 * waits HOW: waits again and again in one way, with a value in every register that a call may keep and in the
 * vector registers, and ends with 1 and a sentence when one of them, or the call's answer, is another one
 * behind it.  Prints "ready" first; ends with 0 at the end of its standard input.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t ticks;

static void tick(int signal)
{
    (void)signal;
    ticks++;
}

static void wrong(const char *what, long value)
{
    printf("%s: %ld, errno %d (%s)\n", what, value, errno, strerror(errno));
    fflush(stdout);
    _exit(1);
}

/* A raw system call between two looks at all registers that it leaves alone. */
static long call(long number, long a, long b, long c, long d)
{
    double before[4] = {1.5, 2.5, 3.5, 4.5}, after[4] = {0, 0, 0, 0};
    unsigned long general[5];
    long result;
    register long r10 __asm__("r10") = d;

    __asm__ volatile(
        "movupd (%[before]), %%xmm0\n"
        "movupd 16(%[before]), %%xmm15\n"
        "movq $0x1111, %%rbx\n"
        "movq $0x2222, %%r12\n"
        "movq $0x3333, %%r13\n"
        "movq $0x4444, %%r14\n"
        "std\n"
        "syscall\n"
        "pushfq\n"
        "popq 32(%[general])\n"
        "cld\n"
        "movq %%rbx, (%[general])\n"
        "movq %%r12, 8(%[general])\n"
        "movq %%r13, 16(%[general])\n"
        "movq %%r14, 24(%[general])\n"
        "movupd %%xmm0, (%[after])\n"
        "movupd %%xmm15, 16(%[after])\n"
        : "=a"(result)
        : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), [before] "r"(before), [after] "r"(after),
          [general] "r"(general)
        : "rbx", "r12", "r13", "r14", "rcx", "r11", "xmm0", "xmm15", "memory");
    if (memcmp(before, after, sizeof before))
        wrong("a vector register", (long)after[0]);
    for (unsigned long i = 0; i < 4; i++)
        if (general[i] != 0x1111 * (i + 1))
            wrong("a register", (long)general[i]);
    if (!(general[4] & 0x400))
        wrong("the direction flag", (long)general[4]);
    return result;
}

static int channel[2];
static sem_t semaphore;

static void *post(void *nothing)
{
    for (;;) {
        poll(NULL, 0, 2);
        sem_post(&semaphore);
    }
    return nothing;
}

static void *feed(void *nothing)
{
    for (;;) {
        usleep(2000);
        if (write(channel[1], "x", 1) != 1)
            return nothing;
    }
}

static void start(void *(*function)(void *))
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, function, NULL))
        wrong("pthread_create", 0);
}

static void by_poll(void)
{
    long n = call(SYS_poll, 0, 0, 2, 0);

    if (n)
        wrong("poll", n);
}

static void by_epoll(void)
{
    static int set = -1;
    struct epoll_event event;
    long n;

    if (set < 0)
        set = epoll_create1(0);
    n = call(SYS_epoll_wait, set, (long)&event, 1, 2);
    if (n)
        wrong("epoll_wait", n);
}

static void by_sleep(void)
{
    struct timespec time = {0, 2000000}, left = {0, 0}, begin, end;
    long n, took;

    clock_gettime(CLOCK_MONOTONIC, &begin);
    n = call(SYS_nanosleep, (long)&time, (long)&left, 0, 0);
    clock_gettime(CLOCK_MONOTONIC, &end);
    took = (end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec;
    if (n || took < 2000000)
        wrong("nanosleep", n ? n : took);
}

static void by_read(void)
{
    char byte = 0;
    long n = call(SYS_read, channel[0], (long)&byte, 1, 0);

    if (n != 1 || byte != 'x')
        wrong("read", n);
}

static void by_semaphore(void)
{
    if (sem_wait(&semaphore))
        wrong("sem_wait", -1);
}

static void by_select(void)
{
    long n = call(SYS_select, 0, 0, 0, 0);

    wrong("select that waits for ever", n);
}

/* With signals all the time: each wait ends as the kernel ends it for a handler. */
static void by_signals(void)
{
    static int set = -1;
    struct epoll_event event;
    struct sigaction action = {.sa_handler = tick};
    struct itimerspec often = {{0, 700000}, {0, 700000}};
    static timer_t timer;
    long n;

    if (set < 0) {
        set = epoll_create1(0);
        sigaction(SIGALRM, &action, NULL);
        timer_create(CLOCK_MONOTONIC, NULL, &timer);
        timer_settime(timer, 0, &often, NULL);
    }
    n = call(SYS_epoll_wait, set, (long)&event, 1, 2);
    if (n && n != -EINTR)
        wrong("epoll_wait with signals", n);
}

static const struct {
    const char *name;
    void (*wait)(void);
    void *(*thread)(void *);
} ways[] = {{"poll", by_poll, NULL},       {"epoll", by_epoll, NULL},         {"sleep", by_sleep, NULL},
            {"read", by_read, feed},       {"semaphore", by_semaphore, post}, {"signals", by_signals, NULL},
            {"select", by_select, NULL}};

/* A handler ends poll(2), also one that does not wait. */
static int input_is_open(void)
{
    struct pollfd input = {STDIN_FILENO, POLLIN, 0};
    int n = poll(&input, 1, 0);

    return n == 0 || (n < 0 && errno == EINTR);
}

int main(int argc, char **argv)
{
    size_t way = 0;

    while (way < sizeof ways / sizeof *ways && (argc < 2 || strcmp(argv[1], ways[way].name)))
        way++;
    if (way == sizeof ways / sizeof *ways || pipe(channel) || sem_init(&semaphore, 0, 0))
        return 2;
    if (ways[way].thread)
        start(ways[way].thread);
    puts("ready");
    fflush(stdout);
    while (input_is_open())
        ways[way].wait();
    puts("whole");
    return 0;
}
