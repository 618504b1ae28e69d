/* SPDX-License-Identifier: MIT
 *
 * Where objects go (loader/place/place.c).  A failure means that a library lands on
 * something else, that its distance is no secret, or not the same each time from the same number,
 * that the host loader's mmap gives other results than the kernel's, or that data comes by page
 * faults.
 *
 * With a number as argument, so many drawings are made, and what was drawn is printed.
 */
#include "../kernel.h"

#include "rimf/elf/headers.h"

#include <math.h>
#include <sys/random.h>

#define MIB (1ul << 20)
#define DENYWRITE 0x800

static struct loader loader; /* zero, but for what a test sets */
static struct rooms rooms;

static long call(uintptr_t address, size_t length, int prot, int flags, int fd)
{
    struct mmap_call c = {address, length, (uintptr_t)prot, (uintptr_t)flags, (uintptr_t)fd, 0};

    return loader_mmap(&loader, &c);
}

static void arena_is_a_ring(void)
{
    struct arena arena = {.start = 0x10000000, .end = 0x10010000}, none = {0};

    place_loosen(&arena);
    CHECK(place_take(&none, 4096) == 0);
    CHECK(place_take(&arena, 1) == 0x1000f000);
    CHECK(place_take(&arena, 0x8000) == 0x10007000);
    CHECK(place_take(&arena, 0x8000) == 0x10008000); /* from the top again */
    CHECK(place_take(&arena, 0x10000) == 0x10000000);
    CHECK(place_take(&arena, 0x10001) == 0);
    CHECK(place_take(&arena, 0) == 0);
    CHECK(place_take(&arena, -1ul) == 0);
}

/* ---- distances that are drawn ----------------------------------------------------- */

#define LIBRARIES 5
static const size_t lengths[LIBRARIES] = {0x36000, 0x12c000, 0x1e1000, 0x33000, 320 * MIB};

/* Pages between the end of the arena, ARENA below 1 TiB, and each of them. */
static void drawing(uint64_t number, uintptr_t arena_size, long *pages)
{
    struct arena arena = {.start = (1ul << 40) - arena_size, .end = 1ul << 40, .slack = 128 * MIB,
                          .layout_seed = number};
    uintptr_t at[LIBRARIES];

    place_loosen(&arena);
    for (int i = 0; i < LIBRARIES; i++) {
        at[i] = place_take(&arena, lengths[i]);
        CHECK(at[i] >= arena.start && at[i] % 4096 == 0 && lengths[i] <= arena.end - at[i]);
        for (int k = 0; k < i; k++)
            CHECK(at[i] + lengths[i] <= at[k] || at[k] + lengths[k] <= at[i]);
        pages[i] = (long)(arena.end - at[i]) / 4096;
    }
    CHECK(arena.above - arena.next - (320 * MIB + 0x36000 + 0x12c000 + 0x1e1000 + 0x33000) <
          LIBRARIES * 128 * 4096); /* few page tables more */
}

static int by_value(const void *a, const void *b)
{
    return (*(const long *)a > *(const long *)b) - (*(const long *)a < *(const long *)b);
}

/* Collision entropy, in bits: of pairs, how many agree. */
static double entropy(long *values, size_t n)
{
    double agree = 0;

    qsort(values, n, sizeof *values, by_value);
    for (size_t i = 0, same; i < n; i += same) {
        for (same = 1; i + same < n && values[i + same] == values[i];)
            same++;
        agree += (double)same * (double)(same - 1) / 2;
    }
    return agree > 0 ? log2((double)n * (double)(n - 1) / 2 / agree) : INFINITY;
}

/* From the arena's end, near which a PIE lies, to the first; from that to the others. */
static void distances_are_drawn(size_t n, int print)
{
    long *values = malloc(n * LIBRARIES * sizeof *values), pages[LIBRARIES], again[LIBRARIES];

    CHECK(values != NULL);
    for (size_t i = 0; i < n; i++) {
        uint64_t number;

        CHECK(getrandom(&number, sizeof number, 0) == sizeof number);
        drawing(number, 1024 * MIB, pages);
        drawing(number, 700 * MIB, again);
        CHECK(!memcmp(pages, again, sizeof pages), "%016lx", (unsigned long)number);
        for (int k = 0; k < LIBRARIES; k++)
            values[(size_t)k * n + i] = k ? pages[k] - pages[0] : pages[k];
    }
    for (int k = 0; k < LIBRARIES; k++) {
        double bits = entropy(values + (size_t)k * n, n);

        if (print)
            printf("%s %d: %.1f bits\n", k ? "from the first to object" : "from the end to object", k, bits);
        /* 128 gaps on two sides are 8 bits, but 320 MiB never fit above; the end: 15 */
        CHECK(bits > (k == 0 ? 13 : k == LIBRARIES - 1 ? 6.7 : 7.7), "object %d: %.1f bits", k, bits);
    }
    free(values);
}

static void nothing_is_drawn(void)
{
    struct arena arena = {.start = 64 * MIB, .end = 128 * MIB, .slack = 32 * MIB};

    place_loosen(&arena);
    CHECK(place_take(&arena, 0x5000) == 128 * MIB - 0x5000);
    CHECK(place_take(&arena, 0x3000) == 128 * MIB - 0x8000);
}

/* Where something is expected nothing is put, above or below. */
static void what_is_kept_is_free(void)
{
    for (uint64_t number = 1; number < 1000; number++) {
        struct arena arena = {.start = 64 * MIB, .end = 128 * MIB, .slack = 32 * MIB,
                              .layout_seed = number};
        uintptr_t at;

        place_loosen(&arena);
        place_keep(&arena, 80 * MIB, MIB);
        place_keep(&arena, 100 * MIB, MIB);
        at = place_take(&arena, MIB);
        CHECK(at + MIB <= 80 * MIB || at >= 101 * MIB, "%lx", (unsigned long)at);
    }
}

/* Round the ring for ever: a place each time. */
static void drawn_places_do_not_end(void)
{
    struct arena arena = {.start = 64 * MIB, .end = 128 * MIB, .slack = 8 * MIB, .layout_seed = 7};

    place_loosen(&arena);
    for (int i = 0; i < 10000; i++) {
        size_t length = (size_t)(i % 700 + 1) * 4096;
        uintptr_t at = place_take(&arena, length);

        CHECK(at >= arena.start && at + length <= arena.end, "%d: %lx", i, (unsigned long)at);
    }
    CHECK(place_take(&arena, 64 * MIB) == 64 * MIB);
}

/* Who draws addresses, the kernel tells by where the stack is. */
static void randomness_is_recognized(void)
{
    static char name[] = "/bin/true";
    Elf64_auxv_t execfn = {AT_EXECFN, {(uintptr_t)name}};
    struct block block = {.execfn = &execfn};
    struct loader l = {.block = &block};

    CHECK(place_is_random(&l));
    block.execfn = NULL;
    CHECK(place_is_random(&l));
}

/* ---- objects in memory ------------------------------------------------------------- */

static void objects_go_to_the_arena(uintptr_t start)
{
    int fd = open("/proc/self/exe", O_RDONLY);
    int object = MAP_PRIVATE | DENYWRITE;

    *loader.arena = (struct arena){.start = start, .end = start + 16 * MIB, .grain = 4096};
    place_loosen(loader.arena);
    CHECK(call(0, 2 * MIB, PROT_READ, object, fd) == (long)(start + 14 * MIB));
    CHECK(call(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1) ==
          (long)(start + 14 * MIB - 4096));
    CHECK(call(0, MIB, PROT_NONE, object | MAP_ANONYMOUS, -1) ==
          (long)(start + 13 * MIB - 4096));
    /* not objects */
    CHECK((uintptr_t)call(0, 4096, PROT_READ, MAP_PRIVATE, fd) - start >= 16 * MIB);
    CHECK((uintptr_t)call(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1) -
              start >= 16 * MIB);
    CHECK(call(start, 4096, PROT_READ, object | MAP_FIXED, fd) == (long)start);
    CHECK(call(0, 4096, PROT_READ, object, 9999) == -EBADF);
    CHECK(call(0, 0, PROT_READ, object, fd) == -EINVAL);
    /* the bottom is taken: what comes round the ring never lands on anything */
    for (int i = 0; i < 40; i++) {
        long at = call(0, MIB, PROT_READ, object, fd);

        CHECK(at > 0 && at % 4096 == 0);
        CHECK(at < (long)(start + 14 * MIB) || at >= (long)(start + 16 * MIB), "%lx", at);
    }
    close(fd);
}

/* How many of its pages are there, and the process's own. */
static size_t own_pages(uintptr_t at, size_t length)
{
    int fd = open("/proc/self/pagemap", O_RDONLY);
    uint64_t entry;
    size_t n = 0;

    for (uintptr_t end = at + length; at < end; at += 4096) {
        CHECK(pread(fd, &entry, sizeof entry, (off_t)(at / 4096 * sizeof entry)) == sizeof entry);
        n += entry >> 63 && !(entry >> 61 & 1);
    }
    close(fd);
    return n;
}

/* An object's data that is not large is filled with the file's, and nothing else is. */
static void data_is_filled(uintptr_t start)
{
    int fd = open("/proc/self/exe", O_RDONLY), data = MAP_PRIVATE | MAP_FIXED | DENYWRITE;
    char head[4];

    CHECK(pread(fd, head, sizeof head, 0) == sizeof head);
    CHECK(call(start, 2 * 4096, PROT_READ | PROT_WRITE, data, fd) == (long)start);
    CHECK(own_pages(start, 2 * 4096) == 2);
    CHECK(!memcmp((void *)start, head, sizeof head));
    CHECK(call(start, 2 * 4096, PROT_READ, data, fd) == (long)start);
    CHECK(own_pages(start, 2 * 4096) == 0);
    CHECK(call(start, POPULATE_MAX + 4096, PROT_READ | PROT_WRITE, data, fd) == (long)start);
    CHECK(own_pages(start, POPULATE_MAX + 4096) == 0);
    CHECK(call(start, 2 * 4096, PROT_READ | PROT_WRITE, data & ~DENYWRITE, fd) == (long)start);
    CHECK(own_pages(start, 2 * 4096) == 0);
    close(fd);
}

/* ---- beside an executable at fixed addresses ------------------------------------------ */

#define STARTS 100000

/* The kernel's own drawing: a heap up to 1 GiB behind the executable. */
static long draw_heap(const struct rimf_sys *sys, long nr, long a, long b, long c, long d, long e,
                      long f)
{
    uint32_t pages;

    if (nr != SYS_brk)
        return kernel_call(sys, nr, a, b, c, d, e, f);
    CHECK(getrandom(&pages, sizeof pages, 0) == sizeof pages);
    return (long)(0x500000 + pages % (1024 * MIB / 4096) * 4096ul);
}

/* SECURITY.md promises `bits`. */
static void low_places_are_drawn(int spacious, double bits, int print)
{
    static long values[STARTS];
    static const Elf64_Phdr text = {.p_type = PT_LOAD, .p_vaddr = 0x400000, .p_memsz = 0x100000};
    Elf64_auxv_t phdr = {AT_PHDR, {(uintptr_t)&text}}, phnum = {AT_PHNUM, {1}};
    struct kernel kernel = {.sys = {draw_heap}};
    struct block block = {.phdr = &phdr, .phnum = &phnum};
    struct arena arena = {0};
    struct loader low = {.sys = &kernel.sys, .block = &block, .arena = &arena};
    double found;

    for (size_t i = 0; i < STARTS; i++) {
        place_near_low(&low, spacious);
        CHECK(arena.end - arena.start >= (spacious ? 740 : 490) * MIB &&
              arena.end < 2048 * MIB);
        values[i] = (long)arena.end / 4096;
    }
    found = entropy(values, STARTS);
    if (print)
        printf("beside a non-PIE%s: %.2f bits\n", spacious ? ", spacious" : "", found);
    CHECK(fabs(found - bits) < 0.1, "(%.2f)", found);
}

int main(int argc, char **argv)
{
    struct kernel kernel = kernel_make(0);
    void *room;

    if (argc > 1) {
        distances_are_drawn(strtoul(argv[1], NULL, 0), 1);
        low_places_are_drawn(0, 18, 1);
        low_places_are_drawn(1, 16.67, 1);
        return 0;
    }
    rooms_set(&loader, &rooms);
    loader.sys = &kernel.sys;
    loader.log.fd = -1;
    arena_is_a_ring();
    distances_are_drawn(20000, 0);
    low_places_are_drawn(0, 18, 0);
    low_places_are_drawn(1, 16.67, 0);
    nothing_is_drawn();
    what_is_kept_is_free();
    drawn_places_do_not_end();
    randomness_is_recognized();
    room = mmap(NULL, 16 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(room, 16 * MIB);
    objects_go_to_the_arena((uintptr_t)room);
    data_is_filled((uintptr_t)room);
    return 0;
}
