/* SPDX-License-Identifier: MIT
 *
 * hard WAY: a program in a state in which nobody should be led anywhere, or that changes under the tool's hands.  It says
 * "ready", and "whole" at the end of its input, if nothing went wrong.
 *
 *     malloc    its only thread waits in a signal's handler that has interrupted malloc, whose lock it holds; then not
 *     vfork     waits for a child that has its memory, for a second
 *     threads   five hundred threads wait
 *     busy      its first thread works, and waits between; another one only waits
 *     filter    has a filter of system calls: kill, errno, trap, log and allow are what it does about mmap(2); few allows
 *               only what it needs itself; strict is the kernel's own
 *     filtered  the only thread that waits has a filter by which mmap(2) ends the process
 *     late      the same, but the thread has no filter for the first second and a half
 *     coroutine its only thread waits on a small stack of its own, with data of somebody else's below it
 *     adjacent  the same, in the mapping of the thread's control block; says "none" if there is no space
 *     handler   waits in a handler, whose small stack is a variable on the stack of its only thread
 *     shallow   the only thread that waits has little left of its stack
 *     long      waits for a minute in one call of poll(2)
 *     ring      waits for input in one io_uring_enter(2); says "none" where there is no io_uring
 *     masked    all signals are blocked, and there is a stack for handlers
 *     forked    waits in a child that another thread than the first has forked
 *     forks     another thread makes children all the time; the first one waits in epoll_wait(2)
 *     clones    its first thread makes children without a pause; another one, with a filter, waits in epoll_wait(2)
 *     dlopens   another thread opens and closes libm all the time
 *     written   libc's code cannot be executed for half a second: somebody writes there
 *     exec      another thread executes the program anew, again and again, thirty times
 *     exit      another thread ends it, with status 7, after a time by chance
 */
#include "hard.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

char **arguments;
static volatile int in_malloc, interrupted;

void wait_for_input(void)
{
    struct pollfd input = {STDIN_FILENO, POLLIN, 0};

    puts("ready");
    fflush(stdout);
    while (poll(&input, 1, 1000) == 0)
        ;
    puts("whole");
    fflush(stdout);
}

/* What a program's own malloc does; glibc's cannot be met at will.  It has no name of the C library's: the compiler
 * may take what malloc and memset do in calloc for a call of calloc. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void *allocate(size_t size)
{
    void *memory;

    pthread_mutex_lock(&lock);
    if (in_malloc) {
        raise(SIGUSR1);
        in_malloc = 0;
    }
    memory = malloc(size);
    pthread_mutex_unlock(&lock);
    return memory;
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
    memory = allocate(100);
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

void start(void *(*function)(void *))
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

long thread(void)
{
    return syscall(SYS_gettid);
}

/* As the kernel tells it: 20, or less than 0 for a real-time priority. */
long priority(void)
{
    FILE *stat = fopen("/proc/thread-self/stat", "r");
    long value = 0;

    if (!stat || fscanf(stat, "%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %ld", &value) != 1)
        return 0;
    fclose(stat);
    return value;
}

static void works(clock_t time)
{
    clock_t until = clock() + time;

    while (clock() < until)
        ;
}

static void by_busy(void)
{
    struct pollfd input = {STDIN_FILENO, POLLIN, 0};

    start(sleeps);
    works(CLOCKS_PER_SEC / 10);
    puts("ready");
    fflush(stdout);
    while (poll(&input, 1, 1) == 0)
        ;
    puts("whole");
    fflush(stdout);
}

static void by_long(void)
{
    struct pollfd input = {STDIN_FILENO, POLLIN, 0};

    puts("ready");
    fflush(stdout);
    puts(poll(&input, 1, 60000) == 1 ? "whole" : "cut off");
    fflush(stdout);
}

/* A request to wait for input; then nothing but the wait for its end. */
static void by_ring(void)
{
    struct io_uring_params p = {0};
    struct io_uring_sqe *request;
    unsigned *tail;
    char *queue;
    int ring = (int)syscall(SYS_io_uring_setup, 1, &p);

    puts(ring < 0 ? "none" : "ready");
    fflush(stdout);
    if (ring < 0)
        return;
    queue = mmap(NULL, p.sq_off.array + p.sq_entries * sizeof *tail, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    request = mmap(NULL, p.sq_entries * sizeof *request, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    if (queue == MAP_FAILED || request == MAP_FAILED)
        exit(2);
    *request = (struct io_uring_sqe){.opcode = IORING_OP_POLL_ADD, .fd = STDIN_FILENO, .poll_events = POLLIN};
    tail = (unsigned *)(queue + p.sq_off.tail);
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, ring, 1, 0, 0, NULL, 0) != 1)
        exit(2);
    puts(syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 0 ? "whole" : "interrupted");
    fflush(stdout);
}

pid_t make_child(void)
{
    return (pid_t)syscall(SYS_fork);
}

static void *forks(void *nothing)
{
    static unsigned n;

    for (;;) {
        pid_t child;

        usleep(300);
        child = n++ % 2 ? vfork() : make_child();
        if (!child)
            _exit(0);
        waitpid(child, NULL, 0);
    }
    return nothing;
}

static void *dlopens(void *nothing)
{
    for (;;) {
        void *library = dlopen("libm.so.6", RTLD_NOW);

        if (!library || !dlsym(library, "cos") || dlclose(library))
            exit(2);
    }
    return nothing;
}

/* The first thread has done more than the other one, which is therefore tried first. */
static void by_forks(void)
{
    struct epoll_event event = {.events = EPOLLIN};
    int set = epoll_create1(0);

    epoll_ctl(set, EPOLL_CTL_ADD, STDIN_FILENO, &event);
    works(CLOCKS_PER_SEC / 2);
    start(forks);
    puts("ready");
    fflush(stdout);
    puts(epoll_wait(set, &event, 1, -1) == 1 ? "whole" : strerror(errno));
    fflush(stdout);
}

static void by_dlopens(void)
{
    start(dlopens);
    wait_for_input();
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

static int find_code(struct dl_phdr_info *info, size_t size, void *to)
{
    for (int i = 0; size && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + p->p_vaddr;

        if (p->p_flags & PF_X && (uintptr_t)dlsym(RTLD_DEFAULT, "puts") - start < p->p_memsz) {
            *(struct iovec *)to = (struct iovec){(void *)start, p->p_memsz};
            return 1;
        }
    }
    return 0;
}

static inline long call(long number, const void *a, size_t b, long c)
{
    __asm__ volatile("syscall" : "+a"(number) : "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return number;
}

static void by_written(void)
{
    struct iovec code = {0};
    const struct timespec half = {0, 500000000};

    puts("ready");
    fflush(stdout);
    dl_iterate_phdr(find_code, &code);
    call(SYS_mprotect, code.iov_base, code.iov_len, PROT_READ | PROT_WRITE);
    call(SYS_nanosleep, &half, 0, 0);
    call(SYS_mprotect, code.iov_base, code.iov_len, PROT_READ | PROT_EXEC);
    wait_for_input();
}

static const struct {
    const char *name;
    void (*run)(void);
} ways[] = {{"malloc", by_malloc}, {"vfork", by_vfork}, {"threads", by_threads}, {"busy", by_busy}, {"filter", by_filter},
            {"filtered", by_filtered}, {"late", by_filtered}, {"coroutine", by_coroutine}, {"adjacent", by_adjacent}, {"handler", by_handler},
            {"shallow", by_shallow}, {"ring", by_ring}, {"masked", by_masked}, {"forked", by_forked},
            {"long", by_long}, {"forks", by_forks}, {"clones", by_clones}, {"dlopens", by_dlopens},
            {"written", by_written}, {"exec", by_exec}, {"exit", by_exit}};

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
