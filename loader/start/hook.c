/* SPDX-License-Identifier: MIT
 *
 * loader/start/hook.c: the events of the host loader.
 *
 * Callers of _dl_debug_state, and what is true then:
 *
 *   start-up   RT_ADD, then RT_CONSISTENT: all objects are relocated, no
 *              constructor has run (musl: RT_CONSISTENT alone)
 *   dlopen     RT_ADD, then RT_CONSISTENT: the new objects are mapped; glibc
 *              before 2.41 has not relocated them yet, later ones have
 *              (musl has, and a dlopen that failed shows nothing new)
 *   dlclose    RT_DELETE, then RT_CONSISTENT: the objects are gone (musl keeps all)
 *   a dlopen that fails raises RT_CONSISTENT with the new objects (since 2.41 half
 *              relocated), then those of a dlclose
 *   other namespaces (dlmopen, LD_AUDIT modules) raise events of their own, in
 *              which the base namespace looks as before, or not yet begun
 *
 * So an event only means "look again": the state and the link map of the base namespace decide.  Events
 * come one at a time, under the host loader's lock.
 */
#include "loader/loader.h"

#include "loader/host/host.h"
#include "loader/process/process.h"
#include "loader/start/start.h"
#include "loader/store/store.h"
#include "rimf/image/image.h"

#include <errno.h> /* numbers only */

/* A debugger that started the program takes us for the loader: it looks for these two names in the file of
 * PT_INTERP, or in the "executable" if we are run directly, and stops at the function for every event. */
__attribute__((visibility("default"), noinline)) void _dl_debug_state(void);
__attribute__((visibility("default"))) struct r_debug _r_debug;

void _dl_debug_state(void)
{
    __asm__ volatile("" ::: "memory");
}

static int in_writable(const struct host *host, const void *p, size_t size)
{
    uintptr_t at = (uintptr_t)p;

    return at >= host->writable && at + size <= host->writable_end &&
           (at + size <= host->relro || at >= rimf_page_up(host->relro_end));
}

/* The host loader took its own name from PT_INTERP, which is ours: a reader of the link map would look for
 * its symbols in our file. */
static void fix_name(struct loader *l)
{
    for (struct link_map *map = l->debug->r_map; map; map = map->l_next) {
        if (map->l_addr != l->host->bias || !in_writable(l->host, map, sizeof *map))
            continue;
        if (!rimf_streq(map->l_name, l->host->path))
            map->l_name = (char *)l->host->path;
        return;
    }
}

/* Whether the host loader has relocated the object: 1, 0, or -1 if it cannot be determined.  A RELATIVE
 * relocation leaves l_addr + addend.  The host loader trusts these tables, too, a moment later. */
static int is_relocated(const struct loader *l, const struct link_map *map)
{
    uintptr_t bias = map->l_addr, rela = 0, relr = 0, at;
    size_t rela_size = 0, relr_size = 0;

    for (const Elf64_Dyn *d = map->l_ld; d->d_tag != DT_NULL; d++) {
        switch (d->d_tag) {
        case DT_RELA: rela = d->d_un.d_ptr; break;
        case DT_RELASZ: rela_size = d->d_un.d_val; break;
        case DT_RELR: relr = d->d_un.d_ptr; break;
        case DT_RELRSZ: relr_size = d->d_un.d_val; break;
        default: break;
        }
    }
    if (!bias)
        return -1;
    if (rela && rela_size >= sizeof(Elf64_Rela)) {
        /* glibc has added l_addr in place, if the section is writable, musl has not; a snapshot's tables may be
         * anywhere. */
        const struct manifest_relocations *tables = manifest_tables_of(&l->snapshot->file, bias);
        int is_moved = tables && rela - manifest_tables_at(&l->snapshot->file, tables) < tables->size;
        int is_linked = rela < bias && !is_moved;
        const Elf64_Rela *r = (const void *)(is_linked ? rela + bias : rela);

        if (ELF64_R_TYPE(r->r_info) == R_X86_64_RELATIVE)
            return *(const uintptr_t *)(bias + r->r_offset) == bias + (uintptr_t)r->r_addend;
    }
    if (relr && relr_size >= 8) {
        at = *(const uintptr_t *)(relr < bias ? relr + bias : relr);
        if (!(at & 1)) /* the first word is an address; its content is an addend */
            return *(const uintptr_t *)(bias + at) >= bias;
    }
    return -1;
}

/* Start-up is complete when all objects are relocated.  An LD_AUDIT module raises events earlier, in which
 * the base namespace looks consistent and contains only the executable, the vDSO and the host loader. */
static int is_complete(const struct loader *l)
{
    const struct link_map *main = l->debug->r_map;
    size_t others = 0;

    for (const struct link_map *map = main; map; map = map->l_next) {
        if (map->l_addr == l->host->bias || (l->vdso_bias && map->l_addr == l->vdso_bias))
            continue;
        if (!is_relocated(l, map))
            return 0;
        others += map != main;
    }
    for (const Elf64_Dyn *d = main->l_ld; !others && d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_NEEDED)
            return 0;
    return 1;
}

static void first_event(struct loader *l)
{
    l->started = 1;
    stage_time(l, STAGE_HOOK);
    if (l->injection->ours && !block_restore(l->block, l->injection))
        rimf_log(&l->log, MVLD_LOG_WARNING, "LD_PRELOAD: our entry is not in the environment");
    fix_name(l);
    objects_start(l);
    store_forget(l);
    store_or_exit(l);
    rimf_heap_set_alone(&l->heap, 0); /* constructors start threads */
    if (l->image)
        rimf_image_set_alone(l->image, 0);
}

/* The host loader's lock serialises these events.  So an event that finds another one unfinished is in a child, which a
 * thread forked during another thread's dlopen.  Nobody finishes that event there.  The child's new objects stay as they
 * are. */
static void unless_within(struct loader *l, void (*handle)(struct loader *))
{
    if (l->within)
        return;
    l->within = 1;
    handle(l);
    l->within = 0;
}

void loader_event(struct loader *l)
{
    if (l->debug_musl)
        l->debug = *l->debug_musl;
    if (!l->debug)
        return;
    if (l->debug->r_state == RT_CONSISTENT && l->debug->r_map) {
        if (l->relocatestage->wanted)
            relocatestage_compare(l);
        if (l->started)
            unless_within(l, objects_changed);
        else if (l->debug_musl || is_complete(l)) /* musl raises no earlier event */
            first_event(l);
    }
    _r_debug.r_version = 1;
    _r_debug.r_map = l->debug->r_map;
    _r_debug.r_brk = (uintptr_t)_dl_debug_state;
    _r_debug.r_state = l->debug->r_state;
    _r_debug.r_ldbase = l->debug->r_ldbase;
    if (l->started) /* earlier, a debugger would look for the host loader in our file */
        _dl_debug_state();
}

/* ---- between relocation and the first constructor of a dlopen -------------------------------- */

/* At RT_CONSISTENT new objects are mapped.  glibc before 2.41 has not relocated them yet, and later ones
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

struct init_slot {
    struct link_map *map; /* NULL: free */
    Elf64_Dyn **info;     /* its l_info; NULL if not verified, then nothing was changed */
    Elf64_Dyn ours;
    Elf64_Dyn *own; /* the original l_info[DT_INIT] */
};

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

int init_is_pending(const struct loader *l, const struct link_map *map)
{
    for (size_t i = 0; l->init->pending && i < l->init->n; i++)
        if (l->init->slots[i].map == map)
            return 1;
    return 0;
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

static int is_listed(const struct loader *l, const struct link_map *wanted)
{
    for (const struct link_map *map = l->debug->r_map; map; map = map->l_next)
        if (map == wanted)
            return 1;
    return 0;
}

/* An earlier dlopen is over: its objects without a thunk no longer wait.  Nor do those that were closed before
 * they were initialised: their link maps are freed, too. */
void init_finish(struct loader *l)
{
    l->init->missed = 0;
    for (size_t i = 0; l->init->pending && i < l->init->n; i++) {
        struct init_slot *slot = &l->init->slots[i];

        if (slot->map && (!slot->info || !is_listed(l, slot->map))) {
            slot->map = NULL;
            l->init->pending--;
        }
    }
}

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
    unless_within(l, objects_relocated);
    return own;
}
