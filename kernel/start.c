/* SPDX-License-Identifier: MIT
 *
 * start.c: what the engine does when a kernel starts, in user space, on that kernel's own code and descriptors.
 *
 *     start IMAGE TEXT OBJECT EXCEPTIONS EXCEPTIONS_END STATIC_CALLS STATIC_CALLS_END
 *
 * IMAGE is a file with the memory of vmlinux, in which nothing is bound.  The rest are addresses in the kernel: TEXT
 * where IMAGE begins, OBJECT of its `struct mvk_object`, the others of two tables.  Prints how many functions are bound, and
 * the nanoseconds of the processor.  At first no cache holds anything of the image.  What is not done: pages are not mapped
 * a second time, nobody looks for probes, no processor is stopped.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "kernel/core/core.h"
#include "tests/check.h"

#define AT 0x10000000ul   /* the engine's records hold distances of 32 bits */
#define HEAP (64ul << 20)

static char *heap, *heap_end;
static intptr_t moved; /* from the kernel's address to ours */
static const int32_t *exceptions, *exceptions_end, *static_calls, *static_calls_end;

static int64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000l + t.tv_nsec;
}

void *mvk_alloc(size_t size)
{
    char *memory = heap;

    heap += (size + 63) & ~63ul;
    return heap <= heap_end ? memset(memory, 0, size) : NULL;
}

void mvk_release(void *memory)
{
    (void)memory;
}

void mvk_log(const char *line)
{
    fprintf(stderr, "%s\n", line);
}

/* As search_exception_tables() and static_call_text_reserved(). */
static int has_exception(uintptr_t at)
{
    const int32_t *low = exceptions, *high = exceptions_end;

    while (low < high) {
        const int32_t *middle = low + (high - low) / 6 * 3;
        uintptr_t instruction = (uintptr_t)middle + (uintptr_t)(intptr_t)*middle;

        if (instruction == at)
            return 1;
        if (instruction < at)
            low = middle + 3;
        else
            high = middle;
    }
    return 0;
}

int mvk_tied_to_address(uintptr_t code, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (has_exception(code + i))
            return 1;
    for (const int32_t *call = static_calls; call < static_calls_end; call += 2) {
        uintptr_t at = (uintptr_t)call + (uintptr_t)(intptr_t)*call;

        if (at < code + size && at + 5 > code)
            return 1;
    }
    return 0;
}

uintptr_t mvk_return_thunk(void)
{
    return 0;
}

void mvk_check_text(struct mvk_change *changes, size_t n)
{
    mvk_verify(changes, n);
}

int mvk_change_text(struct mvk_change *changes, size_t n)
{
    mvk_verify(changes, n);
    for (size_t i = 0; i < n; i++) {
        volatile uint64_t *word = (volatile uint64_t *)mvk_word_of(&changes[i]);

        if (!changes[i].result)
            *word = mvk_merge(&changes[i], *word);
    }
    return 0;
}

static uintptr_t here(const char *address)
{
    return strtoul(address, NULL, 16) + (uintptr_t)moved;
}

/* Pointers in variables: pv_ops. */
static void relocate(const struct mvk_object *object, uintptr_t text, size_t size)
{
    for (size_t i = 0; i < object->object.n_segments; i++) {
        const struct mvld_segment *s = &object->segments[i];

        for (uintptr_t *at = (uintptr_t *)s->start; s->prot & PROT_WRITE && (uintptr_t)at < s->end; at++)
            if (*at - text < size)
                *at += (uintptr_t)moved;
    }
}

static void move(uintptr_t *address)
{
    *address += (uintptr_t)moved;
}

int main(int argc, char **argv)
{
    int file = argc == 8 ? open(argv[1], O_RDONLY) : -1;
    static struct mvk_object object;
    struct stat s;
    char *image;
    int64_t began;
    int result;

    CHECK(file >= 0 && fstat(file, &s) == 0);
    image = mmap((void *)AT, (size_t)s.st_size + HEAP, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    CHECK(image == (char *)AT && read(file, image, (size_t)s.st_size) == s.st_size);
    heap = image + ((s.st_size + 4095) & ~4095l);
    heap_end = image + s.st_size + HEAP;
    memset(heap, 1, (size_t)(heap_end - heap)); /* its pages are there */
    moved = (intptr_t)(AT - strtoul(argv[2], NULL, 16));
    object = *(struct mvk_object *)here(argv[3]);
    object.object.segments = object.segments;
    object.object.name = "vmlinux";
    object.object.bias = (uintptr_t)moved;
    object.next = NULL;
    for (size_t i = 0; i < object.object.n_segments; i++) {
        move(&object.segments[i].start);
        move(&object.segments[i].end);
    }
    for (size_t i = 0; i < sizeof object.tables / sizeof(uintptr_t); i++)
        move((uintptr_t *)&object.tables + i);
    relocate(&object, strtoul(argv[2], NULL, 16), (size_t)s.st_size);
    exceptions = (const int32_t *)here(argv[4]);
    exceptions_end = (const int32_t *)here(argv[5]);
    static_calls = (const int32_t *)here(argv[6]);
    static_calls_end = (const int32_t *)here(argv[7]);
    for (char *line = image; line < heap_end; line += 64)
        __asm__ volatile("clflush %0" : "+m"(*line));
    __asm__ volatile("mfence" ::: "memory");
    began = now();
    CHECK(mvk_start() == 0 && mvk_add(&object) == 1, "%s", mvk_error());
    result = mvk_apply(MV_COMMIT, MV_ALL, NULL);
    began = now() - began;
    CHECK(result > 0 && !*mvk_report(), "%d: %s: %s", result, mvk_error(), mvk_report());
    printf("%d %ld\n", result, (long)began);
    return 0;
}
