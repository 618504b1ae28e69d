/* SPDX-License-Identifier: MIT
 *
 * pool LIBCONCAT LIBRARY: moved code in pages of a pool, over a kernel that plays one with ordinary
 * memory, but for what it refuses: a page too many; 4 KiB of a page with other rights, unmapped
 * or moved away; a write to it once it can be executed.  Each system call fails in turn.
 *
 * A failure means that a batch is not made because pages are short, that something of a page is
 * used for small ones, or that code in it cannot be changed.
 */
#include "region.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/mman.h>
#include <sys/wait.h>

#define HUGE (2ul << 20)
#define POPULATE_WRITE 23

static long calls, fails_at, error_then;
static size_t pool_left;
static int populates = 1, moves = 1;
static struct { uintptr_t at; size_t n; } pooled[64];

static int in_pool(uintptr_t at, size_t size)
{
    for (size_t i = 0; i < 64; i++)
        if (pooled[i].n && at < pooled[i].at + pooled[i].n * HUGE && at + size > pooled[i].at)
            return (int)i + 1;
    return 0;
}

/* Ordinary memory on 2 MiB. */
static long take(size_t size)
{
    size_t free = 0;
    uintptr_t at;
    long r;

    CHECK(size % HUGE == 0);
    if (size / HUGE > pool_left)
        return -ENOMEM;
    r = rimf_syscall(SYS_mmap, 0, (long)(size + HUGE), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(!sys_failed(r));
    at = ((uintptr_t)r + HUGE - 1) & -HUGE;
    while (pooled[free].n)
        CHECK(++free < 64);
    pooled[free].at = at;
    pooled[free].n = size / HUGE;
    pool_left -= size / HUGE;
    return (long)at;
}

/* [at, at + size) is no part of the pool any more: of its pages, whole ones alone can go. */
static void give_back(uintptr_t at, size_t size)
{
    for (int i; (i = in_pool(at, size));) {
        uintptr_t start = pooled[i - 1].at, end = start + pooled[i - 1].n * HUGE;
        size_t rest = 0;

        CHECK((at <= start || at % HUGE == 0) && (at + size >= end || (at + size) % HUGE == 0));
        pool_left += pooled[i - 1].n;
        pooled[i - 1].n = 0;
        if (at > start) {
            pooled[i - 1].at = start;
            pooled[i - 1].n = (at - start) / HUGE;
            pool_left -= pooled[i - 1].n;
        }
        if (at + size < end) {
            while (pooled[rest].n)
                CHECK(++rest < 64);
            pooled[rest].at = at + size;
            pooled[rest].n = (end - at - size) / HUGE;
            pool_left -= pooled[rest].n;
        }
    }
}

static long kernel(const struct rimf_sys *sys, long nr, long a, long b, long c, long d, long e,
                   long f)
{
    int i;

    (void)sys;
    if (++calls == fails_at)
        return -error_then;
    switch (nr) {
    case SYS_mmap:
        if (d & MAP_HUGETLB)
            return take((size_t)b);
        if (d & MAP_FIXED)
            give_back((uintptr_t)a, (size_t)b);
        break;
    case SYS_munmap:
        give_back((uintptr_t)a, (size_t)b);
        break;
    case SYS_mprotect:
        i = in_pool((uintptr_t)a, (size_t)b);
        CHECK(!i || ((uintptr_t)a <= pooled[i - 1].at &&
                     (uintptr_t)(a + b) >= pooled[i - 1].at + pooled[i - 1].n * HUGE));
        break;
    case SYS_madvise:
        if (c == POPULATE_WRITE)
            return populates ? 0 : -EFAULT;
        CHECK(!in_pool((uintptr_t)a, (size_t)b));
        break;
    case SYS_mremap:
        i = in_pool((uintptr_t)a, (size_t)b);
        give_back((uintptr_t)e, (size_t)c);
        if (i && !moves) { /* as before Linux 5.16: what was there is gone */
            CHECK(!rimf_syscall(SYS_munmap, e, c, 0, 0, 0, 0));
            return -EINVAL;
        }
        if (i)
            pooled[i - 1].at = (uintptr_t)e;
        break;
    }
    return rimf_syscall(nr, a, b, c, d, e, f);
}

static const struct rimf_sys kernel_with_pool = {kernel};

static int caller_hooks(void *cookie, const char **why)
{
    (void)cookie, (void)why;
    return 0;
}

static struct mvld_image *image;
static const struct mvld_object *object;
static int (*first)(int);
static char folder[] = "/tmp/pool-XXXXXX";

static void load(const char *room, const char *library)
{
    void *handle;

    CHECK(dlopen(room, RTLD_NOW) && (handle = dlopen(library, RTLD_NOW)), "(%s)", dlerror());
    first = (int (*)(int))dlsym(handle, "pool_first");
    CHECK(first && mkdtemp(folder));
    region_analyse(library, folder);
    image = region_image(&kernel_with_pool, folder, caller_hooks, MVLD_PAGES_HUGETLB);
    object = process_object(image, strrchr(library, '/') + 1);
}

static int commit(long fails)
{
    struct rimf_moved_report report;
    const char *why = "";
    int error;

    CHECK(region_move(object, NULL, 0, &why) == 0, "(%s)", why);
    calls = 0;
    fails_at = fails;
    error = rimf_moved_commit(image, &report);
    fails_at = 0;
    return error;
}

/* Of the region, how many pages are of the pool. */
static size_t count(void)
{
    size_t n = 0;
    uintptr_t start = image->moved->region.code;

    for (size_t i = 0; i < 64; i++)
        n += pooled[i].at >= start && pooled[i].at < start + image->moved->region.code_size
                 ? pooled[i].n
                 : 0;
    return n;
}

/* x + 0x01010101 from now on, in the original and in moved code. */
static void change(void)
{
    static const uint8_t body[] = {0x8d, 0x87, 1, 1, 1, 1, 0xc3}; /* lea 0x1010101(%rdi),%eax; ret */
    uintptr_t moved = rimf_moved_to(image, (uintptr_t)first);
    struct mvld_batch *batch = rimf_api()->patch_begin(image);
    struct mvld_patch_report report;

    CHECK(moved && batch);
    CHECK(rimf_api()->patch_add(batch, moved, (const void *)moved, body, sizeof body) == 0);
    CHECK(rimf_api()->patch_commit(batch, &report) == 0 && report.applied == 1, "(%s)",
          rimf_api()->last_error(image));
    rimf_api()->patch_end(batch);
    CHECK(!in_pool(moved, sizeof body) && first(1) == 0x01010102);
}

/* Whole 2 MiB of the code that moved. */
static size_t filled(void)
{
    uintptr_t start = (image->moved->region.code + HUGE - 1) & -HUGE;

    return (image->moved->code_end - start) / HUGE;
}

/* With so many pages in the pool, the code has what there is; and it can be changed. */
static void check_made(long pages, long usable)
{
    size_t was, expected;

    pool_left = (size_t)pages;
    CHECK(commit(0) == 0, "(%s)", rimf_api()->last_error(image));
    CHECK(filled() >= 2, "(%zu, %p to %p)", filled(), (void *)image->moved->region.code,
          (void *)image->moved->code_end);
    was = count();
    expected = (size_t)usable < filled() ? (size_t)usable : filled();
    CHECK(was == expected, "(%zu of the pool, not %zu)", was, expected);
    CHECK(pool_left + was == (size_t)pages && first(7) == (21 ^ 0x1234567));
    change();
    CHECK(count() == was - (was > 0));
}

static void check_failure(long at, long error)
{
    int failed;
    long n_calls;

    pool_left = 64;
    error_then = error;
    failed = commit(at);
    n_calls = calls;
    CHECK(first(7) == (21 ^ 0x1234567));
    if (failed && !rimf_moved_to(image, (uintptr_t)first)) {
        CHECK(pool_left == 64 && !count());
        CHECK(commit(0) == 0 && first(7) == (21 ^ 0x1234567));
    }
    CHECK(pool_left + count() == 64, "(call %ld, error %ld)", at, error);
    exit(n_calls < at ? 1 : 0);
}

static int child(void (*run)(long, long), long a, long b)
{
    int status;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    CHECK(pid >= 0);
    if (!pid) {
        run(a, b);
        exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status), "(%ld, %ld: 0x%x)", a, b, status);
    return WEXITSTATUS(status);
}

static void unpopulated(long pages, long usable)
{
    populates = 0;
    check_made(pages, usable);
}

static void unmoved(long pages, long usable)
{
    moves = 0;
    check_made(pages, usable);
}

int main(int argc, char **argv)
{
    static const long errors[] = {ENOMEM, EINVAL};
    long most = 0;
    char command[64];

    CHECK(argc == 3);
    load(argv[1], argv[2]);
    for (long pages = 0; pages < 64; pages = 4 * pages + 1) /* 0, 1, 5, 21 */
        CHECK(child(check_made, pages, pages) == 0);
    CHECK(child(unpopulated, 64, 0) == 0);
    CHECK(child(unmoved, 64, 0) == 0);
    for (size_t e = 0; e < 2; e++)
        for (long at = 1; child(check_failure, at, errors[e]) == 0; at++)
            most = at;
    CHECK(most > 12);
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}
