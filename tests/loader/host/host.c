/* SPDX-License-Identifier: MIT
 *
 * Finding, mapping and changing the host loader (loader/host/host.c, host/text.c) when
 * system calls fail and files are not what they should be.  A failure means that a
 * program may crash, or lose its loader, where the host loader alone would run.
 */
#include "../kernel.h"

#include "rimf/elf/headers.h"

static void open_host(struct host *host, const char *path)
{
    memset(host, 0, sizeof *host);
    host->path = path;
    host->fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(host->fd >= 0, "%s", path);
}

/* Whatever call fails: an error and nothing left mapped, or a whole host loader. */
static void map_with_failures(const char *path)
{
    static char text[1 << 16];
    int failed = 0;

    for (int n = 1;; n++) {
        struct kernel kernel = kernel_make(n);
        struct arena arena = {0};
        struct host host;
        size_t before = maps(text, sizeof text, 0, -1ul), after;
        int err;

        open_host(&host, path);
        err = host_map(&kernel.sys, &host, &arena);
        close(host.fd);
        after = maps(text, sizeof text, 0, -1ul);
        if (err) {
            CHECK(err < 0 && after == before, "call %d: %zu maps, then %zu", n, before, after);
            failed++;
            continue;
        }
        CHECK(host_symbol(&host, "_dl_debug_state") != NULL);
        CHECK(host_symbol(&host, "_r_debug") != NULL);
        CHECK(host_symbol(&host, "_dl_debug_stat") == NULL);
        CHECK(host_symbol(&host, "") == NULL);
        munmap((void *)host.start, host.end - host.start);
        if (kernel.calls < n)
            break;
    }
    CHECK(failed >= 4, "%d", failed);
}

static int call_of_hook(const struct host *host, uintptr_t at, uint8_t *bytes)
{
    memcpy(bytes, (void *)at, 16);
    return at >= host->text && at < host->text_end;
}

/* The text is written and executable again, or clean and executable, or the caller
 * is told that neither could be had. */
static void write_with_failures(const char *path)
{
    static const uint8_t jump[] = {0xe9, 1, 2, 3, 4};
    static char text[1 << 16];
    int written = 0, clean = 0, lost = 0;

    for (int n = 1; n < 40; n++) {
        struct kernel kernel = kernel_make(0);
        struct arena arena = {0};
        struct host host;
        struct text_patch patch[2];
        uint8_t before[16], after[16];
        uintptr_t place;
        const char *how = "";
        int err;

        open_host(&host, path);
        CHECK(host_map(&kernel.sys, &host, &arena) == 0);
        CHECK(host.tail > host.text && host.tail + FAR_JUMP * TEXT_PATCHES <= host.text_end);
        place = host.bias + host_symbol(&host, "_dl_debug_state")->st_value;
        CHECK(call_of_hook(&host, place, before));
        memset(patch, 0, sizeof patch);
        patch[0].at = place;
        patch[0].length = sizeof jump;
        memcpy(patch[0].bytes, jump, sizeof jump);
        patch[1].at = host.tail;
        patch[1].length = 1;
        patch[1].bytes[0] = 0xcc;
        kernel = kernel_make(n < 20 ? n : 0);
        if (n >= 20) { /* mprotect is forbidden from its (n - 19)th call on */
            kernel.fail_from = n - 19;
            kernel.number = SYS_mprotect;
        }
        err = text_write(&kernel.sys, &host, patch, 2, &how);
        CHECK(err <= 0);
        if (err != -ENOTRECOVERABLE) {
            maps(text, sizeof text, host.text, host.text_end);
            CHECK(strstr(text, " r-xp "), "call %d: %s", n, text);
            CHECK(!strstr(text, " rw"), "call %d: %s", n, text);
            call_of_hook(&host, place, after);
            if (!err)
                CHECK(memcmp(after, jump, sizeof jump) == 0, "call %d", n);
            CHECK(memcmp(after + (err ? 0 : 5), before + (err ? 0 : 5), err ? 16 : 11) == 0,
                  "call %d", n);
            CHECK(err || *(uint8_t *)host.tail == 0xcc);
        }
        written += !err;
        clean += err && err != -ENOTRECOVERABLE;
        lost += err == -ENOTRECOVERABLE;
        munmap((void *)host.start, host.end - host.start);
        close(host.fd);
    }
    CHECK(written > 20, "%d %d %d", written, clean, lost);
}

/* The calls of mmap that the build knows of, and those that are found when it knows of
 * none, are all that there are: one that is missed maps a library far away. */
static void sites(const char *path)
{
    static const uint8_t code[] = {0xb8, 9, 0, 0, 0, 0x0f, 5};
    uintptr_t expected[MMAP_SITES + 1], found[MMAP_SITES];
    struct kernel kernel = kernel_make(0);
    uint8_t *build_id;
    size_t size;
    struct arena arena = {0};
    struct host host;
    size_t n = 0;

    open_host(&host, path);
    CHECK(host_map(&kernel.sys, &host, &arena) == 0);
    for (uintptr_t at = host.text; n <= MMAP_SITES && at + sizeof code <= host.text_end; at++)
        if (memcmp((void *)at, code, sizeof code) == 0)
            expected[n++] = at;
    CHECK(n > 0 && n <= MMAP_SITES, "%zu", n);
    CHECK(host_mmap_sites(&host, found) == n);
    CHECK(memcmp(found, expected, n * sizeof *found) == 0);
    build_id = (uint8_t *)elf_head_note((void *)host.start, 4096, "GNU", NT_GNU_BUILD_ID, &size);
    CHECK(build_id != NULL);
    CHECK(mprotect((void *)host.start, 4096, PROT_READ | PROT_WRITE) == 0);
    build_id[0]++; /* a loader that the build did not see */
    memset(found, 0, sizeof found);
    CHECK(host_mmap_sites(&host, found) == n);
    CHECK(memcmp(found, expected, n * sizeof *found) == 0);
    munmap((void *)host.start, host.end - host.start);
    close(host.fd);
}

/* A loader that is mvld, or nothing of the kind. */
static void wrong_files(const char *mvld)
{
    static const struct {
        const char *path;
        int err;
    } files[] = {{"/etc/passwd", -ENOEXEC}, {"/bin/true", -ENOEXEC}, {"/dev/null", -ENOEXEC}};
    struct kernel kernel = kernel_make(0);
    struct arena arena = {0};
    struct host host;

    open_host(&host, mvld);
    CHECK(host_map(&kernel.sys, &host, &arena) == -ELOOP);
    close(host.fd);
    for (size_t i = 0; i < RIMF_COUNT(files); i++) {
        open_host(&host, files[i].path);
        CHECK(host_map(&kernel.sys, &host, &arena) == files[i].err, "%s", files[i].path);
        close(host.fd);
    }
}

/* Headers with random changes: whatever is accepted lies within what it says. */
static void mutated(const char *path)
{
    static _Alignas(8) uint8_t head[2048], good[2048];
    uint64_t random = 88172645463325252u, low, high, align;
    int fd = open(path, O_RDONLY), accepted = 0, refused = 0;
    ssize_t size = read(fd, good, sizeof good);

    close(fd);
    CHECK(size == sizeof good);
    for (int i = 0; i < 200000; i++) {
        struct host host = {0};

        memcpy(head, good, sizeof head);
        for (int k = 0; k < 1 + i % 3; k++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            head[random % 700] = (uint8_t)(random >> 32);
        }
        host_is_ours(head, sizeof head - random % 1500);
        if (host_parse(&host, head, sizeof head, &low, &high, &align)) {
            refused++;
            continue;
        }
        accepted++;
        CHECK(low < high && high < 2ul << 40 && low % 4096 == 0 && high % 4096 == 0);
        CHECK(align >= 4096 && align <= 1ul << 30 && !(align & (align - 1)));
    }
    CHECK(accepted > 1000 && refused > 1000, "%d %d", accepted, refused);
}

int main(int argc, char **argv)
{
    CHECK(argc == 3, "host HOST_LOADER MVLD");
    map_with_failures(argv[1]);
    write_with_failures(argv[1]);
    sites(argv[1]);
    wrong_files(argv[2]);
    mutated(argv[1]);
    return 0;
}
