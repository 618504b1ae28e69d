/* SPDX-License-Identifier: MIT
 *
 * loader/caller/unwind.c: makes the unwinder return original addresses for frames in moved code.
 *
 * backtrace() and other stack walkers get the program counter of each frame from libgcc_s, and use
 * it to look up names: they subtract the object's or the function's start, and read symbols and
 * line tables with the result.  So they must get original addresses.  So must language runtimes
 * that look for landing pads.  The address at which they continue the program is then an original
 * one, and is replaced by that of moved code:
 *
 *     _Unwind_GetIP            48 8b 87 <pc>       mov pc(%rdi), %rax
 *                              c3                  ret
 *     _Unwind_GetIPInfo        48 8b 87 <flags>    mov flags(%rdi), %rax
 *                              48 c1 f8 3f         sar $63, %rax
 *                              83 e0 01            and $1, %eax
 *                              89 06               mov %eax, (%rsi)
 *                              48 8b 87 <pc>       mov pc(%rdi), %rax
 *                              c3                  ret
 *     _Unwind_GetRegionStart   48 8b 87 <start>    mov start(%rdi), %rax
 *                              c3                  ret
 *     _Unwind_SetIP            48 89 b7 <pc>       mov %rsi, pc(%rdi)
 *                              c3                  ret
 *
 * each with or without endbr64 in front.  Either all four are hooked or none, because a caller that
 * gets an original program counter must get the start of the original function.  Without hooks
 * nothing is wrong: landing pads are found in moved code, and backtraces contain addresses of moved
 * code.
 *
 * The unwinder's own work does not go through these functions.
 */
#include "loader/caller/private.h"

#include "rimf/moved/moved.h"
#include "rimf/image/image.h"
#include "rimf/x86/decode.h"

#include <errno.h> /* numbers only */

struct shape {
    const char *name, *version;
    size_t size;
    uint8_t bytes[24];
    uint8_t pc; /* offset of the displacement of the program counter; 0: none */
    uint8_t any; /* offset of another displacement; 0: none */
};

static const struct shape shapes[] = {
    {"_Unwind_GetIP", "GCC_3.0", 8, {0x48, 0x8b, 0x87, 0, 0, 0, 0, 0xc3}, 3, 0},
    {"_Unwind_GetIPInfo", "GCC_4.2.0", 24,
     {0x48, 0x8b, 0x87, 0, 0, 0, 0, 0x48, 0xc1, 0xf8, 0x3f, 0x83, 0xe0, 0x01, 0x89, 0x06,
      0x48, 0x8b, 0x87, 0, 0, 0, 0, 0xc3}, 19, 3},
    {"_Unwind_GetRegionStart", "GCC_3.0", 8, {0x48, 0x8b, 0x87, 0, 0, 0, 0, 0xc3}, 0, 3},
    {"_Unwind_SetIP", "GCC_3.0", 8, {0x48, 0x89, 0xb7, 0, 0, 0, 0, 0xc3}, 3, 0},
};

_Static_assert(sizeof shapes / sizeof *shapes == CALLER_FUNCTIONS - CALLER_NEEDED, "in their order");

/* Whether it has this shape, with the same displacement as the earlier ones (0: any). */
static int has_shape(const struct caller_function *function, const struct shape *shape, uint32_t *pc)
{
    const uint8_t *code = (const uint8_t *)function->at;
    size_t start = endbr64_size(code, function->size), size = function->size - start;
    uint8_t bytes[sizeof shape->bytes];
    uint32_t displacement;

    if (size != shape->size)
        return 0;
    memcpy(bytes, code + start, size);
    if (shape->pc) {
        memcpy(&displacement, bytes + shape->pc, sizeof displacement);
        memset(bytes + shape->pc, 0, sizeof displacement);
        if (*pc && *pc != displacement)
            return 0;
        *pc = displacement;
    }
    if (shape->any)
        memset(bytes + shape->any, 0, sizeof displacement);
    return memcmp(bytes, shape->bytes, size) == 0;
}

int caller_find_unwinder(struct loader *l)
{
    const struct mvld_api *api = rimf_api();
    struct caller_hooks *caller = l->caller;
    struct caller_function found[CALLER_FUNCTIONS - CALLER_NEEDED];
    struct mvld_symbol symbol;
    uint32_t pc = 0;

    if (api->symbol_resolve(l->image, shapes[0].name, shapes[0].version, &symbol))
        return -ENOENT;
    for (size_t i = 0; i < RIMF_COUNT(shapes); i++)
        if (caller_exported(symbol.object, shapes[i].name, shapes[i].version, &found[i]) ||
            !has_shape(&found[i], &shapes[i], &pc))
            return -ENOTSUP;
    memcpy(caller->functions + CALLER_NEEDED, found, sizeof found);
    caller->context = pc;
    caller->unwinder = symbol.object;
    return 0;
}

/* Where a frame continues that shall continue at `address`: in moved code if the frame is. */
uintptr_t loader_caller_place(const struct loader *l, uintptr_t context, uintptr_t address)
{
    uintptr_t pc = *(const uintptr_t *)(context + l->caller->context);
    uintptr_t original = rimf_original_of(l->image, pc), moved = address + (pc - original);

    return original && rimf_original_of(l->image, moved) == address ? moved : address;
}
