/* SPDX-License-Identifier: MIT
 *
 * loader/answers_find.c: where the C library looks from an address to an object.
 *
 *   _dl_find_dso_for_object   the host loader's; the library calls it, so every glibc
 *                             exports it (GLIBC_PRIVATE)
 *   _dl_addr                  the C library's; exported by glibc before 2.34, where
 *                             libdl calls it; a local function since then
 *
 * The local one is what dladdr and dladdr1 both end in:
 *
 *     dladdr:   …                               dladdr1:  …
 *               xor %ecx,%ecx                             …
 *               xor %edx,%edx                             …
 *               jmp _dl_addr                              jmp _dl_addr
 *
 * It is taken for that when nothing before these jumps changes the first argument, when
 * they lead nowhere else, when unwind tables say that a function begins there, and when it
 * calls _dl_find_dso_for_object.  And that the host loader itself asks
 * _dl_find_dso_for_object who called dlopen, instead of having its own copy of that code
 * inlined, is proved by a call near it.  What is not so is not known: then nobody is
 * hooked, and nothing may run in copies.
 */
#include "answers.h"

#include "decode.h"
#include "image.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

#define RX (PROT_READ | PROT_EXEC)
#define NEAR 16384u /* functions of one source file lie together */
#define RDI 7u

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

/* A function that `object` exports; its bytes can be read. */
static int exported(const struct mvld_object *object, const char *name, const char *version,
                    struct answer *out)
{
    struct mvld_symbol symbol;

    if (rimf_api()->symbol_find(object, name, version, &symbol) || symbol.type != STT_FUNC ||
        !symbol.size || !rimf_api()->object_holds(object, symbol.address, symbol.size, RX))
        return -ENOENT;
    *out = (struct answer){symbol.address, symbol.size};
    return 0;
}

static int32_t read_distance(const uint8_t *p)
{
    int32_t distance;

    memcpy(&distance, p, sizeof distance);
    return distance;
}

static uintptr_t branch_target(uintptr_t at, const struct instruction *i)
{
    const uint8_t *p = (const uint8_t *)at + i->immediate_at;
    intptr_t distance = i->immediate_size == 4 ? read_distance(p) : (int8_t)*p;

    return at + i->length + (uintptr_t)distance;
}

/* ---- unwind tables ---------------------------------------------------------------- */

static int readable(const struct mvld_object *object, uintptr_t at, size_t size)
{
    return rimf_api()->object_holds(object, at, size, PROT_READ);
}

/* The header that linkers write: version 1; pcrel|sdata4, udata4, datarel|sdata4. */
static uintptr_t frame_table(const struct mvld_object *object, uint32_t *n)
{
    static const uint8_t form[] = {1, 0x1b, 0x03, 0x3b};
    const Elf64_Phdr *ph = object->phdr;

    for (size_t i = 0; ph && i < object->phnum; i++) {
        uintptr_t header = object->bias + ph[i].p_vaddr;

        if (ph[i].p_type != PT_GNU_EH_FRAME || !readable(object, header, 12) ||
            memcmp((const void *)header, form, sizeof form) != 0)
            continue;
        *n = (uint32_t)read_distance((const uint8_t *)header + 8);
        return readable(object, header + 12, 8ul * *n) ? header : 0;
    }
    return 0;
}

/* The size of the function that begins at `function`, or 0: none is described there.
 *     table   … { start - header, FDE - header } …       ascending by start
 *     FDE     length, distance to CIE, start - here, size, … */
static size_t described(const struct mvld_object *object, uintptr_t function)
{
    uint32_t n = 0, low = 0, high;
    uintptr_t header = frame_table(object, &n), fde;
    const uint8_t *table = (const uint8_t *)header + 12;

    for (high = header ? n : 0; low < high;) {
        uint32_t middle = low + (high - low) / 2;

        if (header + (uintptr_t)(intptr_t)read_distance(table + 8ul * middle) < function)
            low = middle + 1;
        else
            high = middle;
    }
    if (!header || low == n ||
        header + (uintptr_t)(intptr_t)read_distance(table + 8ul * low) != function)
        return 0;
    fde = header + (uintptr_t)(intptr_t)read_distance(table + 8ul * low + 4);
    if (!readable(object, fde, 16) ||
        fde + 8 + (uintptr_t)(intptr_t)read_distance((const uint8_t *)fde + 8) != function)
        return 0;
    return (uint32_t)read_distance((const uint8_t *)fde + 12);
}

/* ---- dladdr ------------------------------------------------------------------------ */

static unsigned reg_of(const struct instruction *i)
{
    return modrm_reg(i) | (i->rex & 4u) << 1;
}

static unsigned rm_of(const struct instruction *i)
{
    return (i->modrm & 7u) | (i->rex & 1u) << 3;
}

static int is_register(const struct instruction *i)
{
    return i->modrm >= 0xc0;
}

/* It is one of those that compilers put before a tail call, and %rdi is as before. */
static int keeps_argument(const struct instruction *i)
{
    unsigned low = (i->opcode & 7u) | (i->rex & 1u) << 3;

    if (i->encoding != ENCODING_LEGACY || i->map > 1)
        return 0;
    if (i->map == 1)
        return i->opcode == 0x1e || i->opcode == 0x1f || /* endbr64, nop */
               (i->opcode >= 0x80 && i->opcode <= 0x8f) || /* jcc */
               (i->opcode >= 0x40 && i->opcode <= 0x4f && reg_of(i) != RDI); /* cmovcc */
    if ((i->opcode >= 0x50 && i->opcode <= 0x57) || (i->opcode >= 0x70 && i->opcode <= 0x7f))
        return 1; /* push, jcc */
    if ((i->opcode >= 0x58 && i->opcode <= 0x5f) || (i->opcode >= 0xb8 && i->opcode <= 0xbf))
        return low != RDI; /* pop; mov $imm */
    switch (i->opcode) {
    case 0x8b: /* mov to a register, lea, xor */
    case 0x8d:
    case 0x33: return reg_of(i) != RDI;
    case 0x89: /* mov from a register, xor */
    case 0x31: return is_register(i) && rm_of(i) != RDI;
    case 0x39: /* cmp, test */
    case 0x3b:
    case 0x84:
    case 0x85: return 1;
    case 0x81: /* cmp $imm; add, sub of the stack pointer */
    case 0x83: return modrm_reg(i) == 7 || (is_register(i) && rm_of(i) == 4);
    case 0x90: /* nop, leave, jmp */
    case 0xc9:
    case 0xe9:
    case 0xeb: return 1;
    case 0xff: return modrm_reg(i) == 4; /* jmp *: to a statically linked dlopen's */
    }
    return 0;
}

/* Where the direct jumps out of the function all lead, or 0. */
static uintptr_t tail_of(const struct answer *function)
{
    uintptr_t at = function->at, end = at + function->size, tail = 0;
    struct instruction i;

    for (; at < end; at += i.length) {
        uintptr_t target;

        if (!decode((const uint8_t *)at, end - at, &i) || i.odd || !keeps_argument(&i))
            return 0;
        if (!flow_is_relative(instruction_flow(&i)))
            continue;
        target = branch_target(at, &i);
        if (target >= function->at && target < end)
            continue;
        if (tail && tail != target)
            return 0;
        tail = target;
    }
    return tail;
}

/* Does it call `callee`: directly, through an entry of the PLT, or through a GOT slot? */
static int calls(struct mvld_image *image, const struct mvld_object *object,
                 const struct answer *function, uintptr_t callee)
{
    uintptr_t at = function->at, end = at + function->size;
    struct instruction i;

    for (; at < end; at += i.length) {
        const uint8_t *p = (const uint8_t *)at;
        struct mvld_slot slot;

        if (!decode(p, end - at, &i))
            return 0;
        if (instruction_is(&i, 0, 0xe8) &&
            rimf_api()->plt_target(image, branch_target(at, &i)) == callee)
            return 1;
        if (instruction_is(&i, 0, 0xff) && i.rip && modrm_reg(&i) == 2 &&
            rimf_api()->slot_find(image, object,
                                  at + i.length +
                                      (uintptr_t)(intptr_t)read_distance(p + i.displacement_at),
                                  &slot) == 0 &&
            slot.target == callee)
            return 1;
    }
    return 0;
}

static int find_addr(struct mvld_image *image, const struct answer *asked, struct answer *out,
                     const char **why)
{
    const struct mvld_object *libc = object_with(image, "gnu_get_libc_version", "GLIBC_2.2.5");
    struct answer dladdr, dladdr1;

    *why = "the program has no C library that is known";
    if (!libc)
        return -ENOTSUP;
    *why = "the C library has no _dl_addr of the known form";
    if (exported(libc, "_dl_addr", "GLIBC_PRIVATE", out)) {
        if (exported(libc, "dladdr", NULL, &dladdr) || exported(libc, "dladdr1", NULL, &dladdr1))
            return -ENOTSUP;
        out->at = tail_of(&dladdr);
        if (!out->at || tail_of(&dladdr1) != out->at)
            return -ENOTSUP;
        out->size = described(libc, out->at);
    }
    if (!out->size || !rimf_api()->object_holds(libc, out->at, out->size, RX) ||
        !calls(image, libc, out, asked->at))
        return -ENOTSUP;
    return 0;
}

/* ---- the host loader ---------------------------------------------------------------- */

/* Is there a call of the function near it?  Any e8 with that distance will do. */
static int is_called_near(const struct host *host, uintptr_t function)
{
    uintptr_t at = function - host->text > NEAR ? function - NEAR : host->text;
    uintptr_t end = host->text_end - function > NEAR ? function + NEAR : host->text_end;

    for (; at + 5 <= end; at++) {
        const uint8_t *p = (const uint8_t *)at;

        if (*p == 0xe8 && at + 5 + (uintptr_t)(intptr_t)read_distance(p + 1) == function)
            return 1;
    }
    return 0;
}

static int find_dso(const struct loader *l, struct answer *out, const char **why)
{
    const struct mvld_object *host =
        object_with(l->image, "_dl_find_dso_for_object", "GLIBC_PRIVATE");

    *why = "the host loader has no _dl_find_dso_for_object of the known form";
    if (!host || !(host->flags & MVLD_OBJECT_LOADER) ||
        exported(host, "_dl_find_dso_for_object", "GLIBC_PRIVATE", out))
        return -ENOTSUP;
    if (out->at < l->host.text || out->at >= l->host.text_end ||
        !is_called_near(&l->host, out->at))
        return -ENOTSUP;
    return 0;
}

int answers_find(const struct loader *l, struct answer *dso_for_object, struct answer *addr,
                 const char **why)
{
    int err = find_dso(l, dso_for_object, why);

    return err ? err : find_addr(l->image, dso_for_object, addr, why);
}
