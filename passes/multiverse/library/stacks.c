/* SPDX-License-Identifier: MIT
 *
 * stacks.c: whether a thread is inside code that commits replaced: its program counter, and each word of its stack that
 * could be a return address.
 *
 * A signal's handler may run on a stack of its own: where it goes back to is in its frame, which begins with
 * the address of the code that does so, and then the other stack is looked at, too.
 */
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "passes/multiverse/library/library.h"

#define STACKS 8 /* of one thread */

char *mv_read_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *text = NULL;
    size_t used = 0;
    ssize_t n = fd < 0 ? -1 : 1;

    while (n > 0) {
        char *longer = realloc(text, used + 4097);

        if (!longer)
            break;
        text = longer;
        n = read(fd, text + used, 4096);
        used += n > 0 ? (size_t)n : 0;
        text[used] = 0;
    }
    if (fd >= 0)
        close(fd);
    if (!n)
        return text;
    free(text);
    return NULL;
}

static int is_old(const struct mv_stacks *s, uintptr_t address)
{
    for (size_t i = 0; i < s->old.n; i++)
        if (address - s->old.at[i].start < s->old.at[i].size)
            return 1;
    return 0;
}

static int is_restorer(const struct mv_stacks *s, uintptr_t address)
{
    for (size_t i = 0; i < s->n_restorers; i++)
        if (s->restorers[i] == address)
            return 1;
    return 0;
}

/* The end of the mapping that has the address, or 0. */
static uintptr_t mapping_end(const struct mv_stacks *s, uintptr_t address)
{
    for (const char *line = s->maps; line && *line; line = strchr(line, '\n'), line += line != NULL) {
        char *rest;
        uintptr_t start = strtoul(line, &rest, 16), end = strtoul(rest + 1, NULL, 16);

        if (address >= start && address < end)
            return end;
    }
    return 0;
}

static uintptr_t interrupted(const struct mv_stacks *s, uintptr_t context, int number)
{
    uintptr_t value = 0;

    if (pread(s->memory, &value, sizeof value,
              (off_t)(context + offsetof(ucontext_t, uc_mcontext.gregs) + (size_t)number * sizeof value)) != sizeof value)
        return 0;
    return value;
}

int mv_stacks_stands(const struct mv_stacks *s, uintptr_t pc, uintptr_t sp)
{
    uintptr_t ends[STACKS], words[512];

    if (is_old(s, pc))
        return 1;
    for (size_t n = 0; sp; n++) {
        uintptr_t at = sp & ~(uintptr_t)7, end = mapping_end(s, sp);

        sp = 0;
        for (size_t i = 0; i < n; i++)
            if (ends[i] == end)
                return 0; /* was looked at from a lower place */
        if (!end || n == STACKS)
            return 1;
        ends[n] = end;
        for (ssize_t got; at < end; at += (uintptr_t)got) {
            got = pread(s->memory, words, end - at < sizeof words ? end - at : sizeof words, (off_t)at);
            if (got < 8)
                return 1;
            got &= ~7;
            for (ssize_t i = 0; i < got / 8; i++) {
                if (is_old(s, words[i]))
                    return 1;
                if (is_restorer(s, words[i])) {
                    uintptr_t context = at + 8 * (uintptr_t)i + 8, other = interrupted(s, context, REG_RSP);

                    if (is_old(s, interrupted(s, context, REG_RIP)))
                        return 1;
                    if (other && mapping_end(s, other) != end)
                        sp = other;
                }
            }
        }
    }
    return 0;
}

static void find_restorers(struct mv_stacks *s)
{
    struct sys_action action;

    for (int signal = 1; signal <= 64 && s->n_restorers < sizeof s->restorers / sizeof *s->restorers; signal++)
        if (!syscall(SYS_rt_sigaction, signal, NULL, &action, sizeof action.mask) && action.handler > 1 && action.restorer &&
            !is_restorer(s, action.restorer))
            s->restorers[s->n_restorers++] = action.restorer;
}

int mv_stacks_open(struct mv_stacks *s)
{
    s->memory = open("/proc/thread-self/mem", O_RDONLY | O_CLOEXEC);
    find_restorers(s);
    return s->memory < 0 ? -1 : mv_stacks_list(s);
}

int mv_stacks_list(struct mv_stacks *s)
{
    free(s->maps);
    s->maps = mv_read_file("/proc/thread-self/maps");
    return s->maps ? 0 : -1;
}

void mv_stacks_close(struct mv_stacks *s)
{
    if (s->memory >= 0)
        close(s->memory);
    free(s->maps);
    free(s->old.at);
}
