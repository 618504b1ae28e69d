/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/canonical.c: the canonical address of a function (the psABI's word for the address that all
 * objects use for it). moved/pointers.c decides which functions have their moved code as the canonical
 * address; some originals run, whoever calls them.
 */
#include "rimf/moved/moved.h"

#include "rimf/base/base.h"
#include "rimf/image/private.h"

int canonical_stays(const struct moved_fragment *fragment, uintptr_t offset)
{
    size_t begun = RIMF_BISECT(i, fragment->n_fixed, fragment->fixed[i].start <= offset);

    return begun && offset - fragment->fixed[begun - 1].start < fragment->fixed[begun - 1].size;
}

uintptr_t canonical_address(const struct moved_fragment *fragment, uintptr_t original)
{
    uintptr_t offset = original - fragment->original;

    return fragment->is_canonical && offset < fragment->code &&
                   __atomic_load_n(&fragment->size, __ATOMIC_RELAXED) &&
                   !canonical_stays(fragment, offset)
               ? fragment->at + offset
               : original;
}

uintptr_t moving_canonical(const struct moving *c, uintptr_t original)
{
    const struct moved_fragment *fragment = c->fragment; /* most likely */

    if (!fragment || original - fragment->original >= fragment->code)
        fragment = moved_fragment_at(c->image->moved, c->object, original);
    return fragment ? canonical_address(fragment, original) : original;
}

/* As rimf_moved_find, in any thread. */
uintptr_t rimf_canonical_address(const struct mvld_image *image, uintptr_t original)
{
    const struct moved_code *moved = __atomic_load_n(&image->moved, __ATOMIC_ACQUIRE);
    const struct moved_fragment *fragment =
        moved ? moved_fragment_made(moved, rimf_object_find(image, original), original, 1) : NULL;

    return fragment ? canonical_address(fragment, original) : original;
}

uintptr_t moved_word(const struct mvld_image *image, uintptr_t word)
{
    uintptr_t value;

    memcpy(&value, (const void *)word, sizeof value);
    return rimf_unmoved(image, value);
}

/* ---- functions whose originals run --------------------------------------------------- */

int rimf_is_kept_original(const struct mvld_image *image, uintptr_t function)
{
    for (size_t i = 0; i < RIMF_KEPT_ORIGINALS; i++)
        if (image->feeder.kept[i].at == function)
            return 1;
    return 0;
}
