/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/fragments.c: where code of an object may be cut, and the fragment of an address (moved/moved.h).
 *
 * The analysis tells which units move together (ANALYSIS_JOINED); between others control does not fall
 * through and no branch of one byte crosses, so there the object may be cut.  The bytes between two fragments
 * are padding, or stay.
 *
 * An object lists its fragments as indices in the list of all moved fragments, in the order of the region.
 * They are sorted once they are known (moved/batch.c), before the first look-up.  A manifest has them
 * sorted.
 */
#include "rimf/moved/moved.h"

#include "rimf/base/base.h"
#include "rimf/image/private.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

#define FRAGMENTS_AT_FIRST 4u

/* ---- an object's list ---------------------------------------------------------------- */

int moved_note(struct mvld_image *image, struct rimf_object *object, size_t index)
{
    if (!RIMF_ONE_MORE(&image->heap, object->fragments, object->n_fragments, object->fragments_room,
                       FRAGMENTS_AT_FIRST))
        return -ENOMEM;
    if (!object->n_fragments)
        object->moved = index + 1;
    object->fragments[object->n_fragments++] = (struct moved_place){image->moved->list[index].original, index};
    return 0;
}

void moved_drop(struct mvld_image *image, struct rimf_object *object)
{
    rimf_heap_release(&image->heap, object->fragments);
    rimf_heap_release(&image->heap, object->held);
    object->fragments = NULL;
    object->held = NULL;
    object->moved = object->n_fragments = object->fragments_room = 0;
}

int moved_is_first(const struct moved_code *moved, size_t index)
{
    const struct moved_fragment *fragment = &moved->list[index];

    return fragment->size && fragment->object->moved == index + 1;
}

/* In a list, which may be older than the present one. */
static const struct moved_fragment *find_fragment(const struct moved_fragment *list, const struct rimf_object *object,
                                                  uintptr_t original)
{
    const struct moved_place *places = object->fragments;
    size_t begun = RIMF_BISECT(i, object->n_fragments, places[i].original <= original);
    const struct moved_fragment *last = begun ? &list[places[begun - 1].index] : NULL;

    return last && original - last->original < last->code ? last : NULL;
}

const struct moved_fragment *moved_fragment_at(const struct moved_code *moved, const struct rimf_object *object,
                                     uintptr_t original)
{
    return find_fragment(moved->list, object, original);
}

/* A fragment that is being made does not count yet.  Those of an older object do not change, and are already
 * sorted. */
const struct moved_fragment *moved_fragment_made(const struct moved_code *moved,
                                          const struct mvld_object *public, uintptr_t original,
                                          size_t length)
{
    const struct rimf_object *object = rimf_object_of(public);
    size_t n = __atomic_load_n(&moved->n, __ATOMIC_ACQUIRE);
    const struct moved_fragment *list = __atomic_load_n(&moved->list, __ATOMIC_ACQUIRE);
    const struct moved_fragment *fragment =
        n && object && object->moved && object->moved <= n ? find_fragment(list, object, original) : NULL;

    return fragment && (size_t)(fragment - list) < n &&
                   __atomic_load_n(&fragment->size, __ATOMIC_RELAXED) &&
                   length <= fragment->code - (original - fragment->original)
               ? fragment
               : NULL;
}

int moved_fits(const struct rimf_object *object, uintptr_t original, size_t code)
{
    size_t before = code < RIMF_MOVED_LINE ? 0 : RIMF_MOVED_LINE - 1;

    return elf_holds(&object->view, original + before, code - before, PROT_READ | PROT_EXEC);
}

int moving_at(struct moving *c, uintptr_t original)
{
    const struct moved_fragment *fragment = c->fragment;

    if (!fragment || original - fragment->original >= fragment->code)
        fragment = moved_fragment_at(c->image->moved, c->object, original);
    if (!fragment)
        return 0;
    c->fragment = fragment;
    c->distance = (intptr_t)(fragment->at - fragment->original);
    return 1;
}

/* ---- where to cut ---------------------------------------------------------------------- */

int moving_refuse(struct moving *c, const char *why)
{
    c->why = why;
    return -ENOEXEC;
}

/* The new address of the byte, in the fragment that is being made.  NULL: the byte does not move. */
uint8_t *moving_byte(struct moving *c, uint32_t linked)
{
    return moving_at(c, c->bias + linked)
               ? (uint8_t *)(c->bias + linked + (uintptr_t)c->distance)
               : NULL;
}

/* The displacement at `at`, of an instruction that ends at `next`, leads to `target`. */
int moving_target(struct moving *c, uint8_t *at, uintptr_t next, uintptr_t target)
{
    int64_t distance = (int64_t)(target - next);
    int32_t value = (int32_t)distance;

    if (value != distance)
        return moving_refuse(c, "something that it uses is farther than 2 GiB from the region");
    memcpy(at, &value, sizeof value);
    return 0;
}

/* The first movable unit from `i` on. */
static size_t movable_from(const struct analysis *s, size_t i)
{
    while (i < s->n_units && s->units[i].reason != ANALYSIS_PROVEN)
        i++;
    return i;
}

/* The end of the units that move together with `i`. */
static size_t joined_end(const struct analysis *s, size_t i)
{
    while (i < s->n_units && s->units[i].flags & ANALYSIS_JOINED)
        i++;
    return i < s->n_units ? i + 1 : i;
}

/* Units first to end - 1, as linked, except those behind the last that moves. */
static struct mvld_fragment fragment_of(const struct analysis *s, size_t first, size_t end)
{
    const struct analysis_unit *last;

    while (s->units[end - 1].reason != ANALYSIS_PROVEN)
        end--;
    last = &s->units[end - 1];
    return (struct mvld_fragment){s->units[first].start,
                               last->start + last->size - s->units[first].start};
}

size_t moved_cut(const struct rimf_object *object, const struct analysis *s,
                  struct mvld_fragment *fragments, size_t room, const char **why)
{
    size_t n = 0;

    for (size_t first = movable_from(s, 0), end; first < s->n_units; first = movable_from(s, end)) {
        end = joined_end(s, first);
        if (n < room) {
            fragments[n] = fragment_of(s, first, end);
            fragments[n].original += object->view.bias;
        }
        n++;
    }
    if (!n)
        *why = "no function of it can be moved";
    return n;
}

int moved_is_fragment(const struct analysis *s, uint32_t start, size_t size)
{
    const struct analysis_unit *first = analysis_unit_at(s, start), *last;

    if (!size || size > UINT32_MAX - start || !first || first->start != start ||
        first->reason != ANALYSIS_PROVEN ||
        (first > s->units && first[-1].flags & ANALYSIS_JOINED))
        return 0;
    last = analysis_unit_at(s, start + (uint32_t)size - 1);
    return last && last->start + last->size == start + size && last->reason == ANALYSIS_PROVEN &&
           !(last->flags & ANALYSIS_JOINED);
}

/* ---- look-up ------------------------------------------------------------------------- */

uintptr_t rimf_moved_to(struct mvld_image *image, uintptr_t original)
{
    struct rimf_object *object = (struct rimf_object *)rimf_object_of(rimf_object_find(image, original));
    const struct moved_fragment *fragment;
    const struct analysis_unit *unit;
    const struct analysis *analysis;
    uintptr_t canonical;

    if (!object || !object->moved)
        return 0;
    fragment = moved_fragment_at(image->moved, object, original);
    if (!fragment)
        return 0;
    canonical = canonical_address(fragment, original);
    /* The canonical address nearly always is in moved code.  Then no analysis is read, as a dlopen would for each
     * library that it binds to. */
    if (canonical != original)
        return canonical;
    analysis = rimf_analysis_whole(image, object, NULL);
    unit = analysis ? analysis_unit_at(analysis, (uint32_t)(original - object->view.bias)) : NULL;
    return unit && unit->reason == ANALYSIS_PROVEN ? fragment->at + (original - fragment->original) : 0;
}

uintptr_t rimf_moved_or(struct mvld_image *image, uintptr_t original)
{
    uintptr_t moved = rimf_moved_to(image, original);

    return moved ? moved : original;
}
