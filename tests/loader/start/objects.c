/* SPDX-License-Identifier: MIT
 *
 * What is remembered of the link map (loader/start/objects.c) where memory is short.  A failure means
 * that an object counts as new a second time, after its constructors were seen to, or never.
 */
#include "../kernel.h"

#define AT_START 4u
#define NEW 5u /* more than fit into what is allocated at the start */
#define LATER 1u
#define ALL (AT_START + NEW + LATER)

static struct loader loader;
static struct r_debug debug;
static struct link_map all[ALL];
static char names[ALL][8];

static long without_memory(const struct rimf_sys *sys, long nr, long a, long b, long c, long d,
                           long e, long f)
{
    (void)sys;
    return nr == SYS_mmap ? -ENOMEM : rimf_syscall(nr, a, b, c, d, e, f);
}

static const struct rimf_sys short_of_memory = {without_memory};

/* The first `n` are in the list. */
static void list(size_t n)
{
    for (size_t i = 0; i < ALL; i++) {
        snprintf(names[i], sizeof names[i], "<%zu>", i);
        all[i] = (struct link_map){.l_name = names[i], .l_next = i + 1 < n ? &all[i + 1] : NULL};
    }
    debug.r_map = all;
    loader.debug = &debug;
}

static size_t said(int fd, const char *word, const char *name)
{
    static char text[1 << 16];
    ssize_t size = pread(fd, text, sizeof text - 1, 0);
    char line[64];
    size_t n = 0;

    CHECK(size >= 0);
    text[size] = '\0';
    snprintf(line, sizeof line, "\t%s: %s at ", word, name);
    for (const char *at = text; (at = strstr(at, line)); at++)
        n++;
    return n;
}

/* 1: there was no memory at the first event. */
static int with_memory(size_t size, int fd)
{
    static _Alignas(16) char memory[2048];
    static struct rooms rooms;
    int missed;

    rooms = (struct rooms){0};
    loader = (struct loader){.sys = &short_of_memory};
    rooms_set(&loader, &rooms);
    loader.log = (struct rimf_log){.sys = &rimf_sys_kernel, .fd = fd, .categories = MVLD_LOG_FILES};
    memset(memory, 0, sizeof memory);
    rimf_heap_init(&loader.heap, &short_of_memory);
    rimf_heap_seed(&loader.heap, memory, size);
    list(AT_START);
    objects_start(&loader);
    if (!loader.maps->n) /* not even that much: nothing is done for any object */
        return -1;
    list(AT_START + NEW);
    objects_changed(&loader);
    missed = loader.maps->n == AT_START;
    loader.heap.sys = &rimf_sys_kernel;
    list(ALL);
    objects_changed(&loader);
    objects_changed(&loader);
    CHECK(loader.maps->n == ALL, "%zu bytes: %zu are known", size, loader.maps->n);
    for (size_t i = 0; i < ALL; i++)
        CHECK(said(fd, i < AT_START ? "object" : "new object", names[i]) == 1,
              "%zu bytes: %s is new %zu times", size, names[i], said(fd, "new object", names[i]));
    return missed;
}

int main(void)
{
    size_t missed = 0, seen = 0;

    for (size_t size = 0; size <= 2048; size += 16) {
        char path[] = "/tmp/mvld-objects-XXXXXX";
        int fd = mkstemp(path), result;

        CHECK(fd >= 0 && !unlink(path));
        result = with_memory(size, fd);
        missed += result == 1;
        seen += result == 0;
        close(fd);
    }
    CHECK(missed >= 2 && seen >= 2, "%zu times there was no memory, %zu times there was", missed, seen);
    return 0;
}
