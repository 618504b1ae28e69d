/* SPDX-License-Identifier: MIT
 *
 * Which file an object came from (loader/place/files.c).  A failure means that what is
 * known of one file is believed of another.
 */
#include "../kernel.h"

#include <sys/stat.h>

#define MIB (1ul << 20)
#define DENYWRITE 0x800

static struct loader loader; /* zero, but for what a test sets */
static struct rooms rooms;
static char path[] = "/tmp/mvld-files-XXXXXX";

static uintptr_t map(uintptr_t address, size_t length, int flags, int fd)
{
    struct mmap_call c = {address, length, PROT_READ, (uintptr_t)(MAP_PRIVATE | flags),
                          (uintptr_t)fd, 0};
    long at = loader_mmap(&loader, &c);

    CHECK(at > 0 && at % 4096 == 0, "%ld", at);
    return (uintptr_t)at;
}

static int file_of_size(off_t size)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

    CHECK(fd >= 0 && !ftruncate(fd, size));
    return fd;
}

static void is_the_file_of(uintptr_t at, int fd)
{
    const struct file_id *found = files_identity(&loader, at);
    struct stat st;

    CHECK(found && !fstat(fd, &st));
    CHECK(found->device == st.st_dev && found->inode == st.st_ino);
    CHECK(found->size == (uint64_t)st.st_size);
    CHECK(found->modified == st.st_mtim.tv_sec * 1000000000l + st.st_mtim.tv_nsec);
    if (st.st_nlink) /* to unlink it was a change, too */
        CHECK(found->changed == st.st_ctim.tv_sec * 1000000000l + st.st_ctim.tv_nsec);
}

static void replaced_files_do_not_count(void)
{
    int old = file_of_size(8192), new;
    uintptr_t at = map(0, 8192, DENYWRITE, old);

    CHECK(!unlink(path));
    new = file_of_size(12288);
    is_the_file_of(at, old);
    is_the_file_of(at + 8191, old);
    CHECK(!files_identity(&loader, at - 1) && !files_identity(&loader, at + 8192));
    /* the newest mapping of an address */
    CHECK(!munmap((void *)at, 8192));
    *loader.arena = (struct arena){.start = at, .end = at + 8192, .grain = 4096};
    place_loosen(loader.arena);
    CHECK(map(0, 8192, DENYWRITE, new) == at);
    is_the_file_of(at, new);
    *loader.arena = (struct arena){0};
    close(old);
    close(new);
}

static void segments_that_follow_a_reservation(void)
{
    int fd = file_of_size(8192);
    uintptr_t at = map(0, MIB, MAP_ANONYMOUS, -1);

    map(at, 4096, MAP_FIXED | DENYWRITE, fd);
    CHECK(!files_identity(&loader, at)); /* it was no reservation: its pages can be read */
    munmap((void *)at, MIB);
    struct mmap_call c = {0, MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1ul, 0};
    at = (uintptr_t)loader_mmap(&loader, &c);
    map(at + 8192, 4096, MAP_FIXED | DENYWRITE, fd);
    is_the_file_of(at + 8192, fd);
    CHECK(!files_identity(&loader, at));
    close(fd);
}

static void silence_is_noted(void)
{
    struct kernel kernel = kernel_make(2);
    int fd = file_of_size(8192);
    uintptr_t at = map(0, 8192, DENYWRITE, fd);

    is_the_file_of(at, fd);
    munmap((void *)at, 8192);
    loader.sys = &kernel.sys;
    *loader.arena = (struct arena){.start = at, .end = at + 8192, .grain = 4096};
    place_loosen(loader.arena);
    CHECK(map(0, 8192, DENYWRITE, fd) == at); /* the mmap works, the fstat fails */
    CHECK(kernel.calls == 2 && !files_identity(&loader, at));
    loader.sys = &rimf_sys_kernel;
    *loader.arena = (struct arena){0};
    close(fd);
}

static void many(void)
{
    int fd = file_of_size(4096);
    uintptr_t at[200];

    for (size_t i = 0; i < 200; i++)
        at[i] = map(0, 4096, DENYWRITE, fd);
    for (size_t i = 0; i < 200; i++)
        is_the_file_of(at[i], fd);
    /* A library that comes and goes has one note, beside its neighbours'. */
    size_t before = loader.files->n;
    for (size_t i = 0; i < 10000; i++) {
        CHECK(!munmap((void *)at[7], 4096));
        *loader.arena = (struct arena){.start = at[7], .end = at[7] + 4096, .grain = 4096};
        place_loosen(loader.arena);
        CHECK(map(0, 4096, DENYWRITE, fd) == at[7]);
    }
    *loader.arena = (struct arena){0};
    CHECK(loader.files->n == before, "%zu notes, before %zu", loader.files->n, before);
    for (size_t i = 0; i < 200; i++)
        is_the_file_of(at[i], fd);
    loader.files->wanted = 0;
    size_t n = loader.files->n;
    map(0, 4096, DENYWRITE, fd);
    CHECK(loader.files->n == n);
    close(fd);
}

int main(void)
{
    rooms_set(&loader, &rooms);
    loader.sys = &rimf_sys_kernel;
    rimf_heap_init(&loader.heap, loader.sys);
    loader.files->wanted = 1;
    CHECK(close(mkstemp(path)) == 0);
    replaced_files_do_not_count();
    segments_that_follow_a_reservation();
    silence_is_noted();
    many();
    unlink(path);
    return 0;
}
