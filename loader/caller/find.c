/* SPDX-License-Identifier: MIT
 *
 * loader/caller/find.c: finds the functions by which the C library maps an address to an object.
 *
 *   _dl_find_dso_for_object   the host loader's; the library calls it, so every glibc
 *                             exports it (GLIBC_PRIVATE)
 *   _dl_addr                  the C library's; exported by glibc before 2.34, where
 *                             libdl calls it; a local function since then
 *   do_sym                    the C library's; local.  It compares the caller of
 *                             dlsym(RTLD_NEXT) with the bounds of the executable
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
 * argument (caller/code.c), and that compares with RTLD_NEXT.  _dl_open is recognised by a call
 * near _dl_find_dso_for_object: either of that function, and then nothing more is needed; or of
 * _dl_find_object with its third argument.
 *
 * If one of them is not found, nothing is hooked, and no code may run in moved code.
 */
#include "loader/caller/private.h"

#include "rimf/x86/decode.h"
#include "rimf/elf/frame_table.h"
#include "rimf/image/image.h"

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

int caller_exported(const struct mvld_object *object, const char *name, const char *version,
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

/* The only other function near `from` that makes such a call; with `asks`, at least that often with
 * its third argument. */
static int find_caller(const struct mvld_object *object, const struct caller_function *from,
                       struct call_way way, unsigned asks, struct caller_function *out)
{
    struct mvld_segment near = near_segment(object, from->at);
    struct caller_function found = {0, 0}, holder;
    unsigned length = way.slot ? 6 : 5;

    for (uintptr_t at = near.start; at + length <= near.end; at++) {
        const uint8_t *p = (const uint8_t *)at;

        if ((way.slot ? p[0] != 0xff || p[1] != 0x15 : p[0] != 0xe8) ||
            at + length + (uintptr_t)distance_at(p + length - 4) != way.through)
            continue;
        if (described(object, at, &holder))
            return -ENOENT;
        if (holder.at == from->at || holder.at == found.at ||
            (asks && caller_asks(&holder, way) < asks))
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

    if (caller_exported(libc, "_dl_addr", "GLIBC_PRIVATE", out) == 0)
        return 0;
    if (caller_exported(libc, "dladdr", NULL, &dladdr) ||
        caller_exported(libc, "dladdr1", NULL, &dladdr1) ||
        caller_tail(&dladdr) != caller_tail(&dladdr1))
        return -ENOENT;
    return local(libc, caller_tail(&dladdr), out);
}

static int find_in_libc(struct mvld_image *image, const struct mvld_object *libc,
                        struct caller_function *functions, const char **why)
{
    static const uint8_t next[4] = {0x48, 0x83, 0xff, 0xff}; /* cmp $-1, %rdi: RTLD_NEXT */
    struct caller_function *addr = &functions[CALLER_ADDR], *sym = &functions[CALLER_SYM];
    struct call_way way;

    *why = "the C library has no _dl_addr of the known form";
    if (find_addr(libc, addr))
        return -ENOTSUP;
    way = caller_way(image, libc, addr, functions[CALLER_OBJECT].at);
    if (!way.through)
        return -ENOTSUP;
    *why = "the C library's dlsym is not of the known form";
    return find_caller(libc, addr, way, 2, sym) || !caller_compares(sym, next) ? -ENOTSUP : 0;
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

    if (caller_exported(libc, "_dl_find_object", "GLIBC_2.35", &function) || function.size < 13)
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
    if (find_caller(host, asked, way, 0, &open) == 0)
        return 0;
    way.through = find_object(host, libc);
    if (!way.through || find_caller(host, asked, way, 1, &open))
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
        caller_exported(host, name, "GLIBC_PRIVATE", &functions[CALLER_OBJECT]))
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
