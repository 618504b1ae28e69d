/* SPDX-License-Identifier: MIT
 *
 * loader/place/place.c: maps libraries near the executable.
 *
 * A direct call reaches 2 GiB, but the kernel maps a PIE and its libraries further apart.  The
 * executable stays (a debugger has set its breakpoints there).  Libraries are mapped side by side
 * in an arena near it:
 *
 *   PIE        … | arena, 1 GiB |  16 MiB  | executable | heap → …
 *   non-PIE    executable | arena | heap → …      if the gap is large enough
 *              executable | heap → … | arena at about 1.5 GiB
 *   direct     1 GiB that the kernel finds with 64 GiB above it: the host loader maps the
 *              executable itself, into the same arena; the kernel's own choices start as high as
 *              possible, and shall not reach the arena
 *
 * The arena reserves nothing: each object is mapped with MAP_FIXED_NOREPLACE, and if that fails the
 * kernel chooses.  The arena moves with the executable, whose address is random.  At 1.5 GiB, and
 * inside the arena, we draw random addresses.
 */
#include "loader/loader.h"

#include "loader/manager/pipeline.h"
#include "loader/place/place.h"
#include "loader/process/process.h"
#include "rimf/elf/headers.h"
#include "rimf/image/image.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

#define MIB (1ul << 20)
#define ARENA (1024 * MIB)
#define BESIDE_PIE (16 * MIB)     /* between the arena and a PIE */
#define ABOVE_DIRECT (65536 * MIB) /* stacks of 8000 threads; addresses only, and only for a moment */
#define LOW_END (2048 * MIB)      /* absolute addresses of non-PIE code end here */
#define ROOM (512 * MIB)          /* at least; the rest of 1 GiB is randomness */
#define SPACIOUS (256 * MIB)      /* more for libconcat.so.1, which takes 320 MiB; clang's libraries
                                   * take 180 */
#define SLACK (ARENA / 8)         /* bound of the random distance of the first object to the end */
#define SLACK_LOW (ROOM / 8)
#define TRIES 64

_Static_assert(PLACE_NONE_FROM == LOW_END - ROOM && PLACE_NONE_TO == LOW_END + ARENA, "place_near_low");

/* dl-map-segments.h maps an object, and nothing else, with this flag. */
#ifndef MAP_DENYWRITE
#define MAP_DENYWRITE 0x800
#endif

/* ---- distances -------------------------------------------------------------------------- */

/* Objects near each other reveal each other's addresses, unless their distances are secret.  So the
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

/* Deterministic for each draw; every bit depends on the whole number. */
static uint64_t draw_random(const struct arena *arena, uint64_t n)
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
        arena->next = arena->end - draw_random(arena, 0) % (arena->slack / RIMF_PAGE) * RIMF_PAGE;
    else
        arena->next = arena->end;
    arena->above = arena->next;
}

/* The address for the next object, or 0.  At the bottom of the arena it continues at the top, where
 * closed objects have left holes. */
uintptr_t place_take(struct arena *arena, size_t length)
{
    uint64_t random = arena->layout_seed ? draw_random(arena, ++arena->taken) : 0;
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

/* ---- the arena -------------------------------------------------------------------------- */

/* 0: the kernel has no random numbers, and a known address is worse than none.  If it does not
 * randomise addresses either (setarch -R), a known address is wanted. */
static int draw(struct loader *l, size_t pages, uintptr_t *out)
{
    uint64_t random = 0;

    if (place_is_random(l) && !place_random(l, &random))
        return 0;
    *out = random % pages * RIMF_PAGE;
    return 1;
}

/* The alignment of the segments. */
static uint64_t alignment(const Elf64_Phdr *ph, size_t n)
{
    uint64_t most = RIMF_PAGE;

    for (size_t i = 0; i < n; i++)
        if (ph[i].p_type == PT_LOAD && ph[i].p_align > most)
            most = ph[i].p_align;
    return most;
}

/* Half of the kernel's random addresses lead to either case; with more space a quarter and three
 * quarters, with half as many addresses each (SECURITY.md). */
void place_near_low(struct loader *l, int spacious)
{
    struct executable executable = block_executable(l->block);
    uintptr_t end = elf_load_end(executable.ph, executable.n);
    uintptr_t heap = (uintptr_t)SYS3(l->sys, SYS_brk, 0, 0, 0), drawn;
    size_t room = spacious ? ROOM + SPACIOUS : ROOM;

    l->arena->spacious = spacious;
    if (heap > end + room && heap < LOW_END) {
        l->arena->start = end + MIB;
        l->arena->end = rimf_page_down(heap - MIB);
        l->arena->slack = SLACK_LOW;
    } else if (end < 1024 * MIB && heap < 1024 * MIB &&
               draw(l, (1024 * MIB - room) / RIMF_PAGE, &drawn)) {
        l->arena->start = 1024 * MIB;
        l->arena->end = LOW_END - 16 * MIB - drawn;
        l->arena->slack = SLACK_LOW;
    }
}

/* Gives each library the same address modulo 2 MiB in all processes, so that a snapshot's huge
 * pages can be mapped.  Below a PIE the address depends on where the kernel mapped that, otherwise
 * the distance between them would vary. */
static void on_huge_page(struct loader *l)
{
    uintptr_t end = l->arena->end & -(2 * MIB);

    if (l->direct || l->arena->end <= LOW_END) {
        l->arena->end = end;
        l->arena->grain = 2 * MIB;
    } else if (l->arena->end != end) {
        rimf_log(&l->log, MVLD_LOG_FILES,
                 "placement: the executable is not linked for 2 MiB (-z max-page-size=0x200000)");
    }
}

/* The kernel aligns a PIE since Linux 5.10, and a large mapping since 6.7. */
static uintptr_t grain_of(const struct loader *l)
{
    struct executable executable = block_executable(l->block);
    uintptr_t grain = RIMF_PAGE;

    if (l->direct)
        grain = 2 * MIB;
    else if (l->arena->end > LOW_END)
        grain = alignment(executable.ph, executable.n);
    return l->arena->end % grain ? RIMF_PAGE : grain;
}

/* A free range that the kernel, which goes downwards, does not soon reach.  If address space is
 * limited (RLIMIT_AS), there is less space above. */
static void near_direct(struct loader *l)
{
    static const size_t above[] = {ABOVE_DIRECT, BESIDE_PIE};

    for (size_t i = 0; i < sizeof above / sizeof *above && !l->arena->end; i++) {
        long at = sys_mmap(l->sys, 0, ARENA + above[i], PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (sys_failed(at))
            continue;
        sys_munmap(l->sys, (uintptr_t)at, ARENA + above[i]);
        l->arena->start = (uintptr_t)at;
        l->arena->end = (uintptr_t)at + ARENA;
        l->arena->slack = SLACK;
    }
}

/* Sets l->arena, or leaves it empty. */
void place_plan(struct loader *l)
{
    const char *wanted = l->pipeline ? pipeline_setting(l->pipeline, "placement") : "as-is";

    /* `near` costs randomness (SECURITY.md); with raised rights only root may choose it. */
    if (!wanted && l->block->secure)
        wanted = "as-is";
    if (wanted && rimf_streq(wanted, "as-is"))
        return;
    if (l->direct) {
        near_direct(l);
    } else if (l->block->phdr && l->block->phnum) {
        uintptr_t executable = rimf_page_down(l->block->phdr->a_un.a_val);

        if (executable >= LOW_END + ARENA) {
            l->arena->end = executable - BESIDE_PIE;
            l->arena->start = l->arena->end - ARENA;
            l->arena->slack = SLACK;
        } else if (executable < LOW_END) {
            place_near_low(l, (pipeline_flags(l->pipeline) & MVLD_PASS_MOVES) != 0);
        }
    }
    if (l->arena->end)
        l->arena->grain = grain_of(l);
    if (l->arena->end && wanted && rimf_streq(wanted, "huge"))
        on_huge_page(l);
    place_loosen(l->arena);
    if (l->arena->end)
        rimf_log(&l->log, MVLD_LOG_FILES, "placement: near, %lx-%lx",
                 (unsigned long)l->arena->start, (unsigned long)l->arena->end);
    else
        rimf_log(&l->log, MVLD_LOG_WARNING, "placement: as-is: no room near the executable");
}

/* When addresses were planned, passes that were not mapped yet could have been any.  Now they are
 * known, and without one that takes much space there are more addresses to draw from. */
void place_finish(struct loader *l)
{
    if (!l->arena->spacious || pipeline_flags(l->pipeline) & MVLD_PASS_MOVES)
        return;
    *l->arena = (struct arena){0};
    place_plan(l);
}

/* The object has a larger alignment than the arena (which glibc obeys since 2.35). */
static int varies(const struct loader *l, const struct mvld_object *object)
{
    uint64_t aligned = object->phdr ? alignment(object->phdr, object->phnum) : 0;

    return aligned > l->arena->grain && object->bias % aligned == 0;
}

void place_set_unplaced(const struct loader *l)
{
    for (size_t i = 0; i < rimf_api()->object_count(l->image); i++) {
        const struct mvld_object *object = rimf_api()->object_at(l->image, i);

        if (varies(l, object))
            rimf_image_set_unplaced(object);
    }
}

long place_map(struct loader *l, const struct mmap_call *c, uintptr_t first)
{
    for (int i = 0; i < TRIES; i++) {
        uintptr_t wanted = first ? first : place_take(l->arena, c->length);
        long at = wanted ? sys_mmap_at(l->sys, wanted, c->length, (int)c->prot, (int)c->flags, (int)c->fd, c->offset)
                         : -ENOMEM;

        if (at != -EEXIST)
            return at;
        first = 0;
    }
    return -EEXIST;
}

/* Not an object. */
long place_room(void *loader, size_t size)
{
    const struct mmap_call c = {.length = size, .prot = PROT_READ | PROT_WRITE,
                                .flags = MAP_PRIVATE | MAP_ANONYMOUS, .fd = (uintptr_t)-1};

    return place_map(loader, &c, 0);
}
