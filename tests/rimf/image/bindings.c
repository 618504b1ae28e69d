/* SPDX-License-Identifier: MIT
 *
 * Every PLT and GOT slot of the process that the host loader bound holds the address
 * that the image would bind it to.  Run with LD_BIND_NOW=1.  A failure means that
 * symbol versions or the order of objects are understood otherwise than by the host
 * loader.
 */
#include "process.h"

static struct mvld_image *image;
static size_t compared;

static void compare(const struct rimf_object *object, const Elf64_Rela *relocation)
{
    uintptr_t slot = object->view.bias + relocation->r_offset, value = *(uintptr_t *)slot;
    unsigned type = ELF64_R_TYPE(relocation->r_info);
    struct mvld_symbol symbol;
    Elf64_Rela found;

    if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT)
        return;
    CHECK(elf_slot_relocation(&object->view, slot, &found) == 0);
    CHECK(found.r_info == relocation->r_info);
    if (rimf_symbol_bind(image, object, ELF64_R_SYM(relocation->r_info), &symbol)) {
        CHECK(value == 0, "(a slot of %s at %lx)", object->public.name, (unsigned long)slot);
        return;
    }
    if (symbol.type == STT_GNU_IFUNC || symbol.type == STT_TLS)
        return;
    CHECK(symbol.address == value, "(%s@%s for %s is %lx in %s, want %lx)", symbol.name,
          symbol.version ? symbol.version : "", object->public.name,
          (unsigned long)symbol.address, symbol.object->name, (unsigned long)value);
    compared++;
}

int main(void)
{
    image = process_image();
    CHECK(getenv("LD_BIND_NOW") != NULL);
    for (size_t i = 0; i < image->table->n_objects; i++) {
        const struct rimf_object *object = image->table->objects[i];

        for (size_t k = 0; k < object->view.n_plt_relocations; k++)
            compare(object, &object->view.plt_relocations[k]);
        for (size_t k = 0; k < object->view.n_relocations; k++)
            compare(object, &object->view.relocations[k]);
    }
    CHECK(compared > 1000, "(%zu)", compared);
    printf("%zu slots compared\n", compared);
    rimf_image_destroy(image);
    return 0;
}
