/* SPDX-License-Identifier: MIT
 *
 * places.c: where code runs that was copied (the pass concat).
 *
 * A site or an entry is known by its address at home, and so is whom it calls.  Where code
 * was copied, it runs in the copy, and at home too unless a jump to the copy stands in its
 * place; the image tells (moved_find).  What is changed is changed at both places, in one
 * batch:
 *
 *     home                         copy
 *     f:   endbr64                 f':  endbr64
 *          jmp f'+4  (not ours)         nopl → jmp variant'
 *     g:   …                       g':  …
 *          call f → call variant'       call f' → call variant'
 *
 * So a point has one or two words for its entry, a site one or two words, and both lead to
 * the copy of what is wanted, if there is one.
 */
#include "passes/multiverse/engine/engine.h"

uintptr_t mv_home(const struct mv_engine *engine, uintptr_t address)
{
    uintptr_t home = engine->api->original_of(engine->image, address);

    return home ? home : address;
}

static int find(const struct mv_engine *engine, uintptr_t home, size_t length, uintptr_t *copy)
{
    *copy = 0;
    return engine->api->moved_find(engine->image, home, length, copy);
}

uintptr_t mv_running(const struct mv_engine *engine, const struct mv_point *point)
{
    uintptr_t copy = 0;

    if (point->wanted && (engine->some_copied || point->is_inline))
        find(engine, point->wanted, 1, &copy);
    return copy ? copy : point->wanted;
}

uintptr_t mv_readable(const struct mv_engine *engine, uintptr_t home, size_t length)
{
    uintptr_t copy;

    return find(engine, home, length, &copy) ? home : copy;
}

int mv_places(const struct mv_engine *engine, uintptr_t home, uintptr_t *copy)
{
    return find(engine, home, MV_SITE_MIN, copy);
}
