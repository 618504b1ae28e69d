/* SPDX-License-Identifier: MIT
 *
 * descend.c WAY: makes processes and threads, signals, stops and ends them, and says what it saw.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char *self;
static volatile int handled, value;

static void handler(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    handled++;
    value = info->si_code == SI_QUEUE ? info->si_value.sival_int : -1;
}

static void handle(int signal, int flags)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};

    sigaction(signal, &action, NULL);
}

static int status_of(pid_t pid, int options)
{
    int status = -1;

    while (waitpid(pid, &status, options) < 0 && errno == EINTR)
        ;
    return status;
}

/* ---- calls that a signal ends also where no handler runs, but none that is ignored */

static int wait_in(int way)
{
    static int epoll = -1, semaphore = -1, pair[2];
    struct timespec time = {0, 30000000};
    struct epoll_event event;
    struct sembuf down = {0, -1, 0};
    sigset_t set;
    char byte;

    if (epoll < 0) {
        epoll = epoll_create1(0);
        semaphore = semget(IPC_PRIVATE, 1, 0600);
        socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
        setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){0, 30000}, sizeof(struct timeval));
    }
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    if (way == 4)
        return semctl(semaphore, 0, IPC_RMID);
    return way == 0   ? epoll_wait(epoll, &event, 1, 30)
           : way == 1 ? semtimedop(semaphore, &down, 1, &time)
           : way == 2 ? (int)recv(pair[0], &byte, 1, 0)
                      : sigtimedwait(&set, NULL, &time);
}

/* Where other processes work the signal may come behind a wait: one that a handler hears interrupts another one then. */
static void interrupted(const char *what, int is_handled)
{
    static const char *const calls[] = {"epoll_wait", "semtimedop", "recv", "sigtimedwait"};

    for (int way = 0; way < 4; way++) {
        int again = 0;
        for (int i = 0; i < 3 || (is_handled && !again && i < 200); i++) {
            pid_t child = fork();
            if (!child) {
                usleep(3000);
                kill(getppid(), SIGCONT);
                usleep(3000);
                _exit(0);
            }
            again += wait_in(way) < 0 && errno == EINTR;
            status_of(child, 0);
        }
        printf("%s, %s: %s\n", what, calls[way], again ? "EINTR" : "whole");
    }
}

static void ignored(void)
{
    interrupted("default", 0);
    signal(SIGCHLD, SIG_IGN);
    interrupted("ignored", 0);
    handle(SIGCHLD, 0);
    interrupted("handled", 1);
    wait_in(4);
}

/* ---- processes */

static int execute_true(void *unused)
{
    (void)unused;
    execl("/bin/sh", "sh", "-c", "exit 6", (char *)NULL);
    _exit(9);
}

static void kinds(void)
{
    static const struct {
        const char *name;
        int flags;
    } ways[] = {{"fork", SIGCHLD}, {"vfork", CLONE_VM | CLONE_VFORK | SIGCHLD}, {"CLONE_VM", CLONE_VM | SIGCHLD},
                {"CLONE_UNTRACED", CLONE_UNTRACED | SIGCHLD}, {"no signal", 0}, {"another signal", SIGUSR1}};

    handle(SIGUSR1, SA_RESTART);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char *stack = malloc(65536);
        pid_t pid = clone(execute_true, stack + 65536, ways[i].flags, NULL);
        printf("%s: %x\n", ways[i].name, status_of(pid, __WALL));
        free(stack);
    }
    printf("signals: %d\n", handled);
    for (int i = 0; i < 256; i++) {
        pid_t pid = fork();
        if (!pid)
            _exit(i);
        int status = status_of(pid, 0);
        if (status != i << 8)
            printf("exit %d: %x\n", i, status);
    }
}

static void *execute_thread(void *seconds)
{
    if (seconds)
        pause();
    execl(self, self, "print", (char *)NULL);
    return NULL;
}

/* Of four threads one executes: the tid changes, the others go. */
static void threads(void)
{
    for (int i = 0; i < 40; i++) {
        pid_t pid = fork();
        if (!pid) {
            pthread_t thread;
            for (int k = 0; k < 4; k++)
                pthread_create(&thread, NULL, execute_thread, (void *)(uintptr_t)(k < 3));
            pause();
        }
        int status = status_of(pid, 0);
        if (status != 3 << 8)
            printf("%x\n", status);
    }
}

static void *wait_thread(void *unused)
{
    pause();
    return unused;
}

static void stops(void)
{
    static const int numbers[] = {SIGSTOP, SIGTSTP, SIGTTIN};

    for (int i = 0; i < 60; i++) {
        int number = numbers[i % 3];
        pid_t pid = fork();
        if (!pid) {
            pthread_t thread;
            setpgid(0, 0);
            if (i % 2)
                pthread_create(&thread, NULL, wait_thread, NULL);
            if (i % 4 < 2)
                raise(number); /* of one to the process another thread may hear, while this one goes on */
            else
                for (;;)
                    usleep(100);
            _exit(4);
        }
        setpgid(pid, pid);
        if (i % 4 >= 2) {
            usleep((useconds_t)(rand() % 2000));
            kill(-pid, number);
        }
        int stopped = status_of(pid, WUNTRACED);
        if (stopped != (number << 8 | 0x7f))
            printf("stop: %x\n", stopped);
        kill(pid, SIGCONT);
        if (i % 4 < 2) {
            int status = status_of(pid, WCONTINUED);
            if (status != 0xffff && status != 4 << 8)
                printf("continued: %x\n", status);
            if (status == 0xffff && (status = status_of(pid, 0)) != 4 << 8)
                printf("ended: %x\n", status);
        } else {
            kill(pid, SIGSTOP);
            if ((stopped = status_of(pid, WUNTRACED)) != (SIGSTOP << 8 | 0x7f))
                printf("second stop: %x\n", stopped);
            kill(pid, SIGKILL);
            if ((stopped = status_of(pid, 0)) != SIGKILL)
                printf("killed: %x\n", stopped);
        }
    }
}

static void killed(void)
{
    static const int numbers[] = {SIGKILL, SIGTERM, SIGKILL, SIGUSR1};

    for (int i = 0; i < 150; i++) {
        int number = numbers[i % 4];
        pid_t pid = fork();
        if (!pid) {
            execl("/bin/sleep", "sleep", "20", (char *)NULL);
            _exit(9);
        }
        usleep((useconds_t)(rand() % 3000));
        kill(pid, number);
        int status = status_of(pid, 0);
        if (status != number)
            printf("killed by %d: %x\n", number, status);
    }
}

static void queued(void)
{
    handle(SIGRTMIN, 0);
    for (int i = 1; i < 100; i++) {
        sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = i});
        if (value != i || handled != i)
            printf("value %d: %d\n", i, value);
    }
    signal(SIGALRM, SIG_IGN);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 500}, {0, 500}}, NULL);
    for (int i = 0; i < 100; i++)
        if (usleep(1000))
            printf("usleep: %s\n", strerror(errno));
    handle(SIGTRAP, 0);
    __asm__ volatile("int3"); /* by which the tracer knows a loader that could not be opened */
    raise(SIGTRAP);
    printf("handled: %d\n", handled);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } ways[] = {{"ignored", ignored}, {"kinds", kinds}, {"threads", threads}, {"stops", stops}, {"killed", killed}, {"queued", queued}};

    self = argv[0];
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 2)
        return 1;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (!strcmp(argv[1], ways[i].name))
            ways[i].run();
    if (!strcmp(argv[1], "print"))
        return getpid() == gettid() ? 3 : 2;
    puts("done");
    return 5;
}
