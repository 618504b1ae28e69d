/* SPDX-License-Identifier: MIT
 *
 * registers FILE...: the registers, and the status flags, of each instruction in the executable sections of real files against
 * Zydis.  What Zydis reads is said to be read; what it writes is said to be read or written; and what is said to be
 * written whole, or to be a byte, is so.  A failure means that a register is thought to
 * hold what it no longer holds, or that a use of its value is not seen.
 */
#include "../../check.h"

#include "rimf/x86/registers.h"
#include "rimf/analyze/object.h"

#include <Zydis/Zydis.h>

static size_t n_instructions, n_different, n_everything;

struct truth {
    uint16_t read, written, whole, bytes_read, bytes_written;
};

static void add_register(struct truth *t, ZydisRegister reg, ZydisOperandActions actions, int address)
{
    ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);
    unsigned bits = ZydisRegisterGetWidth(ZYDIS_MACHINE_MODE_LONG_64, reg);
    uint16_t bit;

    if (ZydisRegisterGetClass(whole) != ZYDIS_REGCLASS_GPR64 || whole == ZYDIS_REGISTER_RSP)
        return;
    bit = (uint16_t)(1u << ZydisRegisterGetId(whole));
    if (address || (actions & ZYDIS_OPERAND_ACTION_MASK_READ && bits > 8))
        t->read |= bit;
    else if (actions & ZYDIS_OPERAND_ACTION_MASK_READ)
        t->bytes_read |= bit;
    if (address || !(actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
        return;
    t->written |= bit;
    if (bits >= 32 && actions & ZYDIS_OPERAND_ACTION_WRITE)
        t->whole |= bit;
    if (bits == 8)
        t->bytes_written |= bit;
}

static struct truth truth_of(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *operands)
{
    struct truth t = {0};

    for (unsigned k = 0; k < z->operand_count; k++) {
        const ZydisDecodedOperand *o = &operands[k];

        if (o->type == ZYDIS_OPERAND_TYPE_REGISTER)
            add_register(&t, o->reg.value, o->actions, 0);
        if (o->type != ZYDIS_OPERAND_TYPE_MEMORY)
            continue;
        add_register(&t, o->mem.base, 0, 1);
        add_register(&t, o->mem.index, 0, 1);
    }
    return t;
}

/* xor %eax,%eax: what it held does not matter. */
static int makes_number(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *operands)
{
    return (z->mnemonic == ZYDIS_MNEMONIC_XOR || z->mnemonic == ZYDIS_MNEMONIC_SUB ||
            z->mnemonic == ZYDIS_MNEMONIC_SBB) &&
           operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
           operands[1].type == ZYDIS_OPERAND_TYPE_REGISTER &&
           operands[0].reg.value == operands[1].reg.value;
}

static int same(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *operands,
                const struct registers *r)
{
    struct truth t = truth_of(z, operands);

    if (makes_number(z, operands))
        t.read = t.bytes_read = 0;
    return !(t.read & ~r->read) && !(t.bytes_read & ~(r->read | r->bytes_read)) &&
           !(t.written & ~(r->read | r->written | r->bytes_written | r->bytes_read)) &&
           !(t.written & ~t.bytes_written & ~(r->read | r->written)) && !(r->written & ~t.whole & ~(1u << RSP)) &&
           !(r->bytes_written & ~t.bytes_written);
}

#define STATUS (ZYDIS_CPUFLAG_CF | ZYDIS_CPUFLAG_PF | ZYDIS_CPUFLAG_AF | ZYDIS_CPUFLAG_ZF | ZYDIS_CPUFLAG_SF | \
                ZYDIS_CPUFLAG_OF)

/* What reads one is said to, and what is said to write all does.  A shift leaves them, where it shifts by nothing,
 * and that of an odd number of bits is not looked at. */
static int same_flags(const ZydisDecodedInstruction *z, unsigned flags)
{
    const ZydisAccessedFlags *f = z->cpu_flags;
    uint32_t written = f ? f->modified | f->set_0 | f->set_1 | f->undefined : 0;

    return (!f || !(f->tested & STATUS) || flags & FLAGS_READ) &&
           (!(flags & FLAGS_WRITTEN) || !(STATUS & ~written));
}

/* Hints name registers that they do not use; system calls, and what is odd, are no matter. */
static int may_differ(const ZydisDecodedInstruction *z, const struct instruction *i)
{
    return i->odd || z->mnemonic == ZYDIS_MNEMONIC_SYSCALL || z->mnemonic == ZYDIS_MNEMONIC_XBEGIN ||
           z->meta.category == ZYDIS_CATEGORY_WIDENOP || z->meta.category == ZYDIS_CATEGORY_NOP ||
           z->meta.category == ZYDIS_CATEGORY_PREFETCH;
}

static void compare(const ZydisDecoder *decoder, const uint8_t *at, size_t left, uint64_t address)
{
    for (size_t step; left; at += step, address += step, left -= step) {
        ZydisDecodedInstruction z;
        ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
        struct instruction i;
        struct registers r;
        int known = ZYAN_SUCCESS(ZydisDecoderDecodeFull(decoder, at, left, &z, operands));

        step = known ? z.length : 1;
        if (!known || decode(at, left, &i) != z.length || may_differ(&z, &i))
            continue;
        r = registers_of(at, &i);
        n_instructions++;
        n_everything += r.read == REGISTERS_ALL;
        if (!same_flags(&z, flags_of(at, &i)) && n_different++ < 20)
            fprintf(stderr, "%s at 0x%lx: flags %x\n", ZydisMnemonicGetString(z.mnemonic), (unsigned long)address,
                    flags_of(at, &i));
        if (!same(&z, operands, &r) && n_different++ < 20)
            fprintf(stderr, "%s at 0x%lx: read %x, written %x, bytes %x, %x\n",
                    ZydisMnemonicGetString(z.mnemonic), (unsigned long)address, r.read, r.written,
                    r.bytes_read, r.bytes_written);
    }
}

static void compare_file(const ZydisDecoder *decoder, const char *path)
{
    const Elf64_Shdr *section;
    struct object o;

    CHECK(object_open(&o, path) == 0, "%s: %s", path, o.error);
    section = (const Elf64_Shdr *)(o.file + o.header.e_shoff);
    for (size_t i = 0; i < o.header.e_shnum; i++)
        if (section[i].sh_flags & SHF_EXECINSTR && section[i].sh_type == SHT_PROGBITS)
            compare(decoder, o.file + section[i].sh_offset, section[i].sh_size, section[i].sh_addr);
    object_close(&o);
}

int main(int argc, char **argv)
{
    ZydisDecoder decoder;

    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    for (int i = 1; i < argc; i++)
        compare_file(&decoder, argv[i]);
    printf("%zu instructions, %zu differ, %zu read everything\n", n_instructions, n_different, n_everything);
    CHECK(n_instructions > 100000);
    CHECK(n_everything < n_instructions / 50);
    return n_different != 0;
}
