/* SPDX-License-Identifier: MIT
 *
 * loader/place/draw.c: random distances between the objects in the arena.
 *
 * Objects near each other reveal each other's addresses, unless their distances are secret.  So the
 * first object (the host loader) is some way below the arena's end, and each further one above or
 * below all others, some pages from them:
 *
 *     start  …      libm   gap   ld.so   gap   libc      slack      end
 *                   third        first         second
 *
 * Everything follows from one number, `layout_seed`, and from the lengths in the order of mapping,
 * and does not depend on the arena's size, which may differ from start to start.  So the number
 * determines the distances.  A snapshot holds the number of the process that made it, and starts
 * from it need no random numbers.
 *
 * A process that starts from a snapshot uses its distances; all others draw.
 *
 * Gaps cost page tables, one for each 2 MiB in use: hence at most 128 pages.  The slack costs
 * nothing, because nothing is around it.
 *
 * If the kernel does not randomise addresses (setarch -R, gdb), we do not either.
 */
#include "loader/loader.h"

#include "loader/place/place.h"
#include "loader/process/block.h"

#define GAPS 128u /* 0 to 127 pages */

/* The kernel writes the program's path to the stack first, at its very top. */
#define STACK_TOP 0x7ffffffff000ul

int place_is_random(const struct loader *l)
{
    const char *first = l->block->execfn ? (const char *)l->block->execfn->a_un.a_val : NULL;

    return !first || (uintptr_t)first + rimf_strlen(first) + 1 != STACK_TOP - sizeof(uint64_t);
}

int place_random(const struct loader *l, uint64_t *out)
{
    return SYS3(l->sys, SYS_getrandom, out, sizeof *out, 1 /* GRND_NONBLOCK */) ==
           (long)sizeof *out;
}

/* ---- where ------------------------------------------------------------------------------- */

/* Deterministic for each draw; every bit depends on the whole number. */
static uint64_t draw(const struct arena *arena, uint64_t n)
{
    uint64_t x = arena->layout_seed + n * 0x9e3779b97f4a7c15u; /* splitmix64 */

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

void place_loosen(struct arena *arena)
{
    arena->taken = 0;
    if (arena->layout_seed)
        arena->next = arena->end - draw(arena, 0) % (arena->slack / RIMF_PAGE) * RIMF_PAGE;
    else
        arena->next = arena->end;
    arena->above = arena->next;
}

/* The address for the next object, or 0.  At the bottom of the arena it continues at the top, where
 * closed objects have left holes. */
uintptr_t place_take(struct arena *arena, size_t length)
{
    uint64_t random = arena->layout_seed ? draw(arena, ++arena->taken) : 0;
    size_t gap = (random >> 32) % GAPS * RIMF_PAGE;

    length = rimf_page_up(length);
    if (!arena->end || !length || length > arena->end - arena->start)
        return 0;
    if (random & 1 && gap < arena->end - arena->above &&
        length <= arena->end - arena->above - gap) {
        arena->above += gap + length;
        return arena->above - length;
    }
    if (arena->next - arena->start < length)
        arena->next = arena->end;
    if (gap <= arena->next - arena->start - length)
        arena->next -= gap;
    arena->next -= length;
    return arena->next;
}

void place_keep(struct arena *arena, uintptr_t at, size_t length)
{
    if (at < arena->next)
        arena->next = at;
    if (at + length > arena->above)
        arena->above = rimf_page_up(at + length);
}
