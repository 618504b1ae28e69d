/* SPDX-License-Identifier: MIT
 *
 * loader/caller/find.c: finds the functions by which the C library maps an address to an object.
 *
 *   _dl_find_dso_for_object   the host loader's; the library calls it, so every glibc
 *                             exports it (GLIBC_PRIVATE)
 *   _dl_addr                  the C library's; exported by glibc before 2.34, where
 *                             libdl calls it; a local function since then
 *   do_sym                    the C library's; local.  It compares the caller of
 *                             dlsym(RTLD_NEXT) with the bounds of the executable.  Ubuntu's
 *                             compiler inlines it in _dl_sym and _dl_vsym, for dlsym and dlvsym
 *   _dl_open                  the host loader's; local.  In glibc 2.43 it passes the caller
 *                             of dlopen to _dl_find_object.  The latter also serves
 *                             unwinders, and must continue to return moved code
 *
 * Where _dl_addr is local, dladdr and dladdr1 both end in it:
 *
 *     dladdr:   …                               dladdr1:  …
 *               xor %ecx,%ecx                             …
 *               xor %edx,%edx                             …
 *               jmp _dl_addr                              jmp _dl_addr
 *
 * Conditions: nothing before these jumps changes the first argument, they have no other target, an
 * unwind table describes a function that begins there, and that function calls
 * _dl_find_dso_for_object.
 *
 * do_sym is the only other function near _dl_addr that calls it, each time with its own third
 * argument (caller/code.c), and that compares with RTLD_NEXT.  So is _dl_sym, if do_sym is inlined; then there is one
 * more, _dl_vsym, which does so with its fourth argument.  _dl_open is recognised by a call
 * near _dl_find_dso_for_object: either of that function, and then nothing more is needed; or of
 * _dl_find_object with its third argument.
 *
 * If one of them is not found, nothing is hooked, and no code may run in moved code.
 */
#include "loader/caller/private.h"

#include "rimf/elf/frame_table.h"
#include "rimf/image/image.h"
#include "rimf/moved/moved.h"
#include "rimf/x86/decode.h"
#include "rimf/x86/registers.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

#define RX (PROT_READ | PROT_EXEC)
#define NEAR 8192u /* functions of one source file are near each other */

static const struct mvld_object *object_with(const struct mvld_image *image, const char *name,
                                             const char *version)
{
    const struct mvld_api *api = rimf_api();
    struct mvld_symbol symbol;

    for (size_t i = 0, n = api->object_count(image); i < n; i++) {
        const struct mvld_object *object = api->object_at(image, i);

        if (object && api->symbol_find(object, name, version, &symbol) == 0)
            return object;
    }
    return NULL;
}

/* Finds a function that `object` exports and whose bytes are readable: 0 or -ENOENT. */
static int exported(const struct mvld_object *object, const char *name, const char *version,
                    struct caller_function *out)
{
    struct mvld_symbol symbol;

    if (rimf_api()->symbol_find(object, name, version, &symbol) || symbol.type != STT_FUNC ||
        !symbol.size || !rimf_api()->object_holds(object, symbol.address, symbol.size, RX))
        return -ENOENT;
    *out = (struct caller_function){symbol.address, symbol.size};
    return 0;
}

/* ---- unwind tables ---------------------------------------------------------------- */

static int readable(const struct mvld_object *object, uintptr_t at, size_t size)
{
    return rimf_api()->object_holds(object, at, size, PROT_READ);
}

/* Finds the function that contains `address`: 0, or -ENOENT: none is described there. */
static int described(const struct mvld_object *object, uintptr_t address, struct caller_function *out)
{
    struct elf_frame frame;
    int error = elf_frame_find(object, rimf_api()->object_holds, address, &frame);

    if (!error)
        *out = (struct caller_function){frame.start, frame.size};
    return error;
}

/* ---- callers ---------------------------------------------------------------------------- */

/* The part of its segment near the address. */
static struct mvld_segment near_segment(const struct mvld_object *object, uintptr_t address)
{
    struct mvld_segment near = {0, 0, 0};

    for (size_t i = 0; i < object->n_segments; i++) {
        const struct mvld_segment *s = &object->segments[i];

        if (address < s->start || address >= s->end || (s->prot & RX) != RX)
            continue;
        near.start = address - s->start > NEAR ? address - NEAR : s->start;
        near.end = s->end - address > NEAR ? address + NEAR : s->end;
    }
    return near;
}

/* The first such call at `at` or behind it, or 0. */
static uintptr_t next_call(const struct mvld_segment *near, struct call_way way, uintptr_t at)
{
    unsigned length = way.slot ? 6 : 5;

    for (; at + length <= near->end; at++) {
        const uint8_t *p = (const uint8_t *)at;

        if ((way.slot ? p[0] == 0xff && p[1] == 0x15 : p[0] == 0xe8) &&
            at + length + (uintptr_t)distance_at(p + length - 4) == way.through)
            return at;
    }
    return 0;
}

/* The only other function near `from` that makes such a call; with `asks`, at least that often with
 * the argument that is in this register. */
static int find_caller(const struct mvld_object *object, const struct caller_function *from, struct call_way way,
                       unsigned asks, unsigned argument, struct caller_function *out)
{
    struct mvld_segment near = near_segment(object, from->at);
    struct caller_function found = {0, 0}, holder;

    for (uintptr_t at = near.start; (at = next_call(&near, way, at)); at++) {
        if (described(object, at, &holder))
            return -ENOENT;
        if (holder.at == from->at || holder.at == found.at ||
            (asks && caller_asks(&holder, way, argument) < asks))
            continue;
        if (found.at)
            return -ENOENT;
        found = holder;
    }
    *out = found;
    return found.at ? 0 : -ENOENT;
}

/* ---- the C library --------------------------------------------------------------------- */

/* Whether a function begins at `at`. */
static int local(const struct mvld_object *object, uintptr_t at, struct caller_function *out)
{
    return at && described(object, at, out) == 0 && out->at == at ? 0 : -ENOENT;
}

static int find_addr(const struct mvld_object *libc, struct caller_function *out)
{
    struct caller_function dladdr, dladdr1;

    if (exported(libc, "_dl_addr", "GLIBC_PRIVATE", out) == 0)
        return 0;
    if (exported(libc, "dladdr", NULL, &dladdr) ||
        exported(libc, "dladdr1", NULL, &dladdr1) ||
        caller_tail(&dladdr) != caller_tail(&dladdr1))
        return -ENOENT;
    return local(libc, caller_tail(&dladdr), out);
}

/* Whether no other function near _dl_addr makes such a call: it would be asked with addresses of moved code. */
static int are_all(const struct mvld_object *libc, const struct caller_function *functions, struct call_way way)
{
    struct mvld_segment near = near_segment(libc, functions[CALLER_ADDR].at);
    struct caller_function holder;

    for (uintptr_t at = near.start; (at = next_call(&near, way, at)); at++)
        if (described(libc, at, &holder) ||
            (holder.at != functions[CALLER_ADDR].at && holder.at != functions[CALLER_SYM].at &&
             holder.at != functions[CALLER_VSYM].at))
            return 0;
    return 1;
}

static int find_in_libc(struct mvld_image *image, const struct mvld_object *libc,
                        struct caller_function *functions, const char **why)
{
    static const uint8_t next[4] = {0x48, 0x83, 0xff, 0xff}; /* cmp $-1, %rdi: RTLD_NEXT */
    struct caller_function *addr = &functions[CALLER_ADDR], *sym = &functions[CALLER_SYM],
                           *vsym = &functions[CALLER_VSYM];
    struct call_way way;

    *why = "the C library has no _dl_addr of the known form";
    if (find_addr(libc, addr))
        return -ENOTSUP;
    way = caller_way(image, libc, addr, functions[CALLER_OBJECT].at);
    if (!way.through)
        return -ENOTSUP;
    *why = "the C library's dlsym is not of the known form";
    if (find_caller(libc, addr, way, 2, RDX, sym) || !caller_compares(sym, next))
        return -ENOTSUP;
    if (find_caller(libc, addr, way, 2, RCX, vsym) == 0 && !caller_compares(vsym, next))
        return -ENOTSUP;
    return are_all(libc, functions, way) ? 0 : -ENOTSUP;
}

/* ---- the host loader ---------------------------------------------------------------- */

/* The host loader's _dl_find_object, which the C library exports:
 *     48 8b 05 <rel32>      mov slot(%rip), %rax      _rtld_global_ro
 *     ff a0 <disp32>        jmp *disp(%rax) */
static uintptr_t find_object(const struct mvld_object *host, const struct mvld_object *libc)
{
    static const uint8_t load[] = {0x48, 0x8b, 0x05};
    struct caller_function function;
    const uint8_t *p;
    uintptr_t at;

    if (exported(libc, "_dl_find_object", "GLIBC_2.35", &function) || function.size < 13)
        return 0;
    p = (const uint8_t *)function.at;
    if (function.size >= 17)
        p += endbr64_size(p, function.size);
    if (memcmp(p, load, sizeof load) != 0 || p[7] != 0xff || p[8] != 0xa0)
        return 0;
    at = (uintptr_t)p + 7 + (uintptr_t)distance_at(p + 3);
    if (at % 8 || !readable(libc, at, 8))
        return 0;
    at = *(const uintptr_t *)at + (uintptr_t)distance_at(p + 9);
    return at % 8 == 0 && readable(host, at, 8) ? *(const uintptr_t *)at : 0;
}

/* Finds the function that uses the caller of dlopen: _dl_find_dso_for_object, or _dl_open itself,
 * which calls _dl_find_object. */
static int find_open(const struct mvld_object *host, const struct mvld_object *libc,
                     const struct caller_function *asked, struct caller_function *out)
{
    struct call_way way = {asked->at, 0};
    struct caller_function open;

    *out = (struct caller_function){0, 0};
    if (find_caller(host, asked, way, 0, RDX, &open) == 0)
        return 0;
    way.through = find_object(host, libc);
    if (!way.through || find_caller(host, asked, way, 1, RDX, &open))
        return -ENOENT;
    *out = open;
    return 0;
}

static int find_in_host(const struct loader *l, const struct mvld_object *libc,
                        struct caller_function *functions, const char **why)
{
    static const char name[] = "_dl_find_dso_for_object";
    const struct mvld_object *host = object_with(l->image, name, "GLIBC_PRIVATE");

    *why = "the host loader has no _dl_find_dso_for_object";
    if (!host || !(host->flags & MVLD_OBJECT_LOADER) ||
        exported(host, name, "GLIBC_PRIVATE", &functions[CALLER_OBJECT]))
        return -ENOTSUP;
    *why = "the host loader's dlopen is not of the known form";
    return find_open(host, libc, &functions[CALLER_OBJECT], &functions[CALLER_OPEN]) ? -ENOTSUP
                                                                                     : 0;
}

int caller_find(const struct loader *l, struct caller_function *functions, const char **why)
{
    const struct mvld_object *libc = object_with(l->image, "gnu_get_libc_version", "GLIBC_2.2.5");
    int err;

    *why = "the program has no C library that is known";
    if (!libc)
        return -ENOTSUP;
    err = find_in_host(l, libc, functions, why);
    return err ? err : find_in_libc(l->image, libc, functions, why);
}

/* ---- the unwinder ---------------------------------------------------------------------------- */

/* backtrace() and other stack walkers get the program counter of each frame from libgcc_s, and use
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
        if (exported(symbol.object, shapes[i].name, shapes[i].version, &found[i]) ||
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
