/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/places.c: where code runs, for code that patches while the program runs.
 *
 * Code that moved (moved/moved.h) may run at both addresses: moved code calls moved code, but code that was
 * not understood continues in the originals.  So a patch changes both.  Only the five bytes of the jump to
 * moved code belong to the image: nothing enters behind the first of them (ANALYSIS_HEAD), so the code that
 * was there runs only as moved code.
 *
 *     original                           region
 *     f:    endbr64                      f':   endbr64
 *           jmp f'+4     the image's           nopl         to be changed here only
 *           …
 *           call g       here              …   call g       and here
 *
 * Called at any time by any thread, when analyses are closed: the unwind table of moved code tells whether an
 * address of the region is code that moved, and not padding or a hole.
 */
#include "rimf/moved/moved.h"

#include "rimf/base/base.h"
#include "rimf/x86/decode.h"
#include "rimf/x86/displace.h"
#include "rimf/image/private.h"

/* Returns 1 if a jump to the moved code, `distance` away, begins at `original`. */
static int is_entry(uintptr_t original, intptr_t distance)
{
    const uint8_t *at = (const uint8_t *)original;

    return *at == 0xe9 && distance_at(at + 1) == distance - DISPLACE_JUMP;
}

static const struct moved_code *code_of(const struct mvld_image *image)
{
    return image ? __atomic_load_n(&image->moved, __ATOMIC_ACQUIRE) : NULL;
}

/* The object with moved code at this address, or NULL. */
static const struct mvld_object *moved_object(const struct mvld_image *image, uintptr_t original)
{
    const struct mvld_object *object = code_of(image) ? rimf_object_find(image, original) : NULL;

    return object && rimf_object_of(object)->moved ? object : NULL;
}

/* The fragment in which this code moved, or NULL. */
static const struct moved_fragment *fragment_of(const struct mvld_image *image, const struct mvld_object *object,
                                                uintptr_t original, size_t length)
{
    const struct moved_code *moved = code_of(image);
    const struct moved_fragment *fragment = moved_fragment_made(moved, object, original, length);
    uintptr_t distance, start;

    if (!fragment)
        return NULL;
    distance = fragment->at - fragment->original;
    start = moved_frames_start(moved, original + distance, length);
    return start && !rimf_is_kept_original(image, start - distance) ? fragment : NULL;
}

uintptr_t rimf_moved_copy(const struct mvld_image *image, uintptr_t original, size_t length)
{
    const struct mvld_object *object = moved_object(image, original);
    const struct moved_fragment *fragment = object ? fragment_of(image, object, original, length) : NULL;

    return fragment ? original + (fragment->at - fragment->original) : 0;
}

int rimf_moved_find(const struct mvld_image *image, uintptr_t original, size_t length,
                   uintptr_t *to)
{
    const struct mvld_object *object = to ? moved_object(image, original) : NULL;
    const struct moved_fragment *fragment;
    uintptr_t at;

    if (to)
        *to = 0;
    if (!object)
        return 2;
    fragment = fragment_of(image, object, original, length);
    if (!fragment)
        return 1;
    *to = original + (fragment->at - fragment->original);
    at = original - fragment->original < DISPLACE_JUMP ? fragment->original : original - (DISPLACE_JUMP - 1);
    for (; at < original + length; at++)
        if (is_entry(at, (intptr_t)(*to - original)))
            return 0;
    return 1;
}
