/* SPDX-License-Identifier: MIT
 *
 * rimf/image/plt.c: follows a PLT entry to its function.
 *
 * If an executable at a fixed address takes the address of a library's function, it gets that of its own
 * PLT entry, and pointers and GOT slots of the whole process contain it.  Entries have these forms, each
 * with or without a leading endbr64 (f3 0f 1e fa):
 *
 *     ff 25 rel32                       jmp *slot(%rip)         .plt, .plt.got
 *     f2 ff 25 rel32                    bnd jmp *slot(%rip)     .plt.sec
 *     41 bb imm32, ff 25 rel32          mov $n,%r11d; jmp *…    mold's .plt
 *     68 imm32, e9 rel32                push $n; jmp plt0       behind .plt.sec; also
 *     68 imm32, f2 e9 rel32             push $n; bnd jmp plt0   what an unbound slot holds
 *
 * Ordinary functions may begin like this, too (`void f(void) { pointer(); }`).  A PLT entry is recognised
 * by the relocation on its slot.
 *
 * An unbound slot points back into its own object's PLT, to a push or to plt0 (ff 35, mold: 41 53 ff 35:
 * push the argument of the host loader's resolver).  Then the symbol is looked up as the host loader would.
 * If only the host loader can know (the choice of an IFUNC, an ambiguous name), the result is the entry
 * itself.
 */
#include "rimf/image/private.h"

#include "rimf/base/base.h"
#include "rimf/image/original.h"
#include "rimf/x86/decode.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

#define STEPS 8 /* an entry may jump to another object's entry */

struct code {
    const uint8_t *at;
    size_t left;
};

static struct code code_at(const struct rimf_object *object, uintptr_t address)
{
    struct code code = {(const uint8_t *)address, 0};

    if (elf_holds(&object->view, address, 1, PROT_READ | PROT_EXEC))
        code.left = elf_room(&object->view, address);
    return code;
}

static int skip(struct code *code, const char *bytes, size_t n, size_t operand)
{
    if (code->left < n + operand || memcmp(code->at, bytes, n) != 0)
        return 0;
    code->at += n + operand;
    code->left -= n + operand;
    return 1;
}

/* push $n; [bnd] jmp plt0 */
static int is_lazy_entry(struct code code, uint32_t *n)
{
    skip(&code, "\xf3\x0f\x1e\xfa", 4, 0);
    if (!skip(&code, "\x68", 1, 4))
        return 0;
    *n = (uint32_t)distance_at(code.at - 4);
    return skip(&code, "\xe9", 1, 4) || skip(&code, "\xf2\xe9", 2, 4);
}

/* push GOT[1](%rip) */
static int is_plt0(struct code code)
{
    skip(&code, "\xf3\x0f\x1e\xfa", 4, 0);
    skip(&code, "\x41\x53", 2, 0);
    return skip(&code, "\xff\x35", 2, 4);
}

/* The slot that the entry jumps through, or 0. */
static uintptr_t slot_of(struct code code)
{
    size_t size = plt_entry_size(code.at, code.left);

    return size ? (uintptr_t)code.at + size + (uintptr_t)distance_at(code.at + size - 4) : 0;
}

static int relocation_of(const struct rimf_object *object, uintptr_t address, Elf64_Rela *out)
{
    struct code code = code_at(object, address);
    uintptr_t slot = slot_of(code);
    uint32_t n;

    if (slot)
        return elf_slot_relocation(&object->view, slot, out);
    if (!is_lazy_entry(code, &n) || n >= object->view.n_plt_relocations)
        return -ENOENT;
    *out = object->view.plt_relocations[n];
    return ELF64_R_TYPE(out->r_info) == R_X86_64_JUMP_SLOT ? 0 : -ENOENT;
}

enum rimf_slot_state rimf_slot_value(const struct mvld_image *image, const struct rimf_object *object, uintptr_t slot,
                                     int lazy, uintptr_t *value, const struct mvld_object **holder)
{
    struct code code;
    uint32_t n;

    if (slot % 8 != 0 || elf_room(&object->view, slot) < sizeof *value)
        return RIMF_SLOT_ODD;
    *value = rimf_unmoved(image, __atomic_load_n((const uintptr_t *)slot, __ATOMIC_ACQUIRE));
    *holder = rimf_object_find(image, *value);
    if (!*holder || !elf_holds(&rimf_object_of(*holder)->view, *value, 1, PROT_EXEC))
        return rimf_is_new_code(image, *value) ? RIMF_SLOT_BOUND : RIMF_SLOT_ODD;
    if (*holder != &object->public || !lazy)
        return RIMF_SLOT_BOUND;
    code = code_at(object, *value);
    return is_lazy_entry(code, &n) || is_plt0(code) ? RIMF_SLOT_LAZY : RIMF_SLOT_BOUND;
}

uintptr_t rimf_plt_slot(const struct mvld_object *object, uintptr_t entry)
{
    return slot_of(code_at(rimf_object_of(object), entry));
}

static uintptr_t step(const struct mvld_image *image, uintptr_t address)
{
    const struct mvld_object *public = rimf_object_find(image, address), *holder;
    const struct rimf_object *object = rimf_object_of(public);
    struct mvld_symbol symbol;
    Elf64_Rela relocation;
    uintptr_t value;

    if (!public || relocation_of(object, address, &relocation))
        return address;
    if (rimf_slot_value(image, object, object->view.bias + relocation.r_offset, 1, &value, &holder) == RIMF_SLOT_BOUND)
        return value;
    if (ELF64_R_TYPE(relocation.r_info) == R_X86_64_IRELATIVE ||
        rimf_symbol_bind(image, object, ELF64_R_SYM(relocation.r_info), &symbol) ||
        symbol.type == STT_GNU_IFUNC || symbol.type == STT_TLS || !symbol.address)
        return address;
    return symbol.address;
}

uintptr_t rimf_plt_target(const struct mvld_image *image, uintptr_t address)
{
    uintptr_t at;

    address = rimf_unmoved(image, address);
    at = address;
    for (int i = 0; i < STEPS; i++) {
        uintptr_t next = step(image, at);

        if (next == at)
            return at;
        at = next;
    }
    return address; /* a cycle of entries */
}
