/* SPDX-License-Identifier: MIT
 *
 * batch.c: the engine's patches become changes of aligned words.
 *
 * All changes of a batch are made while no other processor runs, but a non-maskable interrupt may still
 * come between two stores, and run a function that is being changed.  So only changes of one store are
 * made: the instruction is in one aligned word of 8 bytes, as the compiler plugin arranges it.  Other sites
 * keep their bytes, and call the entry.
 */
#include "kernel/core/core.h"

struct mvld_batch {
    struct mvld_image *image;
    struct mvk_change *changes;
    uint32_t *order; /* where each change is, once they are sorted */
    size_t n, room;
    struct mvld_patch shown;
};

struct mvld_batch *mvk_patch_begin(struct mvld_image *image)
{
    struct mvld_batch *batch = mvk_alloc(sizeof *batch);

    if (batch)
        batch->image = image;
    return batch;
}

void mvk_patch_end(struct mvld_batch *batch)
{
    mvk_release(batch->changes);
    mvk_release(batch->order);
    mvk_release(batch);
}

/* Makes room for one more. */
static int reserve(struct mvld_batch *batch)
{
    size_t room = batch->room ? 2 * batch->room : 64;
    struct mvk_change *more;

    if (batch->n < batch->room)
        return 0;
    more = mvk_alloc(room * sizeof *more);
    if (!more)
        return -ENOMEM;
    if (batch->n)
        memcpy(more, batch->changes, batch->n * sizeof *more);
    mvk_release(batch->changes);
    batch->changes = more;
    batch->room = room;
    return 0;
}

/* If `length` is more than 8, the change is refused and its bytes do not matter. */
static int add(struct mvld_batch *batch, uintptr_t address, uint64_t expect, uint64_t replace, size_t length)
{
    struct mvk_change change = {.address = address, .expect = expect, .replace = replace,
                                .index = (uint32_t)batch->n, .length = (uint8_t)length};
    int err = reserve(batch);

    if (!err)
        batch->changes[batch->n++] = change;
    return err;
}

int mvk_patch_add(struct mvld_batch *batch, uintptr_t address, const void *expect, const void *replace, size_t length)
{
    uint64_t from = 0, to = 0;
    size_t held = length < 8 ? length : 8;

    memcpy(&from, expect, held);
    memcpy(&to, replace, held);
    return add(batch, address, from, to, length);
}

int mvk_patch_add_words(struct mvld_batch *batch, uintptr_t base, const struct mvld_word *words,
                        const uint64_t *expect, const uint64_t *replace, size_t n)
{
    int err = 0;

    for (size_t i = 0, joined; i < n && !err; i += 1 + joined) {
        joined = words[i].joined;
        if (expect[i] != replace[i] || (joined && expect[i + 1] != replace[i + 1]))
            err = add(batch, base + words[i].offset, expect[i], replace[i],
                      words[i].length + (joined ? words[i + 1].length : 0u));
    }
    return err;
}

void mvk_verify(struct mvk_change *changes, size_t n)
{
    rimf_sort(changes, n, sizeof *changes);
    for (size_t i = 0; i < n; i++) {
        struct mvk_change *c = &changes[i];

        if ((c->address & 7) + c->length > 8)
            c->result = -EDEADLK;
        else if (mv_bytes_at(c->address, c->length) != c->expect)
            c->result = -ESTALE;
    }
}

int mvk_patch_commit(struct mvld_batch *batch, struct mvld_patch_report *report)
{
    int err = -ENOMEM;

    batch->order = mvk_alloc(batch->n * sizeof *batch->order + 1);
    if (batch->order)
        err = mvk_change_text(batch->changes, batch->n);
    if (err == -ENOMEM)
        return mvk_api.fail(batch->image, ENOMEM, "out of memory for the changes of code");
    if (err) /* EIO: the engine takes some of the others to mean that each change has a result of its own */
        return mvk_api.fail(batch->image, EIO, "the changes of code could not be made: %d", err);
    for (size_t i = 0; i < batch->n; i++) {
        batch->order[batch->changes[i].index] = (uint32_t)i;
        batch->changes[i].result ? report->refused++ : report->applied++;
    }
    report->method = "one moment";
    return 0;
}

const struct mvld_patch *mvk_patch_at(const struct mvld_batch *batch, size_t index)
{
    struct mvld_patch *shown = &((struct mvld_batch *)(uintptr_t)batch)->shown;
    const struct mvk_change *change;

    if (index >= batch->n || !batch->order)
        return NULL;
    change = &batch->changes[batch->order[index]];
    *shown = (struct mvld_patch){.address = change->address, .length = change->length, .result = change->result};
    return shown;
}
