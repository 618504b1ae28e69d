/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/places.c: where code runs, for who changes it while the program runs.
 *
 * Code that moved (moved/moved.h) may run at both places: moved code calls moved code, but what was
 * not understood goes on in the originals.  So who changes it changes both.  Only the five bytes over
 * which the image wrote the jump to moved code belong to the image: behind the first of them
 * nobody enters (ANALYSIS_HEAD), so what stood there runs in the moved code alone.
 *
 *     original                           region
 *     f:    endbr64                      f':   endbr64
 *           jmp f'+4     the image's           nopl         to be changed here only
 *           …
 *           call g       here              …   call g       and here
 *
 * Asked at any time by any thread, when analyses are closed: that a place of the region is code
 * that moved, and not padding or a hole, is seen in the unwind table of the moved code.
 */
#include "rimf/moved/moved.h"

#include "rimf/base/base.h"
#include "rimf/x86/decode.h"
#include "rimf/x86/displace.h"
#include "rimf/image/private.h"

/* 1 when a jump to where it moved, `distance` away, begins at `original`. */
static int is_entry(uintptr_t original, intptr_t distance)
{
    const uint8_t *at = (const uint8_t *)original;

    return *at == 0xe9 && distance_at(at + 1) == distance - DISPLACE_JUMP;
}

int rimf_moved_find(const struct mvld_image *image, uintptr_t original, size_t length,
                   uintptr_t *to)
{
    const struct moved_code *moved = image && to ? __atomic_load_n(&image->moved, __ATOMIC_ACQUIRE) : NULL;
    const struct mvld_object *object = moved ? rimf_object_find(image, original) : NULL;
    const struct moved_fragment *fragment;
    uintptr_t at, start;
    intptr_t distance;

    if (to)
        *to = 0;
    if (!object || !rimf_object_of(object)->moved)
        return 2;
    fragment = moved_fragment_made(moved, object, original, length);
    if (!fragment)
        return 1;
    distance = (intptr_t)(fragment->at - fragment->original);
    start = moved_frames_start(moved, original + (uintptr_t)distance, length);
    if (!start || rimf_is_kept_original(image, start - (uintptr_t)distance))
        return 1;
    *to = original + (uintptr_t)distance;
    at = original - fragment->original < DISPLACE_JUMP ? fragment->original : original - (DISPLACE_JUMP - 1);
    for (; at < original + length; at++)
        if (is_entry(at, distance))
            return 0;
    return 1;
}
