/* SPDX-License-Identifier: MIT
 *
 * decoder FILE...: the decoder against Zydis, over the executable sections of real
 * files: every instruction that Zydis knows has the same length, and its RIP operand and
 * immediate the same place.  A failure means that boundaries are wrong, or that a
 * displacement would be written beside its place.
 *
 * Sections hold data, too, which Zydis decodes by chance; known differences there are
 * left out by name.
 */
#include "../../check.h"

#include "rimf/x86/decode.h"
#include "rimf/analyze/object.h"

#include <Zydis/Zydis.h>

static size_t n_instructions, n_different;

static int is_rip(const ZydisDecodedInstruction *z)
{
    return z->attributes & ZYDIS_ATTRIB_HAS_MODRM && z->raw.modrm.mod == 0 &&
           z->raw.modrm.rm == 5 && z->raw.disp.size == 32;
}

static int same(const ZydisDecodedInstruction *z, const struct instruction *i)
{
    if (z->length != i->length || is_rip(z) != i->rip)
        return 0;
    if (i->displacement_size &&
        (z->raw.disp.offset != i->displacement_at || z->raw.disp.size != i->displacement_size * 8))
        return 0;
    return !z->raw.imm[0].size || z->raw.imm[0].offset == i->immediate_at;
}

/* Branch hints of Xeon Phi, and 66 before branches, which is `odd`. */
static int may_differ(const ZydisDecodedInstruction *z, const struct instruction *i)
{
    return z->mnemonic == ZYDIS_MNEMONIC_JKZD || z->mnemonic == ZYDIS_MNEMONIC_JKNZD || i->odd;
}

static void compare(const ZydisDecoder *decoder, const uint8_t *at, size_t left, uint64_t address)
{
    while (left) {
        ZydisDecodedInstruction z;
        ZydisDecoderContext context;
        struct instruction i;
        int known = ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(decoder, &context, at, left, &z));
        size_t step = known ? z.length : 1;

        decode(at, left, &i);
        if (known) {
            n_instructions++;
            if (!same(&z, &i) && !may_differ(&z, &i) && n_different++ < 20)
                fprintf(stderr, "%s at 0x%lx: %u bytes, here %u\n",
                        ZydisMnemonicGetString(z.mnemonic), (unsigned long)address, z.length,
                        i.length);
        }
        at += step;
        address += step;
        left -= step;
    }
}

static void compare_file(const ZydisDecoder *decoder, const char *path)
{
    struct object o;
    const Elf64_Shdr *section;

    CHECK(object_open(&o, path) == 0, "%s: %s", path, o.error);
    section = (const Elf64_Shdr *)(o.file + o.header.e_shoff);
    for (size_t i = 0; i < o.header.e_shnum; i++)
        if (section[i].sh_flags & SHF_EXECINSTR && section[i].sh_type == SHT_PROGBITS)
            compare(decoder, o.file + section[i].sh_offset, section[i].sh_size,
                    section[i].sh_addr);
    object_close(&o);
}

int main(int argc, char **argv)
{
    ZydisDecoder decoder;

    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    for (int i = 1; i < argc; i++)
        compare_file(&decoder, argv[i]);
    printf("%zu instructions, %zu differ\n", n_instructions, n_different);
    CHECK(n_instructions > 100000);
    return n_different != 0;
}
