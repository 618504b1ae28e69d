/* SPDX-License-Identifier: MIT
 *
 * rimf/code/trampoline.c: the code that calls a pass's code before an instruction (code/splice.c).
 *
 *     48 8d a4 24 disp32    lea -N(%rsp), %rsp       past the red zone, and room for registers
 *     48 89 44 24 08 …      mov %rax, 8(%rsp) …      those that are live and that calls destroy
 *     9c fc                 pushfq; cld              where flags are live
 *     48 bf imm64           movabs $cookie, %rdi     of each code
 *     48 b8 imm64           movabs $code, %rax
 *     ff d0                 call *%rax
 *     9d                    popfq
 *     48 8b 44 24 08 …      mov 8(%rsp), %rax …
 *     48 8d a4 24 disp32    lea N(%rsp), %rsp
 *                           the instructions that made way
 *     e9 rel32              jmp back
 *
 * At a call's trampoline the return address is on the stack already; it ends in a jump to the call's target,
 * which returns to the program.  Any other trampoline begins with the frame of the instruction, from its
 * function's unwind table, and follows the changes of each displaced instruction.
 *
 * The target of a call or of a jump may be within reach of the instruction, but not of the trampoline.  Then
 * `notrack jmp *0(%rip)` jumps to it, followed by its address.
 */
#include "rimf/code/code.h"

#include "rimf/base/base.h"
#include "rimf/x86/displace.h"
#include "rimf/x86/registers.h"

#include <errno.h> /* numbers only */

#define RED_ZONE 128u

static const uint8_t destroyed[] = {RAX, RCX, RDX, RSI, RDI, 8, 9, 10, 11}; /* clobbered by calls; psABI, 3.2.1 */

struct making {
    uint8_t *code; /* or NULL */
    size_t n;
    uint8_t *frame;
    size_t frame_n, described; /* up to this offset in the code */
    struct code_unwind unwind;
    const char *why;
};

static void put(struct making *m, const void *bytes, size_t n)
{
    if (m->code)
        memcpy(m->code + m->n, bytes, n);
    m->n += n;
}
#define PUT(m, ...) put(m, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static void put_word(struct making *m, uint8_t rex, uint8_t opcode, const void *word, size_t size)
{
    PUT(m, rex, opcode);
    put(m, word, size);
}

/* ---- its unwind table --------------------------------------------------------------------------- */

static void put_frame(struct making *m, uint8_t byte)
{
    if (m->frame_n == MVLD_FRAME_MAX)
        m->why = "its frame is too long";
    else
        m->frame[m->frame_n++] = byte;
}

static void put_number(struct making *m, uint32_t value)
{
    for (; value > 0x7f; value >>= 7)
        put_frame(m, (uint8_t)(value | 0x80));
    put_frame(m, (uint8_t)value);
}

static void put_distance(struct making *m, uint32_t distance)
{
    if (distance && distance <= 0x3f)
        put_frame(m, (uint8_t)(0x40 | distance)); /* advance_loc */
    if (distance <= 0x3f)
        return;
    put_frame(m, 0x04); /* advance_loc4 */
    for (unsigned bit = 0; bit < 32; bit += 8)
        put_frame(m, (uint8_t)(distance >> bit));
}

static int same_unwind(const struct code_unwind *a, const struct code_unwind *b)
{
    return a->base == b->base && a->offset == b->offset && !memcmp(a->saved, b->saved, sizeof a->saved);
}

/* Describes the frame from here on. */
static void describe(struct making *m, const struct code_unwind *now)
{
    if (same_unwind(&m->unwind, now))
        return;
    put_distance(m, (uint32_t)(m->n - m->described));
    m->described = m->n;
    if (m->unwind.base != now->base || m->unwind.offset != now->offset) {
        put_frame(m, 0x0c); /* def_cfa */
        put_number(m, now->base);
        put_number(m, now->offset);
    }
    for (uint8_t reg = 0; reg < sizeof now->saved; reg++) {
        if (m->unwind.saved[reg] == now->saved[reg])
            continue;
        put_frame(m, now->saved[reg] ? 0x80 | reg : 0x08); /* offset, same_value */
        put_number(m, now->saved[reg] ? now->saved[reg] : reg);
    }
    m->unwind = *now;
}

/* The stack pointer is this far below its old value. */
static void describe_below(struct making *m, const struct code_unwind *unwind, uint32_t below)
{
    struct code_unwind now = *unwind;

    now.offset += now.base == CODE_UNWIND_RSP ? below : 0;
    describe(m, &now);
}

/* ---- its code ------------------------------------------------------------------------------------- */

static void put_stack(struct making *m, int32_t by)
{
    PUT(m, 0x48, 0x8d, 0xa4, 0x24); /* lea by(%rsp), %rsp */
    put(m, &by, sizeof by);
}

/* Returns their number; `opcode` 89 saves them, 8b restores them. */
static uint32_t put_registers(struct making *m, uint32_t live, uint8_t opcode)
{
    uint32_t n = 0;

    for (size_t i = 0; i < RIMF_COUNT(destroyed); i++) {
        uint8_t reg = destroyed[i];

        if (live & MVLD_LIVE(reg) && opcode)
            PUT(m, (uint8_t)(0x48 | (reg > 7) << 2), opcode, (uint8_t)(0x44 | (reg & 7) << 3), 0x24, (uint8_t)(8 * n));
        n += (live & MVLD_LIVE(reg)) != 0;
    }
    return n;
}

static void put_calls(struct making *m, const struct mvld_image *image, const struct code_splice *splice,
                      const struct code_unwind *unwind)
{
    uint32_t below = RED_ZONE + 8 * put_registers(m, splice->live, 0);
    int flags = (splice->live & MVLD_LIVE_FLAGS) != 0;

    put_stack(m, -(int32_t)below);
    describe_below(m, unwind, below);
    put_registers(m, splice->live, 0x89);
    if (flags) {
        PUT(m, 0x9c); /* pushfq */
        describe_below(m, unwind, below + 8);
        PUT(m, 0xfc); /* cld */
    }
    for (const struct code_spliced *s = splice->first; s; s = s->next) {
        if (!code_spliced_counts(image, s))
            continue;
        put_word(m, 0x48, 0xbf, &s->cookie, sizeof s->cookie); /* movabs $cookie, %rdi */
        put_word(m, 0x48, 0xb8, &s->code, sizeof s->code);     /* movabs $code, %rax */
        PUT(m, 0xff, 0xd0);                                    /* call *%rax */
    }
    if (flags) {
        PUT(m, 0x9d); /* popfq */
        describe_below(m, unwind, below);
    }
    put_registers(m, splice->live, 0x8b);
    put_stack(m, (int32_t)below);
    describe(m, unwind);
}

static void put_jump(struct making *m, uintptr_t to, uintptr_t target)
{
    uint8_t jump[DISPLACE_JUMP];

    if (m->code && !displace_jump(jump, to + m->n, target)) {
        put(m, jump, sizeof jump);
        return;
    }
    PUT(m, 0x3e, 0xff, 0x25, 0, 0, 0, 0); /* notrack jmp *0(%rip) */
    put(m, &target, sizeof target);
}

static void put_moved(struct making *m, const struct code_splice *splice, uintptr_t to, const uint8_t *from,
                      size_t length, uintptr_t place)
{
    uint8_t bytes[16];
    struct instruction i;

    for (size_t at = 0, k = 1; at < length && decode(from + at, length - at, &i); at += i.length, k++) {
        if (displace_one(from + at, place + at, to + m->n, &i, bytes))
            m->why = "what it refers to is out of reach";
        put(m, bytes, i.length);
        if (splice->way == SPLICE_MOVED)
            describe(m, &splice->unwind[k]);
    }
}

/* call becomes jmp, whose prefixes have no effect. */
static void put_call(struct making *m, const struct code_splice *splice, uintptr_t to)
{
    uint8_t jump[6] = {0xff, 0x25};

    if (splice->way == SPLICE_CALL) {
        put_jump(m, to, splice->place + splice->length + (uintptr_t)distance_at(splice->old + splice->length - 4u));
    } else {
        memcpy(jump + 2, splice->old + 2, 4);
        put_moved(m, splice, to, jump, sizeof jump, splice->place);
    }
}

static int is_jump(const struct code_splice *splice)
{
    return splice->length == DISPLACE_JUMP && splice->old[0] == 0xe9;
}

size_t code_trampoline(const struct mvld_image *image, const struct code_splice *splice, uintptr_t to, uint8_t *code,
                       uint8_t *frame, size_t *frame_size, const char **why)
{
    struct making m = {.code = code, .frame = frame, .unwind = code_unwind_entry};
    const struct code_unwind *unwind = splice->way == SPLICE_MOVED ? &splice->unwind[0] : &code_unwind_entry;

    describe(&m, unwind);
    put_calls(&m, image, splice, unwind);
    if (splice->way == SPLICE_MOVED && !is_jump(splice)) {
        put_moved(&m, splice, to, splice->old, splice->length, splice->place);
        put_jump(&m, to, splice->place + splice->length);
    } else if (splice->way == SPLICE_MOVED) {
        put_jump(&m, to, splice->place + splice->length + (uintptr_t)distance_at(splice->old + 1));
    } else {
        put_call(&m, splice, to);
    }
    *frame_size = m.frame_n;
    *why = m.why;
    return m.why ? 0 : m.n;
}
