/* SPDX-License-Identifier: MIT
 *
 * interp/record.c: the record by which a rewritten file can be restored.
 *
 * Behind the ELF file, where no loader looks, is the recipe to make the old file from the new one,
 * with checksums of both, so that a file that was changed since (for instance stripped) is not
 * "restored" to something else:
 *
 *     | rewritten ELF file | step | bytes | step | ... | trailer |
 *
 * A step copies a run of the rewritten file, or contains the bytes.  This does not depend on how
 * the file was rewritten; two positions are tried for every byte: its own, and the one shifted by
 * what patchelf inserted before the code.
 */
#include "tools/interp/interp.h"
#include "tools/common/tools.h"

#include <stdlib.h>
#include <string.h>

#define LITERAL UINT64_MAX
#define SHORTEST 32u /* a copied run; a step takes 16 bytes itself */

struct step {
    uint64_t length;
    uint64_t from; /* position in the rewritten file, or LITERAL: the bytes follow */
};

struct trailer {
    uint64_t before_size, before_sum;
    uint64_t now_size, now_sum; /* without the record */
    uint64_t steps_size;
    char magic[16];
};
static const char magic[16] = "mvld-interp/1\n";

/* FNV-1a: against accidents, not against attackers. */
uint64_t bytes_sum(const unsigned char *at, size_t size)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++)
        h = (h ^ at[i]) * 0x100000001b3u;
    return h;
}

static void append(struct bytes *to, const void *from, size_t size)
{
    to->at = must_grow(to->at, to->size + size, 1);
    memcpy(to->at + to->size, from, size);
    to->size += size;
}

static void append_copy(struct bytes *to, uint64_t length, uint64_t from)
{
    struct step s = {.length = length, .from = from};
    append(to, &s, sizeof s);
}

static void append_literal(struct bytes *to, const unsigned char *from, size_t length)
{
    struct step s = {.length = length, .from = LITERAL};
    if (!length)
        return;
    append(to, &s, sizeof s);
    append(to, from, length);
}

static size_t equal_run(const struct elf_file *before, size_t i, const struct bytes *now, size_t k)
{
    size_t n = 0;
    while (i + n < before->size && k < now->size && n < now->size - k &&
           before->bytes[i + n] == now->at[k + n])
        n++;
    return n;
}

/* The distance by which the code moved inside the file. */
static size_t shift_of(const struct elf_file *before, const struct bytes *now)
{
    struct elf_file f;
    int64_t a = elf_offset(before, before->header.e_entry), b = -1;
    if (!elf_file_parse(&f, before->path, now->at, now->size))
        b = elf_offset(&f, f.header.e_entry);
    f.bytes = NULL; /* the caller's */
    elf_file_close(&f);
    return a >= 0 && b > a ? (size_t)(b - a) : 0;
}

void record_append(const struct elf_file *before, struct bytes *now)
{
    struct trailer t = {.before_size = before->size, .now_size = now->size};
    struct bytes steps = {must_alloc(1, 1), 0};
    size_t shift = shift_of(before, now), literal = 0; /* bytes not yet in a step */

    for (size_t i = 0; i < before->size;) {
        size_t from = i, n = equal_run(before, i, now, i);
        size_t m = shift ? equal_run(before, i, now, i + shift) : 0;
        if (m > n) {
            n = m;
            from = i + shift;
        }
        if (n < SHORTEST) {
            literal++;
            i++;
            continue;
        }
        append_literal(&steps, before->bytes + i - literal, literal);
        append_copy(&steps, n, from);
        literal = 0;
        i += n;
    }
    append_literal(&steps, before->bytes + before->size - literal, literal);

    t.before_sum = bytes_sum(before->bytes, before->size);
    t.now_sum = bytes_sum(now->at, now->size);
    t.steps_size = steps.size;
    memcpy(t.magic, magic, sizeof magic);
    append(now, steps.at, steps.size);
    append(now, &t, sizeof t);
    free(steps.at);
}

static int replay(const struct elf_file *now, const struct trailer *t, struct bytes *before)
{
    uint64_t at = t->now_size, end = t->now_size + t->steps_size, done = 0;
    while (done < t->before_size) {
        struct step s;
        if (end - at < sizeof s)
            return -1;
        memcpy(&s, now->bytes + at, sizeof s);
        at += sizeof s;
        if (s.length > t->before_size - done)
            return -1;
        if (s.from == LITERAL) {
            if (s.length > end - at)
                return -1;
            memcpy(before->at + done, now->bytes + at, s.length);
            at += s.length;
        } else {
            if (s.from > t->now_size || s.length > t->now_size - s.from)
                return -1;
            memcpy(before->at + done, now->bytes + s.from, s.length);
        }
        if (!s.length)
            return -1;
        done += s.length;
    }
    return 0;
}

int record_restore(const struct elf_file *now, struct bytes *before, const char **why)
{
    struct trailer t;
    if (now->size < sizeof t)
        return 1;
    memcpy(&t, now->bytes + now->size - sizeof t, sizeof t);
    if (memcmp(t.magic, magic, sizeof magic))
        return 1;
    *why = "its record of what it was is damaged";
    uint64_t rest = now->size - sizeof t;
    if (t.now_size > rest || t.steps_size != rest - t.now_size)
        return -1;
    /* Limits the old file's size: runs may repeat, but a valid record never grows more than
     * twofold. */
    if (t.before_size > 2 * (uint64_t)now->size)
        return -1;
    if (bytes_sum(now->bytes, t.now_size) != t.now_sum) {
        *why = "it was changed after set-interp: its record no longer fits";
        return -1;
    }
    *before = (struct bytes){must_alloc(t.before_size, 1), t.before_size};
    if (replay(now, &t, before) || bytes_sum(before->at, before->size) != t.before_sum) {
        free(before->at);
        return -1;
    }
    return 0;
}
