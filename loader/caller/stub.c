/* SPDX-License-Identifier: MIT
 *
 * loader/caller/stub.c: the stubs of the caller hooks (caller/hooks.c), and their unwind tables.
 *
 * CALLER_STUB bytes each:
 *
 *     an argument                         the result                     both (do_sym)
 *     ff 15 <rel32>  call *slot1(%rip)    e8 <rel32>     call T          call *slot1(%rip)
 *                                         ff 25 <rel32>  jmp *slot1(%rip) sub $8, %rsp
 *                                                                        call T
 *                                                                        add $8, %rsp
 *                                                                        jmp *slot2(%rip)
 *     T:  displaced instructions; e9 <rel32>  jmp f+n
 *
 * For _dl_addr it is like the last one, between push %rdi, push %rsi and pop %rsi, pop %rdi, which
 * save the given address and the address of the result.  The slots, at the end, point to caller/entry.S.
 *
 * A stub that calls T is a frame of its own, and the program's code may run below it: an IFUNC's
 * resolver that dlsym calls, an allocator for its error.  So `frame` describes the stack up to T;
 * rimf adds it to the frames of moved code.  From T on there is no description: the function
 * describes its first instructions at their original addresses.
 */
#include "loader/caller/private.h"

#include "rimf/moved/moved.h"

/* The code before the displaced instructions. */
struct shape {
    uint8_t size, first, second; /* offsets of the distances to the slots; 0: none */
    uint8_t call;                /* offset of the distance to the displaced instructions */
    uint8_t code[32];
    uint8_t frame_size, frame[20];
};

/* DWARF: after so many bytes, the distance of the stack pointer from the frame's end (CFA). */
#define ON(bytes, offset) 0x40 | (bytes), 0x0e, offset

static const struct shape exchanges = {6, 2, 0, 0, {0xff, 0x15}, 0, {0}};
static const struct shape returns = {11, 7, 0, 1, {0xe8, 0, 0, 0, 0, 0xff, 0x25}, 0, {0}};
static const struct shape finds = {
    25, 2, 21, 11, {0xff, 0x15, 0, 0, 0, 0, 0x48, 0x83, 0xec, 0x08, 0xe8, 0, 0, 0, 0,
                    0x48, 0x83, 0xc4, 0x08, 0xff, 0x25},
    6, {ON(10, 16), ON(9, 8)}};
static const struct shape names = {
    29, 4, 25, 13, {0x57, 0x56, 0xff, 0x15, 0, 0, 0, 0, 0x48, 0x83, 0xec, 0x08, 0xe8, 0, 0, 0, 0,
                    0x48, 0x83, 0xc4, 0x08, 0x5e, 0x5f, 0xff, 0x25},
    18, {ON(1, 16), ON(1, 24), ON(10, 32), ON(9, 24), ON(1, 16), ON(1, 8)}};

_Static_assert(29 + DISPLACE_MAX + DISPLACE_JUMP <= CALLER_SLOTS, "a stub holds it all");

static const struct shape *shape_of(size_t which, uintptr_t slots[2])
{
    slots[0] = (uintptr_t)caller_stub_entry;
    slots[1] = 0;
    switch (which) {
    case CALLER_ADDR:
        slots[1] = (uintptr_t)caller_stub_named;
        return &names;
    case CALLER_SYM:
        slots[0] = (uintptr_t)caller_stub_caller;
        slots[1] = (uintptr_t)caller_stub_symbol;
        return &finds;
    case CALLER_IP:
    case CALLER_IP_INFO:
    case CALLER_REGION:
        slots[0] = (uintptr_t)caller_stub_result;
        return &returns;
    case CALLER_OPEN:
        slots[0] = (uintptr_t)caller_stub_caller;
        break;
    case CALLER_SET_IP:
        slots[0] = (uintptr_t)caller_stub_place;
    }
    return &exchanges;
}

/* Writes the distance at `at`, which ends an instruction, to `to`: both in the stub. */
static void lead(uint8_t *code, size_t at, size_t to)
{
    int32_t distance = (int32_t)(to - (at + sizeof distance));

    if (at)
        memcpy(code + at, &distance, sizeof distance);
}

size_t caller_begin_stub(uint8_t code[CALLER_STUB], size_t which)
{
    uintptr_t slots[2];
    const struct shape *shape = shape_of(which, slots);

    memset(code, CALLER_PADDING, CALLER_STUB);
    memcpy(code + CALLER_SLOTS, slots, sizeof slots);
    memcpy(code, shape->code, shape->size);
    lead(code, shape->first, CALLER_SLOTS);
    lead(code, shape->second, CALLER_SLOTS + 8);
    lead(code, shape->call, shape->size);
    return shape->size;
}

void caller_describe(struct loader *l)
{
    struct rimf_described list[CALLER_FUNCTIONS];
    uintptr_t slots[2];

    for (size_t i = 0; i < CALLER_FUNCTIONS; i++) {
        const struct shape *shape = shape_of(i, slots);

        list[i] = (struct rimf_described){
            .start = l->caller->stubs + CALLER_STUB * i,
            .size = shape->size,
            .frame_size = shape->frame_size,
            .frame = shape->frame,
        };
    }
    rimf_image_describe(l->image, list, CALLER_FUNCTIONS);
}
