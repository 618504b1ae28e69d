/* SPDX-License-Identifier: MIT
 *
 * service: reads nothing, generates its lines (the same ones in every run), and
 * says at each step what it did.  With --step it waits for a line on standard
 * input after each step, so that a driver can look at its code.
 */
#include "service.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

__attribute__((multiverse)) bool config_smp = true;
__attribute__((multiverse)) bool config_tracing;
__attribute__((multiverse)) enum checksum_mode config_checksum = CHECKSUM_CRC;

static char (*lines)[32];
static size_t n_lines = 200000;
static bool step;

static void make_lines(void)
{
    uint32_t x = 12345;
    lines = calloc(n_lines, sizeof *lines);
    if (!lines)
        exit(3);
    for (size_t i = 0; i < n_lines; i++) {
        x = x * 1664525 + 1013904223;
        snprintf(lines[i], sizeof *lines, "INFO key%u %u\n", x >> 20 & 1023, x >> 8 & 4095);
    }
}

/* One step: process the lines, say how it went. */
static void process(const char *name, size_t n)
{
    struct timespec a, b;
    (void)store_statistics();
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (size_t i = 0; i < n; i++)
        ingest_line(lines[i], strlen(lines[i]));
    trace("step done", n); /* the executable has a call site too */
    clock_gettime(CLOCK_MONOTONIC, &b);
    struct statistics s = store_statistics();
    double ns = (double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec);
    printf("%s: %" PRIu64 " lines, %" PRIu64 " locks, %" PRIu64 " traces, checksum %08" PRIx32
           ", %.1f ns a line\n", name, s.adds, s.locks, s.traces, s.checksums, ns / (double)n);
    fflush(stdout);
    if (step && getchar() == EOF)
        exit(4);
}

static void show_switches(void)
{
    static const char *const modes[] = {"none", "sum", "crc"};
    printf("switches: smp=%d tracing=%d checksum=%s\n", config_smp, config_tracing,
           (unsigned)config_checksum < 3 ? modes[config_checksum] : "?");
}

static void dlopen_step(const char *path)
{
    void *handle = dlopen(path, RTLD_NOW);
    if (!handle) {
        fprintf(stderr, "service: %s\n", dlerror());
        exit(5);
    }
    uint64_t traces_of_constructor = store_statistics().traces;
    export_report_fn *report;
    *(void **)&report = dlsym(handle, "export_report");
    size_t bytes = report();
    struct statistics s = store_statistics();
    printf("dlopen: report of %zu bytes, %" PRIu64 " traces in its constructor, ", bytes,
           traces_of_constructor);
    printf("%" PRIu64 " traces and %" PRIu64 " locks in it\n", s.traces, s.locks);
    fflush(stdout);
    if (step && getchar() == EOF)
        exit(4);
    dlclose(handle);
}

int main(int argc, char **argv)
{
    const char *export_path = "libexport.so";
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--step"))
            step = true;
        else if (!strcmp(argv[i], "--export") && i + 1 < argc)
            export_path = argv[++i];
        else if (!strcmp(argv[i], "--lines") && i + 1 < argc)
            n_lines = strtoul(argv[++i], NULL, 0);
        else
            return fputs("usage: service [--step] [--lines N] [--export LIB]\n", stderr), 2;
    }
    make_lines();
    struct multiverse_runtime mv = service_runtime();
    show_switches();
    process("start", n_lines);

    config_tracing = true;
    process("tracing=1, no commit", n_lines);
    if (mv.commit_refs)
        printf("multiverse_commit_refs(&config_tracing) = %d\n", mv.commit_refs(&config_tracing));
    process(mv.commit_refs ? "tracing=1, committed" : "tracing=1, again", n_lines);
    dlopen_step(export_path);

    config_tracing = false;
    if (mv.commit)
        printf("multiverse_commit() = %d\n", mv.commit());
    process(mv.commit ? "tracing=0, committed" : "tracing=0", n_lines);
    if (mv.revert) {
        printf("multiverse_revert() = %d\n", mv.revert());
        process("tracing=0, reverted", n_lines);
    }
    process("tracing=0, again", n_lines); /* the same as before: how far equal times differ */
    return 0;
}
