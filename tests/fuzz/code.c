/* SPDX-License-Identifier: MIT
 *
 * The decoders of machine code with any bytes in front of them: call sites (site.c),
 * bodies that fit into one (inline.c), single instructions (patch/insn.c).
 *
 * A length depends on nothing behind the instruction, and is none when the end is cut
 * off; a site that was decoded and encoded again leads where it led, as one instruction.
 *
 * The input is the code.
 */
#include "rimf/patch/private.h"
#include "rimf/x86/decode.h"
#include "passes/multiverse/site/site.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LONGEST 16u

static void must(int holds)
{
    if (!holds)
        abort();
}

/* In memory that ends where the bytes do. */
static uint8_t *cut(const uint8_t *code, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);

    memcpy(copy, code, size);
    return copy;
}

static void lengths(const uint8_t *code, size_t size)
{
    struct instruction i;
    size_t one = decode(code, size, &i), plain = mv_inline_length(code, size);

    must(one <= size && (!plain || plain == one));
    for (size_t room = 0; room <= size && room <= LONGEST; room++) {
        uint8_t *copy = cut(code, room);

        must(decode(copy, room, &i) == (one <= room ? one : 0));
        must(mv_inline_length(copy, room) == (plain <= room ? plain : 0));
        if (patch_one_instruction(copy, room))
            must(one && one <= room);
        free(copy);
    }
}

/* The upper bytes of a word are zero, and one thread stands before it or behind it. */
static void one_site(uint64_t word, unsigned length, int must_be_known)
{
    struct instruction i;
    uint8_t bytes[8];

    memcpy(bytes, &word, sizeof bytes);
    must(length == 8 || !(word >> 8 * length));
    must(must_be_known ? patch_one_instruction(bytes, length)
                       : decode(bytes, length, &i) == length || bytes[0] == 0xc3);
}

/* The load of a constant, and the `mov` of any value that takes its place. */
static void one_read(const uint8_t *load, unsigned length)
{
    static const uint64_t values[] = {0, 1, 0x80, 0x8000, 0xdeadbeef, 0x0123456789abcdef, UINT64_MAX};
    uint8_t made[MV_SITE_MAX];
    struct instruction i;

    must(patch_one_instruction(load, length));
    for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
        mv_read_encode(load, length, values[k], made);
        must(decode(made, length, &i) == length);
    }
}

static void site(const uint8_t *code, size_t size)
{
    static const struct mv_inline none;
    const uintptr_t address = 0x7f1234567890;
    struct mv_decoded decoded, again;
    uint8_t bytes[8];
    uint64_t word;

    if (!mv_site_decode(code, size < MV_SITE_MAX ? size : MV_SITE_MAX, address, &decoded))
        return;
    must(decoded.kind != MV_SITE_NONE && decoded.length >= MV_SITE_MIN &&
         decoded.length <= MV_SITE_MAX && decoded.length <= size);
    if (decoded.kind == MV_READ) {
        one_read(code, decoded.length);
        return;
    }
    if (!mv_site_encode(decoded.kind, decoded.length, address, decoded.target, &none, &word))
        return; /* the slot's distance counts from elsewhere: a few bytes too far */
    one_site(word, decoded.length, 1);
    memcpy(bytes, &word, sizeof bytes);
    must(mv_site_decode(bytes, MV_SITE_MAX, address, &again) && again.target == decoded.target);
    must(mv_site_is_jump(again.kind) == mv_site_is_jump(decoded.kind));
}

static void body(const uint8_t *code, size_t size)
{
    struct mv_inline found;
    uint64_t word;

    mv_inline_read(code, size, 0, &found);
    if (!found.usable)
        return;
    must(found.length <= MV_CALL_MAX && found.length < size);
    must(!found.length ||
         mv_inline_length((const uint8_t *)&found.bytes, found.length) == found.length);
    for (unsigned length = MV_SITE_MIN; length <= MV_CALL_MAX; length++)
        for (int jump = 0; jump < 2; jump++)
            if (mv_body_encode(jump, length, &found, &word))
                one_site(word, length, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (size_t at = 0; at < size && at < LONGEST; at++) {
        lengths(data + at, size - at);
        site(data + at, size - at);
        body(data + at, size - at);
    }
    return 0;
}
