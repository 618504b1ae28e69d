/* SPDX-License-Identifier: MIT
 *
 * rimf/image_calls.c: calls that a pass makes direct where they run, not before code is copied
 * (struct mvld_calls).
 *
 *     run of the pass         it has calls that could be direct, and leaves them (calls_leave)
 *     copies_commit           the copies' calls ask where they end (copy_calls.c);
 *                             what has no copy is changed at home, as without copies
 *
 * So the calls of code that was copied stay at home what they were: through the PLT, like all of
 * home that the copies leave alone.  A page of home that is written is a private copy of it, a
 * page fault and some microseconds, and of most pages with calls nothing else is written.
 *
 * Where the copies come to nothing, everything is changed at home then; where nobody commits, when
 * the passes have run.  A frozen image holds what patches made of home, so none is made this way.
 */
#include "image_private.h"

#include <errno.h> /* numbers only */

int rimf_calls_leave(struct mvld_image *image, const struct mvld_calls *calls)
{
    if (image->watch)
        return -ENOTSUP;
    if (image->calls)
        return -EBUSY;
    image->calls = calls;
    return 0;
}

void rimf_calls_settle(struct mvld_image *image)
{
    const struct mvld_calls *calls = image->calls;

    if (!calls)
        return;
    image->calls = NULL;
    image->calls_home = 1;
    for (size_t i = 0; i < calls->n; i++) {
        const struct rimf_object *object = rimf_object_of(calls->objects[i]);

        if (object->copy)
            calls->copied(calls->cookie, calls->objects[i], object->calls_copied,
                          object->calls_made);
        if (!object->copy || object->calls_at_home)
            calls->home(calls->cookie, calls->objects[i]);
    }
    image->calls_home = 0;
    calls->done(calls->cookie);
}
