/* SPDX-License-Identifier: MIT
 *
 * loader/hook.c: the events of the host loader.
 *
 * Who calls _dl_debug_state, and what is true then:
 *
 *   start-up   RT_ADD, then RT_CONSISTENT: all objects are relocated, no
 *              constructor has run (musl: RT_CONSISTENT alone)
 *   dlopen     RT_ADD, then RT_CONSISTENT: the new objects are mapped; glibc
 *              before 2.41 has not relocated them yet, later ones have
 *   dlclose    RT_DELETE, then RT_CONSISTENT: the objects are gone
 *   failures   any of these, with nothing new (glibc 2.42)
 *   other namespaces (dlmopen, LD_AUDIT modules) raise events of their own, in
 *              which the base namespace looks as before, or, before start-up's
 *              RT_ADD, is empty or consistent
 *
 * So an event is never believed, only taken as "look again": what counts is the
 * state and the link map of the base namespace.  Events come one at a time, under
 * the host loader's lock.
 */
#include "loader.h"

/* A debugger that started the program takes us for the loader: it looks for these
 * two names in the file of PT_INTERP, or in the "executable" when we are run
 * directly, and stops at the function for every event. */
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

/* The host loader took its own name from PT_INTERP, and that is ours: whoever
 * reads the link map would look for its symbols in our file. */
static void fix_name(struct loader *l)
{
    for (struct link_map *map = l->debug->r_map; map; map = map->l_next) {
        if (map->l_addr != l->host.bias || !in_writable(&l->host, map, sizeof *map))
            continue;
        if (!rimf_streq(map->l_name, l->host.path))
            map->l_name = (char *)l->host.path;
        return;
    }
}

static void first_event(struct loader *l)
{
    l->started = 1;
    stage_time(l, STAGE_HOOK);
    if (l->injection.ours && !block_restore(&l->block, &l->injection))
        rimf_log(&l->log, MVLD_LOG_WARNING, "LD_PRELOAD: our entry is not in the environment");
    if (!l->host.musl)
        fix_name(l);
    objects_start(l);
}

void loader_event(struct loader *l)
{
    log_guard(l);
    if (l->debug_musl)
        l->debug = *l->debug_musl;
    if (!l->debug)
        return;
    if (l->debug->r_state == RT_ADD && l->debug->r_map)
        l->seen_add = 1;
    if (l->debug->r_state == RT_CONSISTENT && l->debug->r_map) {
        if (l->started)
            objects_changed(l);
        else if (l->seen_add || l->debug_musl)
            first_event(l);
    }
    _r_debug.r_version = 1;
    _r_debug.r_map = l->debug->r_map;
    _r_debug.r_brk = (uintptr_t)_dl_debug_state;
    _r_debug.r_state = l->debug->r_state;
    _r_debug.r_ldbase = l->debug->r_ldbase;
    if (l->started) /* before, a debugger would look for the host loader in our file */
        _dl_debug_state();
}
