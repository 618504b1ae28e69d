/* SPDX-License-Identifier: MIT
 *
 * tests/rimf/patch/support.h: a text segment to patch, and a kernel that fails
 * on demand.
 *
 * The text is a file mapped private and R-X, as a loader would map it: `ret`
 * everywhere until a test writes something else.  The engine is the one under
 * test and nothing else of rimf.
 *
 * No page is writable and executable at any moment: the kernel here looks at the rights
 * of each call that gives some, in every test that uses it.
 */
#ifndef TESTS_RIMF_PATCH_SUPPORT_H
#define TESTS_RIMF_PATCH_SUPPORT_H

#include <pthread.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../check.h"
#include "rimf/base/lock.h"
#include "rimf/patch/patch.h"

#define PAGE 4096UL

/* ---- a kernel that counts, and fails ---- */

struct patch_kernel {
    struct rimf_sys sys;
    long calls;       /* made so far */
    long fail_at;     /* this one fails, 0: none */
    long fail_from;   /* from this one on all that match fail, 0: none */
    long fail_number; /* only this system call, -1: any */
    long fail_prot;   /* only with these bits in the third argument, 0: any */
    int error;
    void (*before)(struct patch_kernel *, long nr); /* or NULL */
    long last;        /* number of the call that failed last */
    long executable;  /* calls that made pages executable */
};

/* Rights that a call asks for, and whether others would see what is written there: then it could
 * be mapped a second time, to be executed. */
static inline void patch_kernel_rights(struct patch_kernel *k, long nr, long prot, long flags)
{
    if (nr != SYS_mmap && nr != SYS_mprotect && nr != SYS_pkey_mprotect)
        return;
    CHECK((prot & (PROT_WRITE | PROT_EXEC)) != (PROT_WRITE | PROT_EXEC), "(call %ld, rights %lx)", nr,
          prot);
    CHECK(nr != SYS_mmap || !(prot & PROT_WRITE) || !(flags & MAP_SHARED), "(flags %lx)", flags);
    if (prot & PROT_EXEC)
        __atomic_add_fetch(&k->executable, 1, __ATOMIC_RELAXED);
}

static inline long patch_kernel_call(const struct rimf_sys *sys, long nr, long a, long b, long c,
                                     long d, long e, long f)
{
    struct patch_kernel *k = (struct patch_kernel *)sys;
    int match = (k->fail_number < 0 || k->fail_number == nr) &&
                (c & k->fail_prot) == k->fail_prot;

    patch_kernel_rights(k, nr, c, d);
    if (k->before)
        k->before(k, nr);
    k->calls++;
    if (match && ((k->fail_at && k->calls == k->fail_at) ||
                  (k->fail_from && k->calls >= k->fail_from))) {
        k->last = nr;
        return k->error;
    }
    return rimf_syscall(nr, a, b, c, d, e, f);
}

/* ---- a text segment ---- */

struct patch_text {
    struct patch_kernel kernel;
    struct rimf_lock lock;
    uint8_t *code;
    size_t size;
    struct mvld_segment segment;
    struct rimf_patcher *patcher;
    char sentence[256]; /* the last error */
    char path[64];
    long blocks; /* allocated and not released */
    int no_memory;
};

static inline void *patch_text_alloc(void *cookie, size_t size)
{
    struct patch_text *t = cookie;
    void *block = t->no_memory ? NULL : calloc(1, size);

    t->blocks += block != NULL;
    return block;
}

static inline void patch_text_release(void *cookie, void *block)
{
    struct patch_text *t = cookie;

    t->blocks -= block != NULL;
    free(block);
}

static inline int patch_text_segment(void *cookie, uintptr_t address, struct mvld_segment *out)
{
    struct patch_text *t = cookie;

    if (address < t->segment.start || address >= t->segment.end)
        return -ENOENT;
    *out = t->segment;
    return 0;
}

static inline void patch_text_say(void *cookie, int err, const char *format, va_list arguments)
{
    struct patch_text *t = cookie;
    char line[256];

    vsnprintf(line, sizeof(line), format, arguments);
    if (err)
        strcpy(t->sentence, line);
    if (getenv("PATCH_TEST_VERBOSE"))
        fprintf(stderr, "%s\n", line);
}

static inline void patch_text_engine(struct patch_text *t)
{
    struct rimf_patch_host host = {
        .sys = &t->kernel.sys,
        .lock = &t->lock,
        .cookie = t,
        .alloc = patch_text_alloc,
        .release = patch_text_release,
        .segment = patch_text_segment,
        .say = patch_text_say,
    };

    t->kernel.sys.call = patch_kernel_call;
    t->kernel.fail_number = -1;
    t->kernel.error = -ENOMEM;
    t->patcher = rimf_patcher_create(&host);
    CHECK(t->patcher);
}

/* `pages` pages of text between two that are nobody's. */
static inline void patch_text_open(struct patch_text *t, size_t pages)
{
    uint8_t ret[PAGE];
    int fd;

    memset(t, 0, sizeof(*t));
    memset(ret, 0xc3, sizeof(ret));
    strcpy(t->path, "/tmp/mvld-patch-XXXXXX");
    fd = mkstemp(t->path);
    CHECK(fd >= 0);
    for (size_t i = 0; i < pages; i++)
        CHECK(write(fd, ret, PAGE) == (ssize_t)PAGE);
    t->size = pages * PAGE;
    t->code = mmap(NULL, t->size + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(t->code != MAP_FAILED);
    t->code += PAGE;
    CHECK(mmap(t->code, t->size, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0) ==
          t->code);
    close(fd);
    t->segment = (struct mvld_segment){(uintptr_t)t->code, (uintptr_t)t->code + t->size,
                                       PROT_READ | PROT_EXEC};
    patch_text_engine(t);
}

static inline void patch_text_close(struct patch_text *t)
{
    unlink(t->path);
    t->kernel.fail_at = t->kernel.fail_from = 0;
    rimf_patcher_destroy(t->patcher);
    CHECK(t->blocks == 0, "(%ld blocks leaked)", t->blocks);
    munmap(t->code - PAGE, t->size + 2 * PAGE);
}

/* The protections that /proc/self/maps shows for [start, start + size), a
 * character a page: 'x' r-xp, 'w' anything writable and executable, '-' nothing
 * mapped, '?' anything else. */
static inline void patch_text_maps(const uint8_t *start, size_t size, char *out)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4400], prot[5];
    unsigned long from, to;

    CHECK(maps);
    memset(out, '-', size / PAGE);
    out[size / PAGE] = 0;
    while (fgets(line, sizeof(line), maps)) {
        CHECK(sscanf(line, "%lx-%lx %4s", &from, &to, prot) == 3);
        for (uintptr_t at = (uintptr_t)start; at < (uintptr_t)start + size; at += PAGE) {
            if (at >= from && at < to)
                out[(at - (uintptr_t)start) / PAGE] = !strcmp(prot, "r-xp")          ? 'x'
                                                      : prot[1] == 'w' && prot[2] == 'x' ? 'w'
                                                                                       : '?';
        }
    }
    fclose(maps);
}

static inline void patch_text_all_rx(const struct patch_text *t)
{
    char prot[t->size / PAGE + 1];

    patch_text_maps(t->code, t->size, prot);
    CHECK(strspn(prot, "x") == t->size / PAGE, "(pages are %s)", prot);
}

/* A thread that only waits, so that the process has two.  libc starts threads with
 * all signals blocked, and no breakpoint is set under such a thread: it says when
 * that is over. */
static inline void *patch_parked(void *parked)
{
    __atomic_store_n((int *)parked, 1, __ATOMIC_SEQ_CST);
    for (;;)
        pause();
    return NULL;
}

static inline void patch_park_thread(void)
{
    static int parked;
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, patch_parked, &parked) == 0);
    while (!__atomic_load_n(&parked, __ATOMIC_SEQ_CST))
        usleep(1000);
}

#endif
