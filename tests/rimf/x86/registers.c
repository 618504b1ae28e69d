/* SPDX-License-Identifier: MIT
 *
 * registers [FILE...]: the registers, and the status flags, of each instruction in the executable sections of real
 * files against Zydis; without files, of random encodings, which include what compilers seldom emit.  What Zydis reads
 * is said to be read; what it writes is said to be read or written; and what is said to be written whole, or to be a
 * byte, is so.  A failure means that a register is thought to hold what it no longer holds, or that a use of its value
 * is not seen.
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
           !(r->bytes_written & ~t.bytes_written & ~(1u << RSP));
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

/* Hints name registers that they do not use, and a repeated comparison tests only the flags that it wrote; system
 * calls, and what is odd, are no matter. */
static int may_differ(const ZydisDecodedInstruction *z, const struct instruction *i)
{
    return i->odd || z->mnemonic == ZYDIS_MNEMONIC_SYSCALL || z->mnemonic == ZYDIS_MNEMONIC_XBEGIN ||
           z->meta.category == ZYDIS_CATEGORY_WIDENOP || z->meta.category == ZYDIS_CATEGORY_NOP ||
           z->meta.category == ZYDIS_CATEGORY_PREFETCH || z->meta.category == ZYDIS_CATEGORY_MPX ||
           z->mnemonic == ZYDIS_MNEMONIC_CLDEMOTE || z->mnemonic == ZYDIS_MNEMONIC_PREFETCHWT1 ||
           (z->meta.category == ZYDIS_CATEGORY_STRINGOP && i->prefixes & (PREFIX_REP | PREFIX_REPNE));
}

/* Returns the length that Zydis says, or 1. */
static size_t compare_one(const ZydisDecoder *decoder, const uint8_t *at, size_t left, uint64_t address)
{
    ZydisDecodedInstruction z;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    struct instruction i;
    struct registers r;

    if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(decoder, at, left, &z, operands)))
        return 1;
    if (decode(at, left, &i) != z.length || may_differ(&z, &i))
        return z.length;
    r = registers_of(at, &i);
    n_instructions++;
    n_everything += r.read == REGISTERS_ALL;
    if (!same_flags(&z, flags_of(at, &i)) && n_different++ < 20)
        fprintf(stderr, "%s at 0x%lx: flags %x\n", ZydisMnemonicGetString(z.mnemonic), (unsigned long)address,
                flags_of(at, &i));
    if (!same(&z, operands, &r) && n_different++ < 20)
        fprintf(stderr, "%s at 0x%lx: read %x, written %x, bytes %x, %x\n", ZydisMnemonicGetString(z.mnemonic),
                (unsigned long)address, r.read, r.written, r.bytes_read, r.bytes_written);
    return z.length;
}

static void compare(const ZydisDecoder *decoder, const uint8_t *at, size_t left, uint64_t address)
{
    for (size_t step; left; at += step, address += step, left -= step)
        step = compare_one(decoder, at, left, address);
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

static uint8_t random_byte(void)
{
    static uint64_t state = 1;

    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint8_t)(state >> 56);
}

/* [prefix] [REX] [0f [38 | 3a]] and anything, or a VEX or EVEX prefix and anything. */
static void compare_random(const ZydisDecoder *decoder)
{
    static const uint8_t prefixes[] = {0x66, 0xf2, 0xf3, 0x64}, maps[] = {0x38, 0x3a},
                         vectors[] = {0xc4, 0xc5, 0x62};

    for (unsigned n = 0; n < 1000000; n++) {
        uint8_t code[16], kind = random_byte() & 7;
        size_t at = 0;

        if (n & 1)
            code[at++] = prefixes[random_byte() % sizeof prefixes];
        if (kind < 2)
            code[at++] = vectors[random_byte() % sizeof vectors];
        else if (n & 2)
            code[at++] = 0x40 | (random_byte() & 15);
        if (kind > 3)
            code[at++] = 0x0f;
        if (kind > 6)
            code[at++] = maps[random_byte() & 1];
        while (at < sizeof code)
            code[at++] = random_byte();
        compare_one(decoder, code, sizeof code, n);
    }
}

int main(int argc, char **argv)
{
    ZydisDecoder decoder;

    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    for (int i = 1; i < argc; i++)
        compare_file(&decoder, argv[i]);
    if (argc == 1)
        compare_random(&decoder);
    printf("%zu instructions, %zu differ, %zu read everything\n", n_instructions, n_different, n_everything);
    CHECK(n_instructions > 100000);
    CHECK(argc == 1 || n_everything < n_instructions / 50);
    return n_different != 0;
}
