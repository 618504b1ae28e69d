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

#include "loader/host/host.h"
#include "rimf/image/image.h"
#include "rimf/moved/moved.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

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
    case CALLER_VSYM:
        slots[0] = (uintptr_t)caller_stub_fourth;
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
    struct rimf_described *list = rimf_api()->alloc(l->image, CALLER_FUNCTIONS * sizeof *list);
    uintptr_t slots[2];

    if (!list)
        return; /* for unwinders the stack ends there */
    rimf_image_feeder(l->image)->described = list;
    rimf_image_feeder(l->image)->n_described = CALLER_FUNCTIONS;
    for (size_t i = 0; i < CALLER_FUNCTIONS; i++) {
        const struct shape *shape = shape_of(i, slots);

        list[i] = (struct rimf_described){
            .start = l->caller->stubs + CALLER_STUB * i,
            .size = shape->size,
            .frame_size = shape->frame_size,
            .frame = shape->frame,
        };
    }
}

/* ---- what a snapshot does not contain -------------------------------------------------------- */

/* The jumps in the C library and the unwinder are in their code in the snapshot, which is mapped
 * once the hooks exist.  The stubs remain, because their slots point to us, and the jumps in the
 * host loader, whose code has our hook and is in no snapshot.  Each of the two is in one mapping
 * that is written only now, and no code of the program has run.  So two mprotects each are enough,
 * without the patch engine's checks.
 */

static int is_hosts(const struct loader *l, const struct hook *hook)
{
    return hook->at >= l->host->text && hook->at < l->host->text_end;
}

/* Whether every jump is in the snapshot or in the host loader. */
static int is_brought(const struct loader *l, const struct hooks *hooks)
{
    for (size_t i = 0; i < hooks->n; i++)
        if (!is_hosts(l, &hooks->at[i]) && !rimf_image_maps_over(l->image, hooks->at[i].at))
            return 0;
    return 1;
}

/* If the second mprotect fails, the stubs are not executable, and no jump to them exists. */
static int write_stubs(const struct loader *l, const struct hooks *hooks)
{
    uintptr_t start = rimf_page_down(l->caller->stubs);
    size_t size = rimf_page_up(l->caller->stubs + CALLER_FUNCTIONS * CALLER_STUB) - start;
    long err = sys_mprotect(l->sys, start, size, PROT_READ | PROT_WRITE);

    for (size_t i = 0; i < hooks->n && !err; i++)
        memcpy((void *)hooks->at[i].stub, hooks->at[i].code, CALLER_STUB);
    return (int)(err ? err : sys_mprotect(l->sys, start, size, PROT_READ | PROT_EXEC));
}

static int write_hosts_jumps(const struct loader *l, const struct hooks *hooks)
{
    struct text_patch patches[CALLER_FUNCTIONS];
    size_t n = 0;

    for (size_t i = 0; i < hooks->n; i++) {
        if (!is_hosts(l, &hooks->at[i]))
            continue;
        patches[n] = (struct text_patch){.at = hooks->at[i].at, .length = DISPLACE_JUMP};
        memcpy(patches[n++].bytes, hooks->at[i].jump, DISPLACE_JUMP);
    }
    return text_write_again(l->sys, l->host, patches, n);
}

int caller_snapshot(struct loader *l)
{
    struct hooks hooks;
    const char *why;
    int err = l->caller->kept && l->host->by_mprotect ? 0 : -ENOTSUP;

    if (!err)
        err = caller_hooks(l->caller, 0, l->caller->unwinder ? CALLER_FUNCTIONS : CALLER_NEEDED,
                            &hooks, &why);
    if (!err)
        err = is_brought(l, &hooks) ? write_stubs(l, &hooks) : -ENOTSUP;
    if (!err)
        err = write_hosts_jumps(l, &hooks);
    if (!err)
        rimf_log(&l->log, MVLD_LOG_FILES, "caller hooks: %zu, as in the snapshot", hooks.n);
    return err;
}
