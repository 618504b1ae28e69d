/* SPDX-License-Identifier: MIT
 *
 * patch.c: what the patch engine costs, beside its floor.
 *
 *     floor     the pages of the sites to RW- and back to R-X, nothing written
 *     first     the first batch over fresh pages: each is copied from its file
 *     steady    begin, add, commit, end, when the pages are the process's own
 *     remap, selfmem    the methods for threads, steady, while one runs
 *
 * Sites lie 16 bytes apart (dense) or in callers of five, one caller a page
 * (paged).  Prints lines for bench/run.py; `patch gaps` instead finds where one
 * mprotect over a hole costs as much as two around it (patch/mprotect.c).
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../measure.h"
#include "rimf/base/lock.h"
#include "rimf/patch/patch.h"

#define PAGE 4096UL
#define PROCESSES 15
#define STEADY 41

/* jmp rel32, call rel32: never run here */
static const uint8_t site_bytes[2][5] = {{0xe9, 0, 0, 0, 0}, {0xe8, 0x11, 0x22, 0x33, 0x44}};

static struct rimf_lock lock;
static struct mvld_segment segment;

static void *host_alloc(void *cookie, size_t size)
{
    (void)cookie;
    return calloc(1, size);
}

static void host_release(void *cookie, void *memory)
{
    (void)cookie;
    free(memory);
}

static int host_segment(void *cookie, uintptr_t address, struct mvld_segment *out)
{
    (void)cookie;
    *out = segment;
    return address >= segment.start && address < segment.end ? 0 : -1;
}

static void fail(const char *what)
{
    fprintf(stderr, "patch: %s\n", what);
    _exit(1);
}

static uint8_t *map_text(size_t pages)
{
    char path[] = "/tmp/mvld-bench-XXXXXX", page[PAGE];
    int fd = mkstemp(path);
    uint8_t *text;

    if (fd < 0)
        fail(path);
    unlink(path);
    memset(page, 0x90, sizeof(page));
    for (size_t i = 0; i < PAGE; i += 16)
        memcpy(page + i, site_bytes[0], 5);
    for (size_t i = 0; i < pages; i++) {
        if (write(fd, page, sizeof(page)) != sizeof(page))
            fail("cannot write the text");
    }
    text = mmap(NULL, pages * PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    if (text == MAP_FAILED)
        fail("cannot map the text");
    close(fd);
    segment = (struct mvld_segment){(uintptr_t)text, (uintptr_t)text + pages * PAGE,
                                    PROT_READ | PROT_EXEC};
    return text;
}

static struct rimf_patcher *engine(const char *method)
{
    struct rimf_patch_host host = {.sys = &rimf_sys_kernel, .lock = &lock, .alloc = host_alloc,
                                   .release = host_release, .segment = host_segment};
    struct rimf_patcher *p = rimf_patcher_create(&host);

    if (!p || rimf_patcher_set_method(p, method))
        return NULL;
    return p;
}

static size_t place(size_t site, int paged)
{
    return paged ? site / 5 * PAGE + 64 + site % 5 * 16 : site * 16;
}

static double commit(struct rimf_patcher *p, const uint8_t *text, size_t sites, int paged, int to)
{
    struct mvld_patch_report report;
    double start = now();
    struct mvld_batch *b = p ? rimf_patcher_begin(p) : NULL;

    if (!b)
        fail("no engine");
    for (size_t i = 0; i < sites; i++)
        rimf_patch_add(b, (uintptr_t)text + place(i, paged), site_bytes[!to], site_bytes[to], 5);
    if (rimf_patch_commit(b, &report) || report.applied != sites)
        fail("commit");
    rimf_patch_end(b);
    return now() - start;
}

enum figure { FLOOR, FIRST, STEADY_MPROTECT, STEADY_REMAP, STEADY_SELFMEM, FIGURES };
static const char *const names[FIGURES] = {"floor", "first", "steady", "steady by remap, threads",
                                           "steady by selfmem, threads"};
static const char *const methods[FIGURES] = {"mprotect", "mprotect", "mprotect", "remap",
                                             "selfmem"};

static void *run(void *unused)
{
    for (;;)
        __asm__ volatile("pause");
    return unused;
}

static void add_thread(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, run, NULL))
        fail("thread");
    usleep(5000);
}

static void measure(size_t sites, int paged, double *out)
{
    size_t pages = place(sites - 1, paged) / PAGE + 1;
    uint8_t *text = map_text(pages);
    double samples[STEADY];

    out[FIRST] = commit(engine("mprotect"), text, sites, paged, 1);
    for (int i = 0; i < STEADY; i++) {
        samples[i] = now();
        if (mprotect(text, pages * PAGE, PROT_READ | PROT_WRITE) ||
            mprotect(text, pages * PAGE, PROT_READ | PROT_EXEC))
            fail("mprotect");
        samples[i] = now() - samples[i];
    }
    out[FLOOR] = median(samples, STEADY);
    for (int f = STEADY_MPROTECT; f < FIGURES; f++) {
        struct rimf_patcher *p = engine(methods[f]);
        int n = f == STEADY_MPROTECT ? STEADY : f == STEADY_REMAP ? 11 : 3;
        out[f] = -1;
        if (!p)
            continue;
        if (f == STEADY_REMAP)
            add_thread();
        for (int i = 0; i < n; i++)
            samples[i] = commit(p, text, sites, paged, i & 1);
        commit(p, text, sites, paged, 1);
        out[f] = median(samples, (size_t)n);
    }
}

static void report(size_t sites, int paged)
{
    double samples[FIGURES][PROCESSES], one[FIGURES];

    for (int i = 0; i < PROCESSES; i++) {
        int ends[2], status;
        pid_t child;

        if (pipe(ends))
            fail("pipe");
        child = fork();
        if (child < 0)
            fail("fork");
        if (!child) {
            measure(sites, paged, one);
            _exit(write(ends[1], one, sizeof(one)) != sizeof(one));
        }
        if (waitpid(child, &status, 0) != child || status ||
            read(ends[0], one, sizeof(one)) != sizeof(one))
            fail("a process failed");
        close(ends[0]);
        close(ends[1]);
        for (int f = 0; f < FIGURES; f++)
            samples[f][i] = one[f];
    }
    for (int f = 0; f < FIGURES; f++) {
        double value = median(samples[f], PROCESSES);
        if (value < 0)
            printf("patch %zu %s: %s cannot be used here\n", sites, paged ? "paged" : "dense",
                   methods[f]);
        else
            printf("result: patch %zu %s, %s | %.1f | µs | median of %d processes\n", sites,
                   paged ? "paged" : "dense", names[f], value, PROCESSES);
    }
}

/* A pair of calls over the whole, and a pair on each end. */
static void gaps(void)
{
    for (size_t gap = 16; gap <= 4096; gap *= 2) {
        uint8_t *text = map_text(gap + 1024);
        double one[STEADY], two[STEADY];

        for (size_t i = 0; i < gap + 1024; i++) /* all of it is in use */
            (void)*(volatile uint8_t *)(text + i * PAGE);
        text += 512 * PAGE;
        for (int i = 0; i < STEADY; i++) {
            double start = now();
            mprotect(text, (gap + 2) * PAGE, PROT_READ | PROT_WRITE);
            text[0] = text[(gap + 1) * PAGE] = (uint8_t)i;
            mprotect(text, (gap + 2) * PAGE, PROT_READ | PROT_EXEC);
            one[i] = now() - start;
            start = now();
            mprotect(text, PAGE, PROT_READ | PROT_WRITE);
            mprotect(text + (gap + 1) * PAGE, PAGE, PROT_READ | PROT_WRITE);
            text[0] = text[(gap + 1) * PAGE] = (uint8_t)i;
            mprotect(text, PAGE, PROT_READ | PROT_EXEC);
            mprotect(text + (gap + 1) * PAGE, PAGE, PROT_READ | PROT_EXEC);
            two[i] = now() - start;
        }
        printf("gap of %4zu pages: one pair %7.1f µs, two pairs %7.1f µs\n", gap,
               median(one, STEADY), median(two, STEADY));
        munmap(text - 512 * PAGE, (gap + 1024) * PAGE);
    }
}

int main(int argc, char **argv)
{
    static const size_t sites[] = {100, 1161, 10000};

    if (argc > 1 && !strcmp(argv[1], "gaps")) {
        gaps();
        return 0;
    }
    if (argc > 3) { /* patch SITES dense|paged COMMITS: for perf stat and perf record */
        struct rimf_patcher *p = engine("auto");
        int paged = !strcmp(argv[2], "paged");
        size_t n = (size_t)atol(argv[1]);
        uint8_t *text = map_text(place(n - 1, paged) / PAGE + 1);
        for (long i = 0; i < atol(argv[3]); i++)
            commit(p, text, n, paged, !(i & 1));
        return 0;
    }
    for (size_t i = 0; i < sizeof(sites) / sizeof(*sites); i++) {
        report(sites[i], 0);
        report(sites[i], 1);
    }
    return 0;
}
