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
 * Slots are numbered by thunk.  Those of entry.S serve the first INIT_CHUNK objects that wait at one time;
 * if more wait, pages of thunks are made.
 */
#include "loader/loader.h"

#include "loader/start/start.h"

#include <errno.h>    /* numbers only */
#include <fcntl.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

struct init_slot {
    struct link_map *map; /* NULL: free */
    Elf64_Dyn **info;     /* its l_info; NULL if not verified, then nothing was changed */
    Elf64_Dyn ours;
    Elf64_Dyn *own; /* the original l_info[DT_INIT] */
};

struct init_chunk {
    struct init_chunk *next;
    size_t first; /* number of slots[0] */
    uintptr_t thunks;
    size_t thunk_size;
    struct init_slot slots[INIT_CHUNK];
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
    uintptr_t *words = (uintptr_t *)map;
    size_t first = sizeof *map / sizeof *words;

    if (init->info)
        return is_info((Elf64_Dyn **)(words + init->info), map->l_ld)
                   ? (Elf64_Dyn **)(words + init->info)
                   : NULL;
    for (size_t at = first; at < first + 16; at++) {
        if (is_info((Elf64_Dyn **)(words + at), map->l_ld)) {
            init->info = at;
            return (Elf64_Dyn **)(words + at);
        }
    }
    return NULL;
}

/* ---- slots ------------------------------------------------------------------------- */

/* 32 bytes for each thunk:
 *     f3 0f 1e fa             endbr64
 *     b8 <i>                  movl $i, %eax
 *     49 bb <common>          movabsq $loader_init_common, %r11
 *     41 ff e3                jmp *%r11 */
static void make_thunk(uint8_t *to, uint32_t slot)
{
    static const uint8_t code[] = {0xf3, 0x0f, 0x1e, 0xfa, 0xb8, 0,    0, 0, 0, 0x49, 0xbb,
                                   0,    0,    0,    0,    0,    0,    0, 0, 0x41, 0xff, 0xe3};
    uintptr_t common = (uintptr_t)loader_init_common;

    memcpy(to, code, sizeof code);
    memcpy(to + 5, &slot, sizeof slot);
    memcpy(to + 11, &common, sizeof common);
}

#define MADE_THUNK_SIZE 32

static uintptr_t make_thunks(struct loader *l, size_t first)
{
    size_t size = rimf_page_up(INIT_CHUNK * MADE_THUNK_SIZE);
    long at = sys_mmap(l->sys, 0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (sys_failed(at))
        return 0;
    for (size_t i = 0; i < INIT_CHUNK; i++)
        make_thunk((uint8_t *)at + i * MADE_THUNK_SIZE, (uint32_t)(first + i));
    if (sys_mprotect(l->sys, (uintptr_t)at, size, PROT_READ | PROT_EXEC)) {
        sys_munmap(l->sys, (uintptr_t)at, size);
        return 0;
    }
    return (uintptr_t)at;
}

static struct init_chunk *add_chunk(struct loader *l)
{
    struct init_chunk *chunk = rimf_heap_alloc(&l->heap, sizeof *chunk), **end;

    if (!chunk)
        return NULL;
    for (end = &l->init->chunks; *end; end = &(*end)->next)
        chunk->first += INIT_CHUNK;
    chunk->thunks = chunk->first ? make_thunks(l, chunk->first) : (uintptr_t)loader_init_thunks;
    chunk->thunk_size = chunk->first ? MADE_THUNK_SIZE : INIT_THUNK_SIZE;
    if (!chunk->thunks) {
        rimf_heap_release(&l->heap, chunk);
        return NULL;
    }
    *end = chunk;
    return chunk;
}

/* A free slot with its thunk's address set. */
static struct init_slot *free_slot(struct loader *l)
{
    struct init_chunk *chunk = l->init->chunks;

    for (;; chunk = chunk->next) {
        if (!chunk)
            chunk = add_chunk(l);
        if (!chunk)
            return NULL;
        for (size_t i = 0; i < INIT_CHUNK; i++) {
            if (chunk->slots[i].map)
                continue;
            chunk->slots[i].ours.d_tag = DT_INIT;
            chunk->slots[i].ours.d_un.d_ptr = chunk->thunks + i * chunk->thunk_size;
            return &chunk->slots[i];
        }
    }
}

static struct init_slot *slot_of(const struct loader *l, const struct link_map *map)
{
    for (struct init_chunk *chunk = l->init->chunks; chunk; chunk = chunk->next)
        for (size_t i = 0; l->init->pending && i < INIT_CHUNK; i++)
            if (chunk->slots[i].map == map)
                return &chunk->slots[i];
    return NULL;
}

int init_is_pending(const struct loader *l, const struct link_map *map)
{
    return l->init->pending && slot_of(l, map) != NULL;
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
    for (struct init_chunk *chunk = l->init->chunks; chunk && l->init->pending; chunk = chunk->next)
        for (size_t i = 0; i < INIT_CHUNK; i++)
            if (chunk->slots[i].map && !chunk->slots[i].info) {
                chunk->slots[i].map = NULL;
                l->init->pending--;
            }
}

/* ---- the thunk ------------------------------------------------------------------------ */

static void release_all(struct loader *l)
{
    l->init->unentered = 1;
    for (struct init_chunk *chunk = l->init->chunks; chunk; chunk = chunk->next) {
        for (size_t i = 0; i < INIT_CHUNK; i++) {
            struct init_slot *slot = &chunk->slots[i];

            if (!slot->map)
                continue;
            if (slot->info)
                slot->info[DT_INIT] = slot->own;
            else
                l->init->unentered = 0; /* its constructors may have run */
            slot->map = NULL;
        }
    }
    l->init->pending = 0;
}

/* Called instead of the DT_INIT of the object in slot `index`; returns the function to run next. */
uintptr_t loader_init(struct loader *l, size_t index)
{
    struct init_chunk *chunk = l->init->chunks;
    struct init_slot *slot;
    uintptr_t own;

    for (; index >= INIT_CHUNK; index -= INIT_CHUNK)
        chunk = chunk->next;
    slot = &chunk->slots[index];
    own = slot->own ? slot->map->l_addr + slot->own->d_un.d_ptr : (uintptr_t)loader_no_init;
    release_all(l);
    objects_relocated(l);
    return own;
}
