/* SPDX-License-Identifier: MIT
 *
 * list_lock.c: children of fork in which dl_iterate_phdr would wait for ever, or dlopen would end
 * the process.
 *
 * glibc guards its list of objects by a lock of its own (dl_load_write_lock).  A child has it in
 * its state at the fork: taken, if another thread was inside dl_iterate_phdr, dlopen or dlclose.
 * That thread does not exist in the child, so nobody releases the lock.
 *
 * The lock's address is not public.  The library's constructor looks for it: a recursive mutex in
 * the host loader's data that this thread owns inside a callback of dl_iterate_phdr, and does not
 * own after it.  If there is none, or more than one, the lock is unknown, and a child may wait.
 *
 * If the other thread was between two states of the link map, the map stays inconsistent, and the
 * next dlopen in the child, also one of pins.c, fails an assertion of glibc.
 *
 * In both cases nobody in the child can open or close libraries.  So the link map does not change,
 * and can be read without a lock (objects.c).
 */
#include <link.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "passes/multiverse/library/library.h"

#ifdef __GLIBC__
extern __typeof__(_r_debug) _r_debug __attribute__((weak)); /* in the host loader's data */

/* The beginning of glibc's pthread_mutex_t. */
struct mutex {
    int lock;
    unsigned count;
    int owner;
    unsigned users;
    int kind;
};

#define DATA_MAX (256u << 10) /* a static program's data contains it, too */

static const volatile struct mutex *list_lock;
#define FOUND_MAX 4u

static int is_lost;

struct search {
    const volatile struct mutex *found[FOUND_MAX];
    size_t n;
    int self;
};

static int is_mine(const volatile struct mutex *m, int self)
{
    return m->owner == self && m->lock && m->count && m->kind == PTHREAD_MUTEX_RECURSIVE_NP;
}

static int search_object(struct dl_phdr_info *info, size_t size, void *cookie)
{
    struct search *s = cookie;
    uintptr_t inside = (uintptr_t)&_r_debug;

    (void)size;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + ph->p_vaddr, at = (start + 7) & ~(uintptr_t)7;

        if (ph->p_type != PT_LOAD || !(ph->p_flags & PF_W) || inside - start >= ph->p_memsz ||
            ph->p_memsz > DATA_MAX)
            continue;
        for (; at + sizeof *s->found[0] <= start + ph->p_memsz && s->n < FOUND_MAX; at += 8)
            if (is_mine((const volatile struct mutex *)at, s->self))
                s->found[s->n++] = (const volatile struct mutex *)at;
        return 1;
    }
    return 0;
}

void mv_list_find_lock(void)
{
    struct search s = {.self = (int)syscall(SYS_gettid)};
    size_t n = 0;

    if (!&_r_debug)
        return;
    dl_iterate_phdr(search_object, &s);
    for (size_t i = 0; i < s.n; i++) /* dlopen's lock is ours, too, if dlopen calls the constructor */
        if (!is_mine(s.found[i], s.self)) {
            list_lock = s.found[i];
            n++;
        }
    if (n != 1)
        list_lock = NULL;
}

void mv_list_in_child(void)
{
    is_lost |= (list_lock && list_lock->lock && list_lock->owner) || (&_r_debug && _r_debug.r_state != RT_CONSISTENT);
}

const struct link_map *mv_list_lost(void)
{
    return is_lost ? _r_debug.r_map : NULL;
}

int mv_list_is_shrinking(void)
{
    return _r_debug.r_state == RT_DELETE;
}
#else
void mv_list_find_lock(void)
{
}

void mv_list_in_child(void)
{
}

const struct link_map *mv_list_lost(void)
{
    return NULL;
}

int mv_list_is_shrinking(void)
{
    return 0;
}
#endif
