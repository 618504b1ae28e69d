/* SPDX-License-Identifier: MIT
 *
 * The variables that steer one run (knobs.c) with anything in them: the words of
 * MVLD_DEBUG above all.  Whatever they say, only known categories come out, every line
 * that is said is whole, and the environment of a program with special rights holds
 * none of ours afterwards.
 *
 * The first byte of the input is AT_SECURE, the rest the environment, each entry
 * with its NUL.
 */
#include "loader/loader.h"
#include "loader/process/process.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ENTRIES 64u
#define ALL                                                                                  \
    (MVLD_LOG_FILES | MVLD_LOG_PASSES | MVLD_LOG_PATCH | MVLD_LOG_IMAGE |                    \
     MVLD_LOG_STATISTICS)

static jmp_buf ended;

/* Which tools watch a program is decided elsewhere (analysis.c). */
const char *auditor_of(const char *setting)
{
    return strlen(setting) % 2 ? "watched" : NULL;
}

static long call(const struct rimf_sys *sys, long nr, long a, long b, long c, long d, long e,
                 long f)
{
    switch (nr) {
    case SYS_write: /* all of it is there, and no other end of text in it */
        if (c <= 0 || memchr((const void *)b, 0, (size_t)c))
            abort();
        return c;
    case SYS_exit_group: longjmp(ended, 1);
    case SYS_openat:
        if (!(c & O_CREAT) || !(c & O_NOFOLLOW) || strlen((const char *)b) == 0)
            abort();
        return 3;
    case SYS_fcntl: return 200;
    case SYS_fstat:
        memset((void *)b, 0, sizeof(struct stat));
        return 0;
    case SYS_getpid:
    case SYS_gettid: return 4194303;
    case SYS_close: return 0;
    case SYS_mmap:
    case SYS_munmap: return rimf_syscall(nr, a, b, c, d, e, f);
    }
    (void)sys;
    return -ENOSYS;
}

static void check(struct loader *l)
{
    if ((l->log.categories & ~(uint32_t)ALL) || (l->log.fd != -1 && l->log.fd != 2 && l->log.fd != 200))
        abort();
    if (l->knobs->off && l->log.fd >= 0)
        abort();
    for (char **e = l->block->envp; l->block->secure && *e; e++)
        if (!strncmp(*e, "MVLD=", 5) || !strncmp(*e, "MVLD_", 5))
            abort();
    if (l->block->secure && (l->knobs->host || l->knobs->off || l->knobs->preload))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* argc, argv, its NULL, envp, its NULL, auxv */
    uintptr_t stack[3 + ENTRIES + 1 + 4] = {1, (uintptr_t) "program", 0};
    static struct loader l;
    static struct block block;
    static struct knobs knobs;
    static struct rimf_sys sys;
    char *text = malloc(size + 1);
    size_t n = 3;

    block = (struct block){0};
    knobs = (struct knobs){0};
    l = (struct loader){.block = &block, .knobs = &knobs};
    sys.call = call;
    memcpy(text, data, size);
    text[size] = 0;
    for (size_t at = 1; at < size && n < 3 + ENTRIES; at += strlen(text + at) + 1)
        stack[n++] = (uintptr_t)(text + at);
    stack[++n] = AT_SECURE;
    stack[++n] = size && data[0] & 1;
    l.sys = &sys;
    l.log = (struct rimf_log){.sys = &sys, .fd = -1};
    rimf_heap_init(&l.heap, &sys);
    block_read(l.block, stack);
    if (!setjmp(ended)) {
        knobs_read(&l);
        check(&l);
    }
    rimf_heap_destroy(&l.heap);
    free(text);
    return 0;
}
