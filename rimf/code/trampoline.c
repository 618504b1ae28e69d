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
#include "rimf/x86/decode.h"
#include "rimf/x86/displace.h"
#include "rimf/x86/registers.h"

#include <elf.h>
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

/* ---- unwinding ---------------------------------------------------------------------------------
 *
 * Reads the .eh_frame record of a mapped function.
 *
 * The analyser has checked that distances have four bytes and that the instructions name no address; bounds
 * are checked again, since nothing else keeps a record inside the object.
 */

/* The rest of the segment from there on. */
static struct reader reader_at(const struct rimf_object *object, uintptr_t at)
{
    size_t room = at ? elf_room(&object->view, at) : 0;

    return (struct reader){(const uint8_t *)at, (const uint8_t *)at + room, at, !room};
}

/* Whether it is as compilers write it for functions. */
static int is_usual(const struct cie *cie)
{
    return cie->version == 1 && cie->sized && cie->whole && !cie->signal && !cie->keyed && cie->code_alignment == 1 &&
           cie->data_alignment == (uint64_t)-8 && cie->return_address == 16;
}

int code_frame_of(const struct rimf_object *object, const struct analysis *s, const struct analysis_unit *unit,
                  struct code_frame *frame)
{
    size_t i = ANALYSIS_FROM(s, frames, unit->start);
    uintptr_t at = i < s->n_frames && s->frames[i].start == unit->start ? object->view.bias + s->frames[i].fde : 0;
    uint64_t back, none, own;
    struct reader fde = frame_record(reader_at(object, at), &back), content;
    struct cie cie;

    if (fde.bad)
        return -ENOENT;
    content = frame_record(reader_at(object, at + sizeof(uint32_t) - back), &none);
    if (none || cie_read(content, &cie) || !is_usual(&cie))
        return -ENOENT;
    frame_uint(&fde, 4);
    own = frame_uint(&fde, 4) == unit->size ? frame_uleb128(&fde) : UINT64_MAX;
    if (fde.bad || own > (size_t)(fde.end - fde.at))
        return -ENOENT;
    frame->initial = cie.program;
    frame->program = fde;
    frame->program.at += own;
    frame->has_pads = own && cie.table_how != ENCODING_OMIT && frame_encoded(&fde, cie.table_how & 0x0f, 0) != 0;
    return 0;
}

/* ---- its instructions --------------------------------------------------------------------------------- */

const struct code_unwind code_unwind_entry = {.base = CODE_UNWIND_RSP, .offset = 8, .saved[16] = 1};

#define REMEMBERED_MAX 4u

struct unwinding {
    struct code_unwind now, initial, remembered[REMEMBERED_MAX];
    size_t n_remembered;
    uint32_t at; /* offset in the function */
};

static int save(struct unwinding *u, uint64_t reg, uint64_t words)
{
    if (reg >= RIMF_COUNT(u->now.saved) || words > UINT8_MAX)
        return -ENOTSUP;
    u->now.saved[reg] = (uint8_t)words;
    return 0;
}

static int set_cfa(struct unwinding *u, uint64_t base, uint64_t offset)
{
    u->now.base = (uint8_t)base;
    u->now.offset = (uint32_t)offset;
    return base > 15 || offset > INT32_MAX ? -ENOTSUP : 0;
}

static int remember(struct unwinding *u)
{
    if (u->n_remembered == REMEMBERED_MAX)
        return -ENOTSUP;
    u->remembered[u->n_remembered++] = u->now;
    return 0;
}

static int recall(struct unwinding *u)
{
    if (!u->n_remembered)
        return -ENOTSUP;
    u->now = u->remembered[--u->n_remembered];
    return 0;
}

/* One instruction; DWARF 5, 6.4.2. */
static int step(struct unwinding *u, struct reader *r)
{
    uint64_t op = frame_uint(r, 1), low = op & 0x3f, first;

    switch (op & 0xc0) {
    case 0x40: u->at += (uint32_t)low; return 0;                     /* advance_loc */
    case 0x80: return save(u, low, frame_uleb128(r));                /* offset */
    case 0xc0: return low > 16 ? -ENOTSUP : save(u, low, u->initial.saved[low]); /* restore */
    }
    switch (op) {
    case 0x00: return 0;                                             /* nop */
    case 0x02: u->at += (uint32_t)frame_uint(r, 1); return 0;        /* advance_loc1, 2, 4 */
    case 0x03: u->at += (uint32_t)frame_uint(r, 2); return 0;
    case 0x04: u->at += (uint32_t)frame_uint(r, 4); return 0;
    case 0x08: return save(u, frame_uleb128(r), 0);                  /* same_value */
    case 0x0a: return remember(u);
    case 0x0b: return recall(u);
    case 0x0c: first = frame_uleb128(r); return set_cfa(u, first, frame_uleb128(r)); /* def_cfa */
    case 0x0d: return set_cfa(u, frame_uleb128(r), u->now.offset);   /* def_cfa_register */
    case 0x0e: return set_cfa(u, u->now.base, frame_uleb128(r));     /* def_cfa_offset */
    case 0x2e: frame_uleb128(r); return 0;                           /* GNU_args_size */
    }
    return -ENOTSUP;
}

/* A state is valid up to the next advance. */
int code_unwind_at(const struct code_frame *frame, uint32_t offset, struct code_unwind *out)
{
    struct reader initial = frame->initial, r = frame->program;
    struct unwinding u = {.n_remembered = 0};
    int error = 0;

    while (!error && !initial.bad && initial.at < initial.end)
        error = step(&u, &initial);
    u.initial = u.now;
    *out = u.now;
    while (!error && !r.bad && r.at < r.end && u.at <= offset) {
        *out = u.now;
        error = step(&u, &r);
    }
    if (u.at <= offset)
        *out = u.now;
    return error ? error : initial.bad || r.bad || u.initial.saved[16] != 1 ? -ENOTSUP : 0;
}
