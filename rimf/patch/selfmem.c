/* SPDX-License-Identifier: MIT
 *
 * rimf/patch/selfmem.c: writes through /proc/self/mem, without changing protections: the kernel copies a
 * page that is shared with the file, and writes the copy.
 *
 * A processor that executes a site while another one writes it may see half of it.  So nothing else may run,
 * or nobody has entered the code yet.
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

static int by_mem(struct mvld_batch *b, int back)
{
    int r = b->patcher->alone || b->unentered ? patch_mem_open(b->patcher) : -EBUSY;

    if (r)
        return r;
    r = write_all(b, back);
    patch_mem_close(b->patcher);
    return r;
}

int patch_mem_back(struct mvld_batch *b)
{
    return by_mem(b, 1);
}

static int apply(struct mvld_batch *b)
{
    return by_mem(b, 0);
}

const struct patch_method patch_method_selfmem = {"selfmem", apply};
