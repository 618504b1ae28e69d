/* SPDX-License-Identifier: MIT
 *
 * loader/place/draw.c: distances between the objects in the arena, which are drawn.
 *
 * Near means that one leaked address tells the others, unless their distances are a secret.
 * So the first object (the host loader) lies some way below the arena's end, and each that
 * follows above or below all that are there, some pages from them:
 *
 *     start  …      libm   gap   ld.so   gap   libc      slack      end
 *                   third        first         second
 *
 * All of it follows from one number, `drawn`, and from the lengths in the order of mapping, and
 * nothing from how large the arena is, which may differ from start to start: so who has the number
 * comes to the same distances.  A frozen image holds those of the process that made it, so it
 * tells the number, and starts from it ask nobody.
 *
 * Only who may make an image draws, and who starts from one has its distances.  All others pack: their objects
 * lie side by side in the order of mapping, below the arena's end, because ready code (rimf/store/ready.h)
 * fits where distances are the same for all.  It is written beside an image, and so of each object it is
 * known how much `closer` to the end it would lie if nothing were drawn.
 *
 * Gaps cost page tables, one each 2 MiB that something lies in: hence no more than 128 pages.  The slack
 * costs nothing, there is nothing around it.
 *
 * Where the kernel draws no addresses (setarch -R, gdb), we draw none either.
 */
#include "loader/store/frozen_place.h"

#include "loader/manager/pipeline.h"

#define GAPS 128u /* 0 to 127 pages */

/* The path of the program is what the kernel puts on the stack first, at its very top. */
#define STACK_TOP 0x7ffffffff000ul

int place_is_random(const struct loader *l)
{
    const char *first = l->block.execfn ? (const char *)l->block.execfn->a_un.a_val : NULL;

    return !first || (uintptr_t)first + rimf_strlen(first) + 1 != STACK_TOP - sizeof(uint64_t);
}

int place_random(const struct loader *l, uint64_t *out)
{
    return SYS3(l->sys, SYS_getrandom, out, sizeof *out, 1 /* GRND_NONBLOCK */) ==
           (long)sizeof *out;
}

/* ---- which number ---------------------------------------------------------------------- */

/* The image of root's that stands before the one that this process is to write. */
static int is_roots(struct loader *l, uint64_t *drawn)
{
    size_t n = l->program ? pipeline_freezable(l->pipeline) : 0;
    struct frozen_place *place = n && caches_own(l) ? rimf_heap_alloc(&l->heap, sizeof *place) : NULL;
    struct frozen_file file;
    const char *why;
    int found;

    if (!place)
        return 0;
    frozen_system_place(l, place, frozen_fingerprint(l, n));
    found = !frozen_map(&file, l->sys, place->folder, 0, &why);
    if (found) {
        *drawn = file.view.header->layout_seed;
        frozen_unmap(&file, l->sys);
    }
    rimf_heap_release(&l->heap, place);
    return found;
}

/* A start tries root's image and then the user's, when all lies already where root's wants it.  So a
 * user's is made with the number of root's where there is one; and of one that is older it is said
 * (frozen.c, `mvld doctor') that it does not fit.  With what another mvld left, nothing else is to fit. */
static int is_images(struct loader *l, uint64_t *drawn)
{
    const struct found_image *found = &l->frozen;

    if (!found->folder)
        return l->knobs.freeze == FREEZE_START && is_roots(l, drawn);
    *drawn = found->file.view.header->layout_seed;
    return found->file.view.header->pipeline == frozen_made_by(found->pipeline) ||
           (!found->is_users && caches_own(l));
}

/* As in frozen.c: under a filter of system calls none is written, unless it is asked for; nor where somebody
 * watches calls, nor a first one with what is preloaded. */
static int may_make(const struct loader *l)
{
    const char *miss = pipeline_setting(l->pipeline, "on-miss");

    return pipeline_freezable(l->pipeline) && !l->block.secure && !l->filtered.on &&
           !l->knobs.watcher && !l->frozen.unasked && l->knobs.freeze != FREEZE_READY &&
           (l->knobs.freeze || rimf_streq(miss, "build") || rimf_streq(miss, "learn"));
}

/* Once it is known with which image this process starts, and before anything is mapped. */
void place_draw(struct loader *l)
{
    const char *from = "the image's";

    if (!l->arena.end)
        return;
    if (!is_images(l, &l->arena.layout_seed)) {
        from = "drawn for an image";
        l->arena.layout_seed = 0;
        if (may_make(l) && place_is_random(l))
            place_random(l, &l->arena.layout_seed);
    }
    if (!l->arena.layout_seed)
        from = "none but their lengths";
    else
        place_loosen(&l->arena);
    rimf_log(&l->log, MVLD_LOG_FILES, "placement: distances: %s", from);
}

/* ---- where ------------------------------------------------------------------------------- */

/* The same for each draw, and all bits of it depend on all of the number. */
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
    arena->layout_shift = 0;
    arena->packed = arena->end;
    if (arena->layout_seed)
        arena->next = arena->end - draw(arena, 0) % (arena->slack / RIMF_PAGE) * RIMF_PAGE;
    else
        arena->next = arena->end;
    arena->above = arena->next;
}

/* The place for the next object, or 0.  At the bottom it starts again at the top: objects that
 * were closed have left holes there. */
uintptr_t place_take(struct arena *arena, size_t length)
{
    uint64_t drawn = arena->layout_seed ? draw(arena, ++arena->taken) : 0;
    size_t gap = (drawn >> 32) % GAPS * RIMF_PAGE;

    length = rimf_page_up(length);
    if (!arena->end || !length || length > arena->end - arena->start)
        return 0;
    if (drawn & 1 && gap < arena->end - arena->above &&
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

void place_taken(struct arena *arena, uintptr_t at, size_t length)
{
    arena->packed -= rimf_page_up(length);
    arena->layout_shift = arena->layout_seed ? arena->packed - at : 0;
}

void place_keep(struct arena *arena, uintptr_t at, size_t length)
{
    if (at < arena->next)
        arena->next = at;
    if (at + length > arena->above)
        arena->above = rimf_page_up(at + length);
}
