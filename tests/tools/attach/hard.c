/* SPDX-License-Identifier: MIT
 *
 * hard WAY: a program in a state in which nobody should be led anywhere, or that changes under the tool's hands.  It says
 * "ready", and "whole" at the end of its input, if nothing went wrong.
 *
 *     malloc    its only thread waits in a signal's handler that has interrupted malloc, whose lock it holds; then not
 *     vfork     waits for a child that has its memory, for a second
 *     threads   five hundred threads wait
 *     filter    has a filter of system calls that allows all
 *     filtered  the only thread that waits has a filter by which mmap(2) ends the process
 *     exec      another thread executes the program anew, again and again, thirty times
 *     exit      another thread ends it, with status 7, after a time by chance
 */
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static char **arguments;
static volatile int in_malloc, interrupted;

static void wait_for_input(void)
{
    struct pollfd input = {STDIN_FILENO, POLLIN, 0};

    puts("ready");
    fflush(stdout);
    while (poll(&input, 1, 1000) == 0)
        ;
    puts("whole");
    fflush(stdout);
}

/* What a program's own malloc does; glibc's cannot be met at will. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void *calloc(size_t n, size_t size)
{
    void *memory;

    pthread_mutex_lock(&lock);
    if (in_malloc) {
        raise(SIGUSR1);
        in_malloc = 0;
    }
    memory = malloc(n * size);
    pthread_mutex_unlock(&lock);
    return memory ? memset(memory, 0, n * size) : NULL;
}

static void on_signal(int signal)
{
    (void)signal;
    interrupted = 1;
    if (write(STDOUT_FILENO, "ready\n", 6) != 6)
        _exit(2);
    poll(NULL, 0, 1500);
}

static void by_malloc(void)
{
    void *volatile memory;

    signal(SIGUSR1, on_signal);
    in_malloc = 1;
    memory = calloc(10, 10);
    free(memory);
    wait_for_input();
}

static void by_vfork(void)
{
    pid_t child;

    puts("ready");
    fflush(stdout);
    child = vfork();
    if (!child) {
        poll(NULL, 0, 1000);
        _exit(3);
    }
    wait_for_input();
}

static void *sleeps(void *nothing)
{
    for (;;)
        pause();
    return nothing;
}

static void start(void *(*function)(void *))
{
    pthread_attr_t small;
    pthread_t thread;

    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    if (pthread_create(&thread, &small, function, NULL))
        exit(2);
}

static void by_threads(void)
{
    for (int i = 0; i < 500; i++)
        start(sleeps);
    wait_for_input();
}

static void by_filter(void)
{
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {1, &allow};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        exit(2);
    wait_for_input();
}

static int ended;

static void *waits_filtered(void *nothing)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {4, filter};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        exit(2);
    wait_for_input();
    __atomic_store_n(&ended, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &ended, FUTEX_WAKE, 1, NULL, NULL, 0);
    return nothing;
}

/* Its first thread waits as for a lock, which is no place of rest. */
static void by_filtered(void)
{
    setvbuf(stdout, NULL, _IONBF, 0); /* a buffer is memory from mmap(2) */
    start(waits_filtered);
    while (!__atomic_load_n(&ended, __ATOMIC_SEQ_CST))
        syscall(SYS_futex, &ended, FUTEX_WAIT, 0, NULL, NULL, 0);
}

static void *executes(void *nothing)
{
    int left = arguments[2] ? atoi(arguments[2]) : 30;
    char text[20];

    poll(NULL, 0, 1 + left % 13 * 10);
    snprintf(text, sizeof text, "%d", left - 1);
    execl("/proc/self/exe", arguments[0], arguments[1], text, NULL);
    return nothing;
}

static void by_exec(void)
{
    if (!arguments[2])
        puts("ready");
    fflush(stdout);
    if (!arguments[2] || atoi(arguments[2]) > 0) {
        start(executes);
        sleeps(NULL);
    }
    puts("executed");
    fflush(stdout);
    wait_for_input();
}

static void *ends(void *nothing)
{
    struct timeval now;

    gettimeofday(&now, NULL);
    usleep((unsigned)now.tv_usec % 20000);
    _exit(7);
    return nothing;
}

static void by_exit(void)
{
    puts("ready");
    fflush(stdout);
    start(ends);
    sleeps(NULL);
}

static const struct {
    const char *name;
    void (*run)(void);
} ways[] = {{"malloc", by_malloc}, {"vfork", by_vfork}, {"threads", by_threads}, {"filter", by_filter},
            {"filtered", by_filtered}, {"exec", by_exec}, {"exit", by_exit}};

int main(int argc, char **argv)
{
    arguments = argv;
    for (size_t i = 0; argc > 1 && i < sizeof ways / sizeof *ways; i++)
        if (!strcmp(argv[1], ways[i].name)) {
            ways[i].run();
            return 0;
        }
    return 2;
}
