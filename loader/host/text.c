/* SPDX-License-Identifier: MIT
 *
 * loader/host/text.c: changes of the host loader's code.
 *
 *   the hook       _dl_debug_state, an empty function that every glibc and musl calls at each
 *                  event: a jump to us
 *   the mmap sites where it maps files: a jump to place.c (only if a pipeline
 *                  wants libraries near the executable)
 *   the questions  where it executes cpuid: a jump to an answer (cpuid.c)
 *
 * Each place must contain exactly the expected bytes, otherwise it is not changed.
 *
 *   _dl_debug_state before        after
 *     [f3 0f 1e fa  endbr64]        [f3 0f 1e fa  endbr64]
 *     c3            ret             e9 <rel32>    jmp loader_hook_entry
 *     … padding, at least 4 bytes
 *
 * Method: there is one thread, which does not execute that text now.  The whole segment becomes
 * read-write, is written, and becomes read-execute again.  It stays one mapping, and is never
 * writable and executable.  If it cannot be made executable again (PR_SET_MDWE, systemd's
 * MemoryDenyWriteExecute, SELinux), the clean text is mapped from the file and the bytes are
 * written through /proc/self/mem.  If that is forbidden, too, the program runs unhooked.
 */
#include "loader/loader.h"

#include "loader/host/host.h"
#include "loader/place/place.h"
#include "loader/process/process.h"

#include <errno.h>    /* numbers only */
#include <fcntl.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

/* ---- finding the places -------------------------------------------------------- */

/* Whether there is only padding: int3, and the nops that assemblers use,
 *     [66|2e]* 90                 nop
 *     [66|2e]* 0f 1f /0 …         nop with a ModRM operand */
static int is_padding(const uint8_t *p, const uint8_t *end, size_t least)
{
    const uint8_t *wanted = p + least;

    while (p < wanted) {
        while (p < end && (*p == 0x66 || *p == 0x2e))
            p++;
        if (end - p < 1)
            return 0;
        if (*p == 0x90 || *p == 0xcc) {
            p++;
        } else if (end - p >= 3 && p[0] == 0x0f && p[1] == 0x1f && (p[2] & 0x38) == 0) {
            int mod = p[2] >> 6, sib = (p[2] & 7) == 4;

            p += 3 + sib + (mod == 1 ? 1 : mod == 2 ? 4 : 0);
        } else {
            return 0;
        }
    }
    return p <= end;
}

/* jmp rel32 from `at`, through the tail of the text if the target is too far:
 *     e9 <rel32>                  jmp target
 * and there
 *     ff 25 00 00 00 00 <quad>    jmp *0(%rip)
 * Returns the number of patches, or negative errno. */
static int make_jump(const struct host *host, struct text_patch *patch, uintptr_t at, uintptr_t to,
                     size_t slot)
{
    intptr_t distance = (intptr_t)(to - (at + 5));
    int32_t rel;
    int n = 1;

    if (distance != (int32_t)distance) {
        uintptr_t stub = host->tail + FAR_JUMP * slot;

        distance = (intptr_t)(stub - (at + 5));
        if (!host->tail || distance != (int32_t)distance ||
            stub + FAR_JUMP > rimf_page_up(host->tail))
            return -ERANGE;
        patch[n] = (struct text_patch){stub, 14, {0xff, 0x25, 0, 0, 0, 0}};
        memcpy(patch[n++].bytes + 6, &to, 8);
    }
    rel = (int32_t)distance;
    *patch = (struct text_patch){at, 5, {0xe9}};
    memcpy(patch->bytes + 1, &rel, 4);
    return n;
}

/* The address for the hook's jump, or 0. */
static uintptr_t hook_place(const struct host *host, const Elf64_Sym *symbol)
{
    const uint8_t *p = (const uint8_t *)(host->bias + symbol->st_value);
    const uint8_t *end = (const uint8_t *)host->text_end;
    static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};

    if ((uintptr_t)p < host->text || end < p || end - p < 32)
        return 0;
    if (memcmp(p, endbr64, sizeof endbr64) == 0)
        p += sizeof endbr64;
    return *p == 0xc3 && is_padding(p + 1, end, 4) ? (uintptr_t)p : 0;
}

/* ---- writing -------------------------------------------------------------------- */

static int protect(const struct rimf_sys *sys, const struct host *host, int prot)
{
    return (int)sys_mprotect(sys, host->text, host->text_end - host->text, prot);
}

/* 0: written, but not executable.  Otherwise nothing is changed. */
static int open_and_write(const struct rimf_sys *sys, const struct host *host,
                          const struct text_patch *patch, size_t n)
{
    int err = protect(sys, host, PROT_READ | PROT_WRITE);

    for (size_t i = 0; i < n && !err; i++)
        memcpy((void *)patch[i].at, patch[i].bytes, patch[i].length);
    return err;
}

static int by_mprotect(const struct rimf_sys *sys, const struct host *host,
                       const struct text_patch *patch, size_t n)
{
    int err = open_and_write(sys, host, patch, n);

    return err ? err : protect(sys, host, PROT_READ | PROT_EXEC);
}

static int by_selfmem(const struct rimf_sys *sys, const struct text_patch *patch, size_t n)
{
    long fd = sys_openat(sys, "/proc/self/mem", O_RDWR | O_CLOEXEC, 0), done = 0;

    if (sys_failed(fd))
        return (int)fd;
    for (size_t i = 0; i < n && done >= 0; i++) {
        done = sys_pwrite(sys, (int)fd, patch[i].bytes, patch[i].length, patch[i].at);
        if (done >= 0 && done != patch[i].length)
            done = -EIO;
    }
    sys_close(sys, (int)fd);
    return done < 0 ? (int)done : 0;
}

static int clean_text(const struct rimf_sys *sys, struct host *host)
{
    long err = sys_mmap(sys, host->text, host->text_end - host->text, PROT_READ | PROT_EXEC,
                        MAP_PRIVATE | MAP_FIXED, host->fd, host->text_offset);

    return sys_failed(err) ? (int)err : 0;
}

/* 0: all patches are written.  Negative errno: none is, the text is clean and executable.
 * -ENOTRECOVERABLE: the text is not executable. */
int text_write(const struct rimf_sys *sys, struct host *host, const struct text_patch *patch,
               size_t n, const char **how)
{
    int err = by_mprotect(sys, host, patch, n);

    *how = "mprotect";
    host->by_mprotect = !err;
    if (!err)
        return 0;
    if (clean_text(sys, host))
        return -ENOTRECOVERABLE;
    *how = "/proc/self/mem";
    err = by_selfmem(sys, patch, n);
    if (err && clean_text(sys, host))
        return -ENOTRECOVERABLE;
    return err;
}

int text_write_again(const struct rimf_sys *sys, const struct host *host,
                     const struct text_patch *patch, size_t n)
{
    int err = open_and_write(sys, host, patch, n);

    if (err)
        return err;
    if (protect(sys, host, PROT_READ | PROT_EXEC) && protect(sys, host, PROT_READ | PROT_EXEC))
        say_and_exit(sys, "mvld: the kernel does not let the host loader's code be executed again\n");
    return 0;
}

/* ---- all of it -------------------------------------------------------------------- */

/* Returns the number of patches; *sites is 0 if there are none. */
static size_t add_mmap_sites(struct loader *l, const struct host_entries *entries, struct text_patch *patch,
                             size_t *sites)
{
    uintptr_t at[MMAP_SITES];
    size_t code = l->host->musl ? host_mmap_musl(l->host, at) : MMAP_SITE_CODE, n = 0;

    *sites = l->host->musl ? code != 0 : host_mmap_sites(l->host, at);
    for (size_t i = 0; i < *sites; i++) {
        uintptr_t to = code == MMAP_MUSL_SIZE ? entries->mmap_musl : entries->mmap + MMAP_SITE_SIZE * i;
        int made = make_jump(l->host, patch + n, at[i], to, 1 + i);

        if (made < 0) { /* some libraries would be placed and others not: place none */
            *sites = n = 0;
            break;
        }
        n += (size_t)made;
        l->mmap_return[i] = at[i] + code;
    }
    if (!n) {
        l->arena->end = 0;
        rimf_log(&l->log, MVLD_LOG_WARNING,
                 "placement: as-is: %s has no mmap call of the known form", l->host->path);
    }
    return n;
}

/* The same for cpuid instructions.  Without a record only repeated ones pay. */
size_t text_questions(struct loader *l, const struct question *questions, size_t n,
                      struct text_patch *patch, size_t *put)
{
    size_t patches = 0;

    *put = 0;
    for (size_t i = 0; i < n && i < CPUID_SITES; i++) {
        const uintptr_t end =
            l->cpuid->record || questions[i].again ? host_question_end(l->host, questions, i) : 0;
        int made = end ? make_jump(l->host, patch + patches, l->host->bias + questions[i].at,
                                   (uintptr_t)loader_cpuid_stubs + CPUID_STUB_SIZE * i,
                                   TEXT_PATCHES + *put)
                       : -ENOENT;

        if (made < 0)
            continue; /* it keeps its cpuid */
        patches += (size_t)made;
        l->cpuid_return[i] = end;
        ++*put;
    }
    return patches;
}

/* Adds all jumps besides the hook's, and reports which. */
static size_t add_jumps(struct loader *l, const struct host_entries *entries, const struct question *questions,
                        size_t n_questions, struct text_patch *patch, size_t *mmaps, size_t *put)
{
    size_t n = entries->mmap ? add_mmap_sites(l, entries, patch, mmaps) : 0;

    return n + text_questions(l, questions, n_questions, patch + n, put);
}

/* Returns 0 if hooked; otherwise the log has the reason. */
int host_hook(struct loader *l, const struct host_entries *entries)
{
    struct text_patch *patch;
    const Elf64_Sym *state = host_symbol(l->host, "_dl_debug_state");
    const Elf64_Sym *debug = host_symbol(l->host, l->host->musl ? "_dl_debug_addr" : "_r_debug");
    uintptr_t place = state ? hook_place(l->host, state) : 0;
    const char *how;
    const struct question *questions;
    size_t n_questions, mmaps = 0, put = 0;
    int n, err;

    if (!place || !debug) {
        rimf_log(&l->log, MVLD_LOG_WARNING, "not hooked: %s has no %s", l->host->path,
                 !state   ? "_dl_debug_state"
                 : !debug ? "_r_debug"
                          : "_dl_debug_state of the known form");
        return -ENOTSUP;
    }
    n_questions = host_questions(l->host, &questions);
    if (n_questions)
        cpuid_find(l);
    patch = rimf_heap_alloc(&l->heap, 2 * (TEXT_PATCHES + n_questions) * sizeof *patch);
    n = patch ? make_jump(l->host, patch, place, entries->hook, 0) : -ENOMEM;
    if (n < 0) {
        rimf_log(&l->log, MVLD_LOG_WARNING, "not hooked: %s",
                 patch ? "the host loader lies too far away" : "out of memory");
        rimf_heap_release(&l->heap, patch);
        return n;
    }
    n += (int)add_jumps(l, entries, questions, n_questions, patch + n, &mmaps, &put);
    err = text_write(l->sys, l->host, patch, (size_t)n, &how);
    rimf_heap_release(&l->heap, patch);
    if (err == -ENOTRECOVERABLE)
        say_and_exit(l->sys, "mvld: the kernel does not let the host loader's code be mapped\n");
    if (err) {
        rimf_log(&l->log, MVLD_LOG_WARNING,
                 "not hooked: the host loader's code may not be written (error %d)", -err);
        return err;
    }
    if (l->host->musl)
        l->debug_musl = (void *)(l->host->bias + debug->st_value);
    else
        l->debug = (void *)(l->host->bias + debug->st_value);
    rimf_log(&l->log, MVLD_LOG_FILES, "hooked: %s at %lx, %zu mmap calls, %zu of cpuid, by %s",
             l->host->path, (unsigned long)place, mmaps, put, how);
    return 0;
}
