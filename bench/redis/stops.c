/* SPDX-License-Identifier: MIT
 *
 * Preloaded into `mvld switch`: writes a line to the file STOPS for each stop of a thread, all in nanoseconds:
 *
 *     how long it was     the tool's own CPU time     what the tool waited for a processor     the thread's two
 *
 * A stop begins before the thread is interrupted and ends behind its release.  What is read for the line is read
 * outside of it.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static struct {
    int thread;            /* its schedstat */
    uint64_t since;        /* 0: none is stopped */
    uint64_t times[4];     /* CPU time and time of waiting: of the tool, of the thread */
} stop;

static uint64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void read_times(int schedstat, uint64_t times[2])
{
    char text[100];
    ssize_t n = pread(schedstat, text, sizeof text - 1, 0);

    text[n > 0 ? n : 0] = 0;
    sscanf(text, "%lu %lu", &times[0], &times[1]);
}

static void all_times(uint64_t times[4])
{
    static int own = -1;

    if (own < 0)
        own = open("/proc/self/schedstat", O_RDONLY | O_CLOEXEC);
    read_times(own, times);
    read_times(stop.thread, times + 2);
}

static void begin(pid_t thread)
{
    char path[40];

    snprintf(path, sizeof path, "/proc/%d/schedstat", thread);
    stop.thread = open(path, O_RDONLY | O_CLOEXEC);
    all_times(stop.times);
    stop.since = now();
}

static void end(void)
{
    uint64_t length = now() - stop.since, times[4] = {0};
    FILE *to;

    all_times(times);
    to = fopen(getenv("STOPS"), "a");
    if (to) {
        fprintf(to, "%lu", length);
        for (int i = 0; i < 4; i++)
            fprintf(to, " %lu", times[i] - stop.times[i]);
        fputc('\n', to);
        fclose(to);
    }
    close(stop.thread);
    stop.since = 0;
}

long ptrace(enum __ptrace_request request, ...)
{
    static long (*real)(enum __ptrace_request, ...);
    va_list args;
    pid_t thread;
    void *address, *data;
    long result;

    va_start(args, request);
    thread = va_arg(args, pid_t);
    address = va_arg(args, void *);
    data = va_arg(args, void *);
    va_end(args);
    if (!real)
        real = (long (*)(enum __ptrace_request, ...))dlsym(RTLD_NEXT, "ptrace");
    if (request == PTRACE_INTERRUPT && !stop.since)
        begin(thread);
    result = real(request, thread, address, data);
    if (request == PTRACE_DETACH && !result && stop.since)
        end();
    return result;
}
