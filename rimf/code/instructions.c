/* SPDX-License-Identifier: MIT
 *
 * rimf/code/instructions.c: the instructions of one function, with liveness.
 *
 * Liveness is the usual backward data flow: live before an instruction is what it reads, and what is live
 * after it and not completely overwritten.  At a return, a call and a jump out of the function everything is
 * live: conventions between functions of one object need not be the ABI's.
 */
#include "rimf/code/code.h"

#include "rimf/base/base.h"
#include "rimf/x86/decode.h"
#include "rimf/x86/registers.h"

#include <errno.h> /* numbers only */

#define LIVE_ALL (MVLD_LIVE_FLAGS | REGISTERS_ALL)

struct effect {
    uint32_t reads, writes;
    uint32_t target; /* index of a jump's or branch's target; UINT32_MAX: elsewhere */
};

static size_t count(const uint8_t *code, size_t size)
{
    struct instruction i;
    size_t n = 0, at = 0;

    for (; at < size; at += i.length, n++)
        if (!decode(code + at, size - at, &i))
            return 0;
    return at == size ? n : 0;
}

static struct effect effect_of(const uint8_t *code, const struct instruction *i)
{
    struct registers r = registers_of(code, i);
    unsigned flags = flags_of(code, i);

    return (struct effect){
        .reads = r.read | r.bytes_read | (flags & FLAGS_READ ? MVLD_LIVE_FLAGS : 0),
        .writes = r.written | (flags & FLAGS_WRITTEN ? MVLD_LIVE_FLAGS : 0),
        .target = UINT32_MAX,
    };
}

/* std, popf: the direction flag may differ from the ABI's at a call. */
static int sets_direction(const struct instruction *i)
{
    return instruction_is(i, 0, 0xfd) || instruction_is(i, 0, 0x9d);
}

/* 1: its status flags, and the direction flag, are live everywhere. */
static int fill(struct code_instructions *all, struct effect *effects, const uint8_t *code, size_t size,
                uintptr_t address)
{
    struct instruction i;
    int direction = 0;
    size_t n = 0;

    for (size_t at = 0; at < size && decode(code + at, size - at, &i); at += i.length, n++) {
        enum flow flow = instruction_flow(&i);

        all->list[n] = (struct mvld_instruction){
            .address = address + at,
            .target = flow_is_relative(flow) ? branch_target(code + at, address + at, &i) : 0,
            .length = i.length,
            .flow = (uint8_t)flow,
            .others = n ? MVLD_OTHERS_UNKNOWN : MVLD_OTHERS_LEAD,
        };
        effects[n] = effect_of(code + at, &i);
        direction |= sets_direction(&i);
    }
    return direction;
}

struct mvld_instruction *code_instruction_at(const struct code_instructions *all, uintptr_t address)
{
    size_t i = RIMF_BISECT(i, all->n, all->list[i].address < address);

    return i < all->n && all->list[i].address == address ? &all->list[i] : NULL;
}

static void link_targets(const struct code_instructions *all, struct effect *effects)
{
    for (size_t i = 0; i < all->n; i++) {
        struct mvld_instruction *target = all->list[i].target ? code_instruction_at(all, all->list[i].target) : NULL;

        if (!target)
            continue;
        target->others = MVLD_OTHERS_LEAD;
        if (all->list[i].flow != MVLD_FLOW_CALL)
            effects[i].target = (uint32_t)(target - all->list);
    }
}

static uint32_t live_behind(const struct code_instructions *all, const struct effect *effects, size_t i)
{
    uint32_t next = i + 1 < all->n ? all->list[i + 1].live : LIVE_ALL;
    uint32_t target = effects[i].target != UINT32_MAX ? all->list[effects[i].target].live : LIVE_ALL;

    switch (all->list[i].flow) {
    case MVLD_FLOW_NEXT: return next;
    case MVLD_FLOW_JUMP: return target;
    case MVLD_FLOW_BRANCH: return next | target;
    }
    return LIVE_ALL;
}

static void decide(const struct code_instructions *all, const struct effect *effects, uint32_t always)
{
    for (int again = 1; again;) {
        again = 0;
        for (size_t i = all->n; i-- > 0;) {
            uint32_t live = always | effects[i].reads | (live_behind(all, effects, i) & ~effects[i].writes);

            again |= live != all->list[i].live;
            all->list[i].live = live;
        }
    }
}

int code_instructions_of(struct rimf_heap *heap, const uint8_t *code, size_t size, uintptr_t address, int decides,
                         struct code_instructions *all)
{
    size_t n = count(code, size);
    struct effect *effects;
    int direction;

    if (!n)
        return -ENOEXEC;
    *all = (struct code_instructions){rimf_heap_alloc(heap, n * sizeof *all->list), n};
    effects = all->list ? rimf_heap_alloc(heap, n * sizeof *effects) : NULL;
    if (!effects) {
        rimf_heap_release(heap, all->list);
        return -ENOMEM;
    }
    direction = fill(all, effects, code, size, address);
    link_targets(all, effects);
    decide(all, effects, decides ? MVLD_LIVE(RSP) | (direction ? MVLD_LIVE_FLAGS : 0) : LIVE_ALL);
    rimf_heap_release(heap, effects);
    return 0;
}

void code_instructions_release(struct rimf_heap *heap, struct code_instructions *all)
{
    rimf_heap_release(heap, all->list);
}

_Static_assert((int)MVLD_FLOW_NEXT == FLOW_NEXT && (int)MVLD_FLOW_CALL == FLOW_CALL &&
                   (int)MVLD_FLOW_CALL_INDIRECT == FLOW_CALL_INDIRECT && (int)MVLD_FLOW_JUMP == FLOW_JUMP &&
                   (int)MVLD_FLOW_BRANCH == FLOW_BRANCH && (int)MVLD_FLOW_JUMP_INDIRECT == FLOW_JUMP_INDIRECT &&
                   (int)MVLD_FLOW_END == FLOW_END,
               "one numbering");
