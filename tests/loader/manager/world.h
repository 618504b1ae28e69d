/* SPDX-License-Identifier: MIT
 *
 * tests/loader/manager/world.h: a kernel for tests of the pass manager: the real one, with
 * the root folder, that of mvld's folders (compiled in), of /home and /xdg, a temporary one, calls
 * counted, and the n-th call failing when a test asks for it.
 */
#ifndef TESTS_LOADER_WORLD_H
#define TESTS_LOADER_WORLD_H

#include "rimf/base/base.h"
#include "rimf/base/log.h"
#include "loader/manager/pipeline.h"
#include "rimf/base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct world {
    struct rimf_sys sys; /* first: the callback casts back */
    char root[64];
    char log_path[80];
    struct rimf_log log;
    unsigned calls; /* since reset */
    unsigned foreign; /* of these, such as the host loader may not make */
    unsigned fail_at; /* the n-th call fails with -fail_error; 0: none */
    int fail_error;
    long maps;        /* bytes mapped less bytes unmapped */
    int owner;        /* -1: as it is; else what fstat says */
    unsigned denied_mode; /* bits that fstat adds to the mode */
    char *env[8];
    size_t n_env;
};

static unsigned failures;

#define CHECK(condition, ...)                                                    \
    do {                                                                         \
        if (!(condition)) {                                                      \
            failures++;                                                          \
            printf("%s:%d: not so: %s: ", __FILE__, __LINE__, #condition);       \
            printf(__VA_ARGS__);                                                 \
            printf("\n");                                                        \
        }                                                                        \
    } while (0)

static int world_moves(const char *path)
{
    static const char *const ours[] = {MVLD_SYSCONF_DIR, MVLD_LIB_DIR, "/home", "/xdg"};

    for (size_t i = 0; i < RIMF_COUNT(ours); i++)
        if (strncmp(path, ours[i], strlen(ours[i])) == 0)
            return 1;
    return strcmp(path, "/") == 0;
}

static long world_call(const struct rimf_sys *sys, long nr, long a, long b, long c, long d, long e,
                       long f)
{
    struct world *w = (struct world *)(uintptr_t)sys;
    char path[PATH_MAX];

    /* munmap does not fail in a way that a caller could handle. */
    if (++w->calls == w->fail_at && nr != SYS_munmap)
        return -w->fail_error;
    w->foreign += nr != SYS_openat && nr != SYS_read && nr != SYS_close && nr != SYS_mmap && nr != SYS_munmap;
    if ((nr == SYS_openat || nr == SYS_faccessat || nr == SYS_newfstatat || nr == SYS_readlinkat) &&
        world_moves((const char *)b)) {
        snprintf(path, sizeof(path), "%s%s", w->root, (const char *)b);
        b = (long)path;
    }
    long result = rimf_syscall(nr, a, b, c, d, e, f);
    if (nr == SYS_mmap && result > 0 && !(d & 0x10 /* MAP_FIXED */))
        w->maps += (b + 4095) & ~4095L;
    if (nr == SYS_munmap && result == 0)
        w->maps -= (b + 4095) & ~4095L;
    if ((nr == SYS_fstat || nr == SYS_newfstatat) && result == 0) {
        struct stat *st = (struct stat *)(nr == SYS_fstat ? b : c);
        if (w->owner >= 0)
            st->st_uid = (unsigned)w->owner;
        st->st_mode |= w->denied_mode;
    }
    return result;
}

static void world_begin(struct world *w)
{
    *w = (struct world){.sys = {world_call}, .owner = -1};
    strcpy(w->root, "/tmp/mvld-test-XXXXXX");
    if (!mkdtemp(w->root))
        exit(1);
    snprintf(w->log_path, sizeof(w->log_path), "%s/log", w->root);
    w->log = (struct rimf_log){.sys = &rimf_sys_kernel,
                               .fd = open(w->log_path, O_CREAT | O_RDWR | O_APPEND | O_CLOEXEC, 0600),
                               .categories = ~0u};
}

static void world_end(struct world *w)
{
    char command[128];

    snprintf(command, sizeof(command), "chmod -R u+rwx %s; rm -rf %s", w->root, w->root);
    if (w->log.fd >= 0)
        close(w->log.fd);
    if (system(command) != 0)
        exit(1);
}

/* Writes root/path, with the folders on the way. */
static void world_file(struct world *w, const char *path, const char *text, size_t length)
{
    char whole[PATH_MAX];

    snprintf(whole, sizeof(whole), "%s%s", w->root, path);
    for (char *p = whole + strlen(w->root) + 1; *p; p++)
        if (*p == '/') {
            *p = 0;
            mkdir(whole, 0755);
            *p = '/';
        }
    int fd = open(whole, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, text, length) != (ssize_t)length) {
        perror(whole);
        exit(1);
    }
    close(fd);
}

static inline void world_text(struct world *w, const char *path, const char *text)
{
    world_file(w, path, text, strlen(text));
}

/* The system's configuration, as `mvld config` makes it of one file. */
static inline void world_system(struct world *w, const char *text)
{
    static const char mark[] = "@/*/\n@ " MVLD_SYSCONF_DIR "/mvld.conf\n";
    size_t length = strlen(text);
    char *whole = malloc(sizeof(mark) + length);

    memcpy(whole, mark, sizeof(mark) - 1);
    memcpy(whole + sizeof(mark) - 1, text, length);
    world_file(w, MVLD_SYSCONF_DIR "/config.cache", whole, sizeof(mark) - 1 + length);
    free(whole);
}

static inline void world_copy(struct world *w, const char *path, const char *from)
{
    static char bytes[1 << 20];
    int fd = open(from, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, bytes, sizeof(bytes));

    if (n < 0) {
        perror(from);
        exit(1);
    }
    close(fd);
    world_file(w, path, bytes, (size_t)n);
}

static inline void world_env(struct world *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static inline void world_env(struct world *w, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    if (vasprintf(&w->env[w->n_env++], format, arguments) < 0)
        exit(1);
    va_end(arguments);
}

static inline void world_clear_env(struct world *w)
{
    while (w->n_env)
        free(w->env[--w->n_env]);
    memset(w->env, 0, sizeof(w->env));
}

/* Everything that was logged since the last call. */
static inline const char *world_log(struct world *w)
{
    static char text[1 << 20];
    ssize_t n = pread(w->log.fd, text, sizeof(text) - 1, 0);

    text[n > 0 ? n : 0] = 0;
    if (ftruncate(w->log.fd, 0))
        exit(1);
    return text;
}

#endif
