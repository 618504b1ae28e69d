/* SPDX-License-Identifier: MIT
 *
 * places.c: addresses of moved code (the pass concat).
 *
 * A site or an entry, and its callee, are known by their original addresses.  If code has moved,
 * the copy runs, and the original too unless it begins with a jump to the copy (moved_find tells).
 * A change is made at both places, in one batch:
 *
 *     original                     moved
 *     f:   endbr64                 f':  endbr64
 *          jmp f'+4  (not ours)         nopl → jmp variant'
 *     g:   …                       g':  …
 *          call f → call variant'       call f' → call variant'
 *
 * So an entry or a site has one or two words.  Both are bound to the moved code of the wanted
 * variant, if any.
 */
#include "passes/multiverse/engine/engine.h"

uintptr_t mv_original(const struct mv_engine *engine, uintptr_t address)
{
    uintptr_t original = engine->api->original_of(engine->image, address);

    return original ? original : address;
}

static int find_moved(const struct mv_engine *engine, uintptr_t original, size_t length, uintptr_t *moved)
{
    *moved = 0;
    return engine->api->moved_find(engine->image, original, length, moved);
}

uintptr_t mv_running(const struct mv_engine *engine, const struct mv_point *point)
{
    uintptr_t moved = 0;

    if (point->wanted && (engine->some_moved || point->is_inline))
        find_moved(engine, point->wanted, 1, &moved);
    return moved ? moved : point->wanted;
}

uintptr_t mv_readable(const struct mv_engine *engine, uintptr_t original, size_t length)
{
    uintptr_t moved;

    return find_moved(engine, original, length, &moved) ? original : moved;
}

int mv_places(const struct mv_engine *engine, uintptr_t original, uintptr_t *moved)
{
    return find_moved(engine, original, MV_SITE_MIN, moved);
}
