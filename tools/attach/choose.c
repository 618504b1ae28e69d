/* SPDX-License-Identifier: MIT
 *
 * attach/choose.c: which threads may be stopped, and in which order they are tried.
 *
 * Those that have done the least come first, since hardly anybody waits for them.
 *
 * A program mostly ignores SIGCHLD.  The kernel keeps that signal for a thread that is traced, and it then interrupts
 * other threads, whose epoll_wait(2) says EINTR.  So beside others a thread is stopped when it has no child.  One that it
 * makes while it is traced stands still until the thread is let go (rest.c).
 *
 * A frame is written below the stack pointer.  A coroutine's stack, or a goroutine's, may have no room there and
 * something else below it.  So the stack must be one that the kernel or the C library made for the thread: of the first
 * thread the kernel's, which the auxiliary vector's random bytes are above; of others one with the thread's control block
 * at its end.  In a child that another thread forked, the first thread's is such a one, too; mostly it is in a mapping in
 * which other memory may lie.
 */
#include "tools/attach/attach.h"
#include "tools/common/tools.h"

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 4096u
#define IO_WORKER 0x10u /* PF_IO_WORKER, among the flags of its stat */

char attach_state_and_time(const struct attach *a, pid_t thread, unsigned long *time)
{
    char *text = attach_thread_file(a, thread, "stat"), *end = strrchr(text, ')'), state = 'X';
    unsigned long user = 0, kernel = 0;
    unsigned flags = 0;

    if (end)
        sscanf(end + 1, " %c %*d %*d %*d %*d %*d %u %*u %*u %*u %*u %lu %lu", &state, &flags, &user, &kernel);
    *time = user + kernel;
    free(text);
    return flags & IO_WORKER && state != 'X' && state != 'Z' ? 'I' : state;
}

char attach_thread_state(const struct attach *a, pid_t thread)
{
    unsigned long time;

    return attach_state_and_time(a, thread, &time);
}

int attach_has_children(const struct attach *a, pid_t thread)
{
    char *text = attach_thread_file(a, thread, "children");
    int has = *text != 0;

    free(text);
    return has;
}

/* Whether the control block of a thread says that its stack begins where this mapping does, or in the guard below, and
 * ends in it behind the block.  glibc has three words for that: lowest address, size, size of the guard. */
static int has_stack(const struct attach *a, uint64_t block, uint64_t start, uint64_t end)
{
    uint64_t w[512], size = end - block < sizeof w ? end - block : sizeof w;

    if (attach_read(a, block, w, size))
        return 0;
    for (size_t i = 0; i + 2 < size / sizeof *w; i++)
        if (w[i] && w[i] % PAGE == 0 && w[i] <= start && start - w[i] <= w[i + 2] && w[i + 2] < w[i + 1] &&
            w[i] + w[i + 1] > block && w[i] + w[i + 1] <= end)
            return 1;
    return 0;
}

int attach_is_on_its_stack(const struct attach *a, const struct user_regs_struct *r)
{
    uint64_t start, end;
    int is_first = a->thread == a->pid, is;
    char *text = NULL;

    is = !attach_mapping(a, r->rsp, &text, &start, &end);
    free(text);
    if (!is)
        return 0;
    if (is_first && attach_auxiliary(a, AT_RANDOM) - r->rsp < end - r->rsp)
        return 1;
    return r->fs_base - r->rsp < end - r->rsp && r->rsp - start >= attach_frame_size(a) &&
           (!is_first || has_stack(a, r->fs_base, start, end));
}

static int by_time(const void *a, const void *b)
{
    const struct attach_candidate *x = a, *y = b;

    return (x->time > y->time) - (x->time < y->time);
}

struct attach_candidate *attach_candidates(struct attach *a, size_t *n)
{
    int fd = openat(a->folder, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    struct attach_candidate *list = NULL, next;

    *n = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char state;

        next.thread = (pid_t)strtol(entry->d_name, NULL, 10);
        state = next.thread > 0 ? attach_state_and_time(a, next.thread, &next.time) : 'X';
        if (state == 'T' && !a->stopped->area)
            attach_fail(a, "process %d is stopped", a->pid);
        if (state != 'R' && state != 'S' && (state != 'T' || !a->stopped->area)) /* a begun request is finished */
            continue;
        list = must_grow(list, *n + 1, sizeof *list);
        list[(*n)++] = next;
    }
    if (folder)
        closedir(folder);
    if (*n)
        qsort(list, *n, sizeof *list, by_time);
    return list;
}
