/* SPDX-License-Identifier: MIT
 *
 * loader/start/init.c: gets control between relocation and the first constructor of a dlopen.
 *
 * At RT_CONSISTENT new objects are mapped.  glibc before 2.41 has not relocated them yet, and later ones
 * raise the same event for a dlopen that fails half-way.  Nothing is called between relocation and
 * constructors.  So at that event each new object gets a DT_INIT of ours.  glibc reads DT_INIT through
 * link_map.l_info[], an array of pointers into the object's dynamic section:
 *
 *     link map   l_addr … l_info[0] … l_info[DT_INIT] … l_info[DT_INIT_ARRAY] …
 *                                          │    ╲ before: NULL, or the object's
 *                                          ▼
 *     slot       { DT_INIT, thunk - l_addr }
 *
 * One pointer changes, in the host loader's own memory, and the object's pages do not.  Objects without
 * initialisation get a DT_INIT temporarily, so we are called in every dlopen.  The first thunk that runs
 * belongs to the object that the host loader initialises first: it removes all thunks of the batch, tells
 * the passes about the whole batch, and continues with that object's own DT_INIT.
 *
 * The address of l_info is not public.  It is searched, and verified for each object: its entries must
 * point to the object's own dynamic entries of that tag.  An object for which this fails gets no thunk, and
 * the passes are told at the next event.
 *
 * Slots are numbered by thunk (entry.S).  Of more objects that wait at one time than there are slots, the others
 * are told with these, and then their constructors may have run.
 */
#include "loader/loader.h"

#include "loader/start/start.h"

#include <errno.h> /* numbers only */

struct init_slot {
    struct link_map *map; /* NULL: free */
    Elf64_Dyn **info;     /* its l_info; NULL if not verified, then nothing was changed */
    Elf64_Dyn ours;
    Elf64_Dyn *own; /* the original l_info[DT_INIT] */
};

/* ---- l_info ---------------------------------------------------------------------- */

/* Tags whose entry glibc does not change; every object has the first two. */
static const int64_t proof[] = {DT_STRTAB, DT_SYMTAB, DT_STRSZ,      DT_INIT,
                                DT_FINI,   DT_SONAME, DT_INIT_ARRAY, DT_INIT_ARRAYSZ};

static int is_info(Elf64_Dyn **info, Elf64_Dyn *dynamic)
{
    for (size_t i = 0; i < RIMF_COUNT(proof); i++) {
        Elf64_Dyn *entry = NULL;

        for (Elf64_Dyn *d = dynamic; d->d_tag != DT_NULL; d++)
            if (d->d_tag == proof[i])
                entry = d;
        if (info[proof[i]] != entry || (i < 2 && !entry))
            return 0;
    }
    return 1;
}

/* Returns NULL if it cannot be verified. */
static Elf64_Dyn **find_info(struct init_hook *init, struct link_map *map)
{
    Elf64_Dyn **words = (void *)map;
    size_t at = init->info ? init->info : sizeof *map / sizeof *words;
    size_t end = init->info ? at + 1 : at + 16;

    while (at < end && !is_info(words + at, map->l_ld))
        at++;
    if (at == end)
        return NULL;
    init->info = at;
    return words + at;
}

/* ---- slots ------------------------------------------------------------------------- */

/* A free slot with its thunk's address set. */
static struct init_slot *free_slot(struct loader *l)
{
    struct init_hook *init = l->init;
    size_t i = 0;

    if (!init->slots)
        init->slots = rimf_heap_alloc(&l->heap, INIT_SLOTS * sizeof *init->slots);
    while (init->slots && i < init->n && init->slots[i].map)
        i++;
    if (!init->slots || i == INIT_SLOTS)
        return NULL;
    init->n = i == init->n ? i + 1 : init->n;
    init->slots[i].ours.d_tag = DT_INIT;
    init->slots[i].ours.d_un.d_ptr = (uintptr_t)loader_init_thunks + i * INIT_THUNK_SIZE;
    return &init->slots[i];
}

static struct init_slot *slot_of(const struct loader *l, const struct link_map *map)
{
    for (size_t i = 0; l->init->pending && i < l->init->n; i++)
        if (l->init->slots[i].map == map)
            return &l->init->slots[i];
    return NULL;
}

int init_is_pending(const struct loader *l, const struct link_map *map)
{
    return slot_of(l, map) != NULL;
}

/* Link maps are writable in every glibc so far.  If one is not, this returns an error and does not crash:
 * the kernel writes there first, as the "old mask" of a system call that every sandbox allows.  Nobody else
 * reads the word now. */
static int store(const struct rimf_sys *sys, Elf64_Dyn **at, Elf64_Dyn *value)
{
    if (SYS6(sys, SYS_rt_sigprocmask, 0 /* SIG_BLOCK */, NULL, at, sizeof *at, 0, 0))
        return -EFAULT;
    *at = value;
    return 0;
}

/* Arranges a call when the mapped object is relocated, before its constructors.  -ENOTSUP: not possible,
 * but it still waits for another object's call or the next event. */
int init_catch(struct loader *l, struct link_map *map)
{
    struct init_slot *slot = free_slot(l);

    l->init->missed |= !slot;
    if (!slot)
        return -ENOMEM;
    slot->map = map;
    slot->info = find_info(l->init, map);
    l->init->pending++;
    if (!slot->info)
        return -ENOTSUP;
    slot->own = slot->info[DT_INIT];
    slot->ours.d_un.d_ptr -= map->l_addr;
    if (store(l->sys, &slot->info[DT_INIT], &slot->ours)) {
        slot->info = NULL;
        return -ENOTSUP;
    }
    return 0;
}

/* The object was closed before it was initialised; its link map is freed, too. */
void init_forget(struct loader *l, struct link_map *map)
{
    struct init_slot *slot = slot_of(l, map);

    if (slot) {
        slot->map = NULL;
        l->init->pending--;
    }
}

/* An earlier dlopen is over: its objects without a thunk no longer wait. */
void init_finish(struct loader *l)
{
    l->init->missed = 0;
    for (size_t i = 0; l->init->pending && i < l->init->n; i++)
        if (l->init->slots[i].map && !l->init->slots[i].info) {
            l->init->slots[i].map = NULL;
            l->init->pending--;
        }
}

/* ---- the thunk ------------------------------------------------------------------------ */

static void release_all(struct loader *l)
{
    l->init->unentered = !l->init->missed;
    for (size_t i = 0; i < l->init->n; i++) {
        struct init_slot *slot = &l->init->slots[i];

        if (!slot->map)
            continue;
        if (slot->info)
            slot->info[DT_INIT] = slot->own;
        else
            l->init->unentered = 0; /* its constructors may have run */
        slot->map = NULL;
    }
    l->init->pending = 0;
    l->init->missed = 0;
}

/* Called instead of the DT_INIT of the object in slot `index`; returns the function to run next. */
uintptr_t loader_init(struct loader *l, size_t index)
{
    const struct init_slot *slot = &l->init->slots[index];
    uintptr_t own = slot->own ? slot->map->l_addr + slot->own->d_un.d_ptr : (uintptr_t)loader_no_init;

    release_all(l);
    objects_relocated(l);
    return own;
}
