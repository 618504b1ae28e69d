/* SPDX-License-Identifier: MIT
 *
 * rimf/patch/selfmem.c: writes through /proc/self/mem, without changing protections: the kernel copies a
 * page that is shared with the file, and writes the copy.
 *
 * Without other threads, the bytes are simply written.  With threads, patch/int3.c does it.
 */
#include "rimf/patch/private.h"

/* After a failure undoes, if need be by fresh pages. */
static int write_all(struct mvld_batch *b, int back)
{
    struct rimf_patcher *p = b->patcher;
    int first = 0;

    for (size_t i = 0; i < b->n && (first == 0 || back); i++) {
        const struct mvld_patch *patch = patch_nth(b, i);
        const uint8_t *bytes = back ? patch->expect : patch->replace;
        int r;
        if (patch->result)
            continue;
        r = patch_mem_write(p, patch->address, bytes, patch->length);
        if (r)
            r = patch_mem_write(p, patch->address, bytes, patch->length);
        first = first ? first : r;
    }
    if (first && !back && write_all(b, 1) &&
        (patch_runs(b, 0) || patch_remap_runs(b, b->n_runs, 1)))
        return patch_finish(b, first);
    return first;
}

static int apply(struct mvld_batch *b)
{
    int r = patch_mem_open(b->patcher);

    if (r)
        return r;
    r = b->patcher->alone ? write_all(b, 0) : patch_int3(b);
    patch_mem_close(b->patcher);
    return r;
}

const struct patch_method patch_method_selfmem = {"selfmem", apply};
