/* SPDX-License-Identifier: MIT
 *
 * The heap gives zeroed, aligned, disjoint blocks, to several threads at once, and
 * survives running out of memory, signals and fork.  A failure means that tables of
 * the image or of a pass overwrite each other.
 */
#include "rimf/base/alloc.h"
#include "rimf/base/base.h"

#include "../../check.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static void fill(uint8_t *block, size_t size, uint8_t byte)
{
    CHECK(block != NULL);
    CHECK((uintptr_t)block % 16 == 0);
    for (size_t i = 0; i < size; i++)
        CHECK(block[i] == 0, "(byte %zu of %zu)", i, size);
    memset(block, byte, size);
}

static void is_filled(const uint8_t *block, size_t size, uint8_t byte)
{
    for (size_t i = 0; i < size; i++)
        CHECK(block[i] == byte, "(byte %zu of %zu)", i, size);
}

static void every_size(void)
{
    static const size_t sizes[] = {0, 1, 15, 16, 17, 100, 1000, 4096, 32751, 32752, 32753, 100000};
    uint8_t *blocks[RIMF_COUNT(sizes)][20];
    struct rimf_heap heap;

    rimf_heap_init(&heap, &rimf_sys_kernel);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < RIMF_COUNT(sizes); i++)
            for (size_t k = 0; k < 20; k++) {
                blocks[i][k] = rimf_heap_alloc(&heap, sizes[i]);
                fill(blocks[i][k], sizes[i], (uint8_t)(i * 20 + k + 1));
            }
        for (size_t i = 0; i < RIMF_COUNT(sizes); i++)
            for (size_t k = 0; k < 20; k++) {
                is_filled(blocks[i][k], sizes[i], (uint8_t)(i * 20 + k + 1));
                rimf_heap_release(&heap, blocks[i][k]);
            }
    }
    rimf_heap_release(&heap, NULL);
    CHECK(rimf_heap_alloc(&heap, SIZE_MAX) == NULL);
    CHECK(rimf_heap_alloc(&heap, SIZE_MAX / 2) == NULL);
    rimf_heap_destroy(&heap);
}

/* Memory is used again, and large blocks go back to the kernel. */
static void no_growth(void)
{
    struct rimf_heap heap;
    size_t mapped = 0;

    rimf_heap_init(&heap, &rimf_sys_kernel);
    for (int i = 0; i < 10000; i++) {
        void *small = rimf_heap_alloc(&heap, 3000), *large = rimf_heap_alloc(&heap, 200000);

        CHECK(small && large);
        if (i == 0)
            mapped = heap.mapped;
        CHECK(heap.mapped == mapped, "(%zu bytes after %d rounds)", heap.mapped, i);
        rimf_heap_release(&heap, small);
        rimf_heap_release(&heap, large);
    }
    rimf_heap_destroy(&heap);
}

static void second_release(void)
{
    struct rimf_heap heap;
    void *block, *first, *second;

    rimf_heap_init(&heap, &rimf_sys_kernel);
    block = rimf_heap_alloc(&heap, 100);
    rimf_heap_release(&heap, block);
    rimf_heap_release(&heap, block);
    first = rimf_heap_alloc(&heap, 100);
    second = rimf_heap_alloc(&heap, 100);
    CHECK(first == block && second != block);
    rimf_heap_destroy(&heap);
}

/* ---- no memory ------------------------------------------------------------- */

static long no_mmap(const struct rimf_sys *sys, long nr, long a, long b, long c, long d, long e,
                    long f)
{
    (void)sys;
    return nr == SYS_mmap ? -ENOMEM : rimf_syscall(nr, a, b, c, d, e, f);
}

static void out_of_memory(void)
{
    static const struct rimf_sys sys = {no_mmap};
    struct rimf_heap heap;
    void *small;

    rimf_heap_init(&heap, &sys);
    CHECK(rimf_heap_alloc(&heap, 10) == NULL && rimf_heap_alloc(&heap, 100000) == NULL);
    CHECK(heap.mapped == 0);
    heap.sys = &rimf_sys_kernel;
    small = rimf_heap_alloc(&heap, 10);
    CHECK(small != NULL);
    heap.sys = &sys;
    CHECK(rimf_heap_alloc(&heap, 10) != NULL); /* from the chunk that is there */
    CHECK(rimf_heap_alloc(&heap, 100000) == NULL);
    heap.sys = &rimf_sys_kernel;
    rimf_heap_destroy(&heap);
}

/* ---- threads, signals, fork ---------------------------------------------------- */

static struct rimf_heap shared;

static void *worker(void *argument)
{
    uint8_t *blocks[64] = {NULL}, mark = (uint8_t)(uintptr_t)argument;
    size_t sizes[64];
    unsigned random = mark;

    for (int i = 0; i < 20000; i++) {
        unsigned at = (random = random * 1103515245 + 12345) >> 16 & 63;

        if (blocks[at]) {
            is_filled(blocks[at], sizes[at], mark);
            rimf_heap_release(&shared, blocks[at]);
        }
        sizes[at] = random >> 20 & 511;
        blocks[at] = rimf_heap_alloc(&shared, sizes[at]);
        fill(blocks[at], sizes[at], mark);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t ids[4];

    rimf_heap_init(&shared, &rimf_sys_kernel);
    for (uintptr_t i = 0; i < 4; i++)
        pthread_create(&ids[i], NULL, worker, (void *)(i + 1));
    for (int i = 0; i < 4; i++)
        pthread_join(ids[i], NULL);
    rimf_heap_destroy(&shared);
}

/* As when a signal handler interrupts an allocation: refused, nothing damaged. */
static void interrupted(void)
{
    void *block;

    rimf_heap_init(&shared, &rimf_sys_kernel);
    block = rimf_heap_alloc(&shared, 10);
    CHECK(rimf_lock_acquire(&rimf_sys_kernel, &shared.lock) == 0);
    CHECK(rimf_heap_alloc(&shared, 10) == NULL);
    rimf_heap_release(&shared, block);
    rimf_lock_release(&rimf_sys_kernel, &shared.lock);
    CHECK(rimf_heap_alloc(&shared, 10) != block);
    rimf_heap_destroy(&shared);
}

/* A fork while another thread is inside: the child's heap works. */
static int held[2], forked[2];

static void *holder(void *unused)
{
    char byte;

    (void)unused;
    CHECK(rimf_lock_acquire(&rimf_sys_kernel, &shared.lock) == 0);
    shared.free[0] = (void *)1; /* as it may be in the middle of an operation */
    CHECK(write(held[1], "", 1) == 1);
    CHECK(read(forked[0], &byte, 1) == 1);
    shared.free[0] = NULL;
    rimf_lock_release(&rimf_sys_kernel, &shared.lock);
    return NULL;
}

static void after_fork(void)
{
    pthread_t id;
    char byte;
    int status;
    pid_t child;

    CHECK(pipe(held) == 0 && pipe(forked) == 0);
    rimf_heap_init(&shared, &rimf_sys_kernel);
    CHECK(rimf_heap_alloc(&shared, 10) != NULL);
    pthread_create(&id, NULL, holder, NULL);
    CHECK(read(held[0], &byte, 1) == 1);
    child = fork();
    if (child == 0) {
        alarm(5);
        for (int i = 0; i < 100; i++)
            fill(rimf_heap_alloc(&shared, 10), 10, 1);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0, "(status %x)", status);
    CHECK(write(forked[1], "", 1) == 1);
    pthread_join(id, NULL);
    CHECK(rimf_heap_alloc(&shared, 10) != NULL);
    rimf_heap_destroy(&shared);
}

static int asked; /* calls but for memory */

static long counted(const struct rimf_sys *sys, long nr, long a, long b, long c, long d, long e,
                    long f)
{
    (void)sys;
    asked += nr != SYS_mmap && nr != SYS_munmap;
    return rimf_syscall(nr, a, b, c, d, e, f);
}

/* Who is alone asks the kernel for nothing but memory, and the lock is there again after that. */
static void alone(void)
{
    const struct rimf_sys sys = {counted};
    struct rimf_heap heap;
    void *block;

    rimf_heap_init(&heap, &sys);
    rimf_heap_set_alone(&heap, 1);
    block = rimf_heap_alloc(&heap, 10);
    fill(block, 10, 1);
    rimf_heap_release(&heap, block);
    CHECK(asked == 0, "(%d calls)", asked);
    rimf_heap_set_alone(&heap, 0);
    CHECK(rimf_heap_enter(&heap) == 0 && asked);
    CHECK(rimf_heap_alloc(&heap, 10) == NULL); /* as from a signal handler */
    rimf_heap_leave(&heap);
    fill(rimf_heap_alloc(&heap, 10), 10, 1);
    rimf_heap_destroy(&heap);
}

int main(void)
{
    every_size();
    no_growth();
    second_release();
    out_of_memory();
    threads();
    interrupted();
    after_fork();
    alone();
    return 0;
}
