/* SPDX-License-Identifier: MIT
 *
 * Where objects go (loader/place.c).  A failure means that a library lands on
 * something else, that the host loader's mmap gives other results than the
 * kernel's, or that its data comes by page faults.
 */
#include "stage0_kernel.h"

#define MIB (1ul << 20)
#define DENYWRITE 0x800

static struct loader loader; /* zero, but for what a test sets */

static long call(uintptr_t address, size_t length, int prot, int flags, int fd)
{
    struct mmap_call c = {address, length, (uintptr_t)prot, (uintptr_t)flags, (uintptr_t)fd, 0};

    return loader_mmap(&loader, &c);
}

static void arena_is_a_ring(void)
{
    struct arena arena = {0x10000000, 0x10010000, 0x10010000, 4096}, none = {0};

    CHECK(place_take(&none, 4096) == 0);
    CHECK(place_take(&arena, 1) == 0x1000f000);
    CHECK(place_take(&arena, 0x8000) == 0x10007000);
    CHECK(place_take(&arena, 0x8000) == 0x10008000); /* from the top again */
    CHECK(place_take(&arena, 0x10000) == 0x10000000);
    CHECK(place_take(&arena, 0x10001) == 0);
    CHECK(place_take(&arena, 0) == 0);
    CHECK(place_take(&arena, -1ul) == 0);
}

static void objects_go_to_the_arena(uintptr_t start)
{
    int fd = open("/proc/self/exe", O_RDONLY);
    int object = MAP_PRIVATE | DENYWRITE;

    loader.arena = (struct arena){start, start + 16 * MIB, start + 16 * MIB, 4096};
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

int main(void)
{
    struct kernel kernel = kernel_make(0);
    void *room;

    loader.sys = &kernel.sys;
    loader.log.fd = -1;
    arena_is_a_ring();
    room = mmap(NULL, 16 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(room, 16 * MIB);
    objects_go_to_the_arena((uintptr_t)room);
    data_is_filled((uintptr_t)room);
    return 0;
}
