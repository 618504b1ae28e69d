/* SPDX-License-Identifier: MIT
 *
 * pins.c: keeps objects from being closed while they are changed.
 *
 * A thread may close a library during another's commit, and the kernel may map something else at
 * its address.  dl_iterate_phdr does not prevent that (glibc unmaps first and takes its lock then).
 * A reference does: dlopen with RTLD_NOLOAD, closed when the call is over.  It also waits until
 * another thread's dlopen has relocated its objects.
 *
 * The order of locks matters.  A constructor runs with the loader's lock held and may call us, so
 * we must never wait for that lock with the engine's lock held:
 *
 *     list objects      loader's list lock, a leaf, also for malloc; `listing` around it, so that
 *                       no fork happens while we hold it
 *     dlopen            the loader's lock, no other
 *     the operation     the engine's lock; pins are read, not changed;
 *                       -EAGAIN if an object came in between: repeat
 *     dlclose           no lock; may run destructors of objects that the program closed
 *
 * Objects that are listed before the host loader came with the program and are never closed.  A
 * process with one thread needs no pins.
 */
#include "passes/multiverse/library/library.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Static programs have none of these, and nothing that could be closed.  dlopen is looked up with
 * dlsym, because linkers warn of a reference to it in static programs. */
extern __typeof__(dlsym) dlsym __attribute__((weak));
extern __typeof__(dlclose) dlclose __attribute__((weak));
extern char __libc_single_threaded __attribute__((weak)); /* glibc 2.32 */

/* ---- the list */

typedef int each_function(int (*)(struct dl_phdr_info *, size_t, void *), void *);

/* The one behind us, as a rule the C library's own.  The program or a preloaded library may have
 * another in its place, and our calls are not the program's: fakechroot's writes into the names, of
 * which some are read-only. */
static each_function *next_each;

int mv_list_each(int (*with)(struct dl_phdr_info *, size_t, void *), void *cookie)
{
    return (next_each ? next_each : dl_iterate_phdr)(with, cookie);
}

/* ---- children of fork */

/* In a child of fork dl_iterate_phdr could wait for ever, or dlopen end the process.
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
 * next dlopen in the child, also one of ours, fails an assertion of glibc.
 *
 * In both cases nobody in the child can open or close libraries.  So the link map does not change,
 * and can be read without a lock (objects.c).
 */

static int is_shrinking; /* another thread was closing libraries at the fork: some that are listed may be unmapped */

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

static void find_lock(void)
{
    struct search s = {.self = (int)syscall(SYS_gettid)};
    size_t n = 0;

    if (!&_r_debug)
        return;
    mv_list_each(search_object, &s);
    for (size_t i = 0; i < s.n; i++) /* dlopen's lock is ours, too, if dlopen calls the constructor */
        if (!is_mine(s.found[i], s.self)) {
            list_lock = s.found[i];
            n++;
        }
    if (n != 1)
        list_lock = NULL;
}

static void list_in_child(void)
{
    is_lost |= (list_lock && list_lock->lock && list_lock->owner) || (&_r_debug && _r_debug.r_state != RT_CONSISTENT);
    is_shrinking |= &_r_debug && _r_debug.r_state == RT_DELETE;
}

const struct link_map *mv_list_lost(void)
{
    return is_lost ? _r_debug.r_map : NULL;
}

#else
static void find_lock(void)
{
}

static void list_in_child(void)
{
}

const struct link_map *mv_list_lost(void)
{
    return NULL;
}
#endif

void mv_list_prepare(void)
{
    if (dlsym)
        next_each = (each_function *)dlsym(RTLD_NEXT, "dl_iterate_phdr");
    find_lock();
}

/* ---- pins */

static struct rimf_lock listing;
static void *(*open_object)(const char *name, int mode);

static int can_pin(void)
{
    if (!open_object && dlsym && dlclose)
        open_object = (void *(*)(const char *, int))dlsym(RTLD_DEFAULT, "dlopen");
    return open_object != NULL;
}

struct list {
    struct mv_pin *pins;
    char *names; /* behind the pins */
    size_t n, capacity, room; /* room: bytes for names */
    unsigned long long n_removed;
    int is_full, before_loader;
};

static const char *name_of(const struct dl_phdr_info *info)
{
    return info->dlpi_name ? info->dlpi_name : "";
}

static int measure_object(struct dl_phdr_info *info, size_t size, void *cookie)
{
    struct list *list = cookie;

    (void)size;
    list->capacity++;
    list->room += strlen(name_of(info)) + 1;
    return 0;
}

static int list_object(struct dl_phdr_info *info, size_t size, void *cookie)
{
    struct list *list = cookie;
    size_t length = strlen(name_of(info)) + 1;
    struct mv_pin *pin;

    (void)size;
    list->n_removed = info->dlpi_subs;
    if (list->n == list->capacity || length > list->room)
        return list->is_full = 1;
    pin = &list->pins[list->n];
    *pin = (struct mv_pin){.bias = info->dlpi_addr, .dynamic = mv_library_dynamic(info),
                           .name = memcpy(list->names, name_of(info), length)};
    list->names += length;
    list->room -= length;
    /* The executable comes first; musl has a name for it, but cannot open it by that name. */
    pin->fixed = list->before_loader || !list->n || !*pin->name;
    if (info->dlpi_addr && (info->dlpi_addr == getauxval(AT_BASE) ||
                            info->dlpi_addr == getauxval(AT_SYSINFO_EHDR))) {
        pin->fixed = 1;
        list->before_loader &= info->dlpi_addr != getauxval(AT_BASE);
    }
    list->n++;
    return 0;
}

static int each_listed(int (*with)(struct dl_phdr_info *, size_t, void *), struct list *list)
{
    int err = rimf_lock_acquire(&rimf_sys_kernel, &listing);

    if (err < 0)
        return err;
    mv_list_each(with, list);
    rimf_lock_release(&rimf_sys_kernel, &listing);
    return 0;
}

/* Allocates in between: another thread's malloc may wait for the list, with a lock for which ours waits. */
static int list_all(struct list *list)
{
    int err = each_listed(measure_object, list);

    if (err)
        return err;
    list->pins = malloc(list->capacity * sizeof *list->pins + list->room);
    if (!list->pins)
        return -ENOMEM;
    list->names = (char *)(list->pins + list->capacity);
    err = each_listed(list_object, list);
    return !err && list->is_full ? -EAGAIN : err;
}

void mv_pins_drop(struct mv_reply *reply)
{
    struct mv_pin *pins = reply->pins;
    size_t n = reply->n_pins;

    reply->pins = NULL; /* a destructor may call us */
    reply->n_pins = 0;
    for (size_t i = 0; i < n; i++)
        if (pins[i].handle)
            dlclose(pins[i].handle);
    free(pins);
}

static void list_pins(struct mv_reply *reply, const struct list *list)
{
    reply->pins = list->pins;
    reply->n_pins = list->n;
    reply->n_removed = list->n_removed;
}

int mv_pins_take(struct mv_engine *engine, struct mv_reply *reply)
{
    struct list list = {.before_loader = getauxval(AT_BASE) != 0};
    int err;

    reply->pins = NULL;
    reply->n_pins = 0;
    if (is_shrinking)
        return -EAGAIN;
    if (!can_pin() || mv_list_lost() || (&__libc_single_threaded && __libc_single_threaded))
        return 0;
    err = list_all(&list);
    list_pins(reply, &list);
    if (!err)
        err = mv_ops_of(engine)->want_pins(engine, reply);
    if (err) {
        mv_pins_drop(reply);
        return err;
    }
    for (size_t i = 0; i < list.n; i++) {
        struct mv_pin *pin = &list.pins[i];
        struct link_map *map;

        if (!pin->needed)
            continue;
        map = pin->handle = open_object(pin->name, RTLD_LAZY | RTLD_NOLOAD);
        if (map && (map->l_addr != pin->bias || map->l_ld != pin->dynamic)) {
            pin->handle = NULL;
            reply->pins = NULL; /* a destructor may call us */
            dlclose(map); /* it was closed and opened again at another address */
            list_pins(reply, &list);
        }
    }
    return 0;
}

static int forking;

void mv_pins_before_fork(void)
{
    forking = rimf_lock_acquire(&rimf_sys_kernel, &listing) >= 0;
}

void mv_pins_after_fork(int in_child)
{
    if (in_child)
        list_in_child();
    if (!forking)
        return;
    if (in_child)
        listing.word = 0;
    else
        rimf_lock_release(&rimf_sys_kernel, &listing);
}
