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
 *     list objects      loader's list lock, a leaf; `listing` around it, so that no fork
 *                       happens while we hold it
 *     dlopen            the loader's lock, no other
 *     the operation     the engine's lock; pins are read, not changed;
 *                       -EAGAIN if an object came in between: repeat
 *     dlclose           no lock; may run destructors of objects that the program closed
 *
 * Objects that are listed before the host loader came with the program and are never closed.  A
 * process with one thread needs no pins.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "passes/multiverse/library/library.h"

/* Static programs have none of these, and nothing that could be closed.  dlopen is looked up with
 * dlsym, because linkers warn of a reference to it in static programs. */
extern __typeof__(dlsym) dlsym __attribute__((weak));
extern __typeof__(dlclose) dlclose __attribute__((weak));
extern char __libc_single_threaded __attribute__((weak)); /* glibc 2.32 */

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
    size_t n, capacity;
    unsigned long long n_removed;
    int failed, before_loader;
};

static int list_object(struct dl_phdr_info *info, size_t size, void *cookie)
{
    struct list *list = cookie;
    struct mv_pin *pin;

    if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs)
        list->n_removed = info->dlpi_subs;
    if (list->n == list->capacity) {
        size_t more = list->capacity ? 2 * list->capacity : 32;
        struct mv_pin *longer = realloc(list->pins, more * sizeof *longer);

        if (!longer)
            return list->failed = 1;
        list->pins = longer;
        list->capacity = more;
    }
    pin = &list->pins[list->n];
    *pin = (struct mv_pin){.bias = info->dlpi_addr, .dynamic = mv_library_dynamic(info),
                           .name = strdup(info->dlpi_name ? info->dlpi_name : "")};
    if (!pin->name)
        return list->failed = 1;
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

void mv_pins_drop(struct mv_reply *reply)
{
    struct mv_pin *pins = reply->pins;
    size_t n = reply->n_pins;

    reply->pins = NULL; /* a destructor may call us */
    reply->n_pins = 0;
    for (size_t i = 0; i < n; i++) {
        if (pins[i].handle)
            dlclose(pins[i].handle);
        free(pins[i].name);
    }
    free(pins);
}

int mv_pins_take(struct mv_engine *engine, struct mv_reply *reply)
{
    struct list list = {.before_loader = getauxval(AT_BASE) != 0};
    int err;

    reply->pins = NULL;
    reply->n_pins = 0;
    if (!can_pin() || mv_list_lost() || (&__libc_single_threaded && __libc_single_threaded))
        return 0;
    err = rimf_lock_acquire(&rimf_sys_kernel, &listing);
    if (err < 0)
        return err;
    dl_iterate_phdr(list_object, &list);
    rimf_lock_release(&rimf_sys_kernel, &listing);
    reply->pins = list.pins;
    reply->n_pins = list.n;
    reply->n_removed = list.n_removed;
    err = list.failed ? -ENOMEM : mv_ops_of(engine)->want_pins(engine, reply);
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
            dlclose(pin->handle); /* it was closed and opened again at another address */
            pin->handle = NULL;
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
        mv_list_in_child();
    if (!forking)
        return;
    if (in_child)
        listing.word = 0;
    else
        rimf_lock_release(&rimf_sys_kernel, &listing);
}
