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
#include "loader/process/block.h"
#include "loader/start/start.h"
#include "loader/store/store.h"
#include "rimf/image/image.h"

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

void loader_event(struct loader *l)
{
    if (l->debug_musl)
        l->debug = *l->debug_musl;
    if (!l->debug)
        return;
    if (l->debug->r_state == RT_CONSISTENT && l->debug->r_map) {
        relocatestage_compare(l);
        if (l->started)
            objects_changed(l);
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
