/* SPDX-License-Identifier: MIT
 *
 * rimf/image/symbol_edits.c: what passes declare of symbols in the stage `relocate`.
 *
 * Objects are mapped, and nothing refers to them yet.  A definition is changed where every look-up
 * finds it, relocation's and dlsym's alike: in its entry of .dynsym, in a page that becomes the
 * process's own.
 *
 *     bound elsewhere   st_value leads to the other function, which is as far from here as it is now
 *     hidden            st_shndx is SHN_UNDEF: as if it were a reference
 *
 * What was bound when the object was linked (static functions, -Bsymbolic, protected symbols) asks nobody.
 * All edits of a pass are made, or none.
 */
#include "rimf/image/private.h"

#include "rimf/base/base.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

struct symbol_edit {
    struct symbol_edit *next;
    const struct rimf_object *object;
    Elf64_Sym *at, made;
};

static int refuse(struct mvld_image *image, int error, const struct mvld_symbol *symbol,
                  const char *why)
{
    return rimf_fail(image, error, "%s: the symbol %s: %s", symbol->object->name, symbol->name, why);
}

/* The entry that a look-up of the symbol finds, or NULL with the sentence recorded. */
static Elf64_Sym *entry_of(struct mvld_image *image, const struct mvld_symbol *symbol)
{
    const struct rimf_object *object = rimf_object_of(symbol->object);
    struct elf_name of = elf_name(symbol->name, symbol->version,
                                  symbol->version ? ELF_EXACT : ELF_ANY_DEFAULT);
    size_t index = elf_symbol_find(&object->view, &of);
    uintptr_t at = (uintptr_t)(object->view.symbols + index);

    if (image->stage != RIMF_STAGE_RELOCATE)
        refuse(image, EPERM, symbol, "symbols are changed in the stage relocate alone");
    else if (!index || !elf_holds(&object->view, at, sizeof(Elf64_Sym), PROT_READ))
        refuse(image, ENOENT, symbol, "the object does not define it, and none is added: a library of the pass can"
               " define it");
    else if (elf_holds(&object->view, at, sizeof(Elf64_Sym), PROT_EXEC))
        refuse(image, ENOTSUP, symbol, "its entry lies in a segment of code");
    else
        return (Elf64_Sym *)at;
    return NULL;
}

static int is_function(uint8_t type)
{
    return type == STT_FUNC || type == STT_GNU_IFUNC;
}

static int add(struct mvld_image *image, const struct mvld_symbol *symbol, Elf64_Sym *at,
               const Elf64_Sym *made)
{
    struct symbol_edit *edit;
    int error = rimf_address_set_add(&image->symbols_edited, &image->heap, (uintptr_t)at);

    if (error == -EEXIST)
        return refuse(image, EEXIST, symbol, "the pass has changed it already");
    edit = error ? NULL : rimf_heap_alloc(&image->heap, sizeof *edit);
    if (!edit)
        return refuse(image, ENOMEM, symbol, "out of memory");
    *edit = (struct symbol_edit){image->symbol_edits, rimf_object_of(symbol->object), at, *made};
    image->symbol_edits = edit;
    return 0;
}

int rimf_symbol_redirect(struct mvld_image *image, const struct mvld_symbol *symbol,
                         const struct mvld_symbol *to)
{
    Elf64_Sym *at = entry_of(image, symbol), made;

    if (!at)
        return image->stage == RIMF_STAGE_RELOCATE ? -ENOENT : -EPERM;
    if (!is_function(symbol->type) || !is_function(to->type) || !to->address)
        return refuse(image, EINVAL, symbol, "only functions lead to functions");
    made = *at;
    made.st_value = to->address - symbol->object->bias;
    made.st_size = to->size;
    made.st_info = ELF64_ST_INFO(ELF64_ST_BIND(at->st_info), to->type);
    return add(image, symbol, at, &made);
}

int rimf_symbol_hide(struct mvld_image *image, const struct mvld_symbol *symbol)
{
    Elf64_Sym *at = entry_of(image, symbol), made;

    if (!at)
        return image->stage == RIMF_STAGE_RELOCATE ? -ENOENT : -EPERM;
    if (symbol->type == STT_TLS || symbol->binding == STB_GNU_UNIQUE)
        return refuse(image, EINVAL, symbol, "thread-local and unique ones are not hidden");
    made = *at;
    made.st_shndx = SHN_UNDEF;
    made.st_value = 0;
    return add(image, symbol, at, &made);
}

/* ---- realising --------------------------------------------------------------------------- */

static uint32_t prot_of(const struct symbol_edit *edit)
{
    return elf_holds(&edit->object->view, (uintptr_t)edit->at, 1, PROT_WRITE) ? PROT_READ | PROT_WRITE
                                                                             : PROT_READ;
}

static int protect(struct mvld_image *image, const struct symbol_edit *edit, uint32_t prot)
{
    uintptr_t start = rimf_page_down((uintptr_t)edit->at), end = rimf_page_up((uintptr_t)(edit->at + 1));

    return sys_mprotect(image->sys, start, end - start, (int)prot) ? -EACCES : 0;
}

static void drop(struct mvld_image *image)
{
    rimf_address_set_clear(&image->symbols_edited, &image->heap);
    while (image->symbol_edits) {
        struct symbol_edit *edit = image->symbol_edits;

        image->symbol_edits = edit->next;
        rimf_heap_release(&image->heap, edit);
    }
}

int rimf_image_realise_symbols(struct mvld_image *image, int failed)
{
    struct symbol_edit *edit = failed ? NULL : image->symbol_edits, *last = edit;
    int error = 0;

    for (; edit && !error; edit = edit->next) {
        error = protect(image, edit, PROT_READ | PROT_WRITE);
        last = edit->next;
    }
    for (edit = failed || error ? NULL : image->symbol_edits; edit; edit = edit->next)
        *edit->at = edit->made;
    for (edit = failed ? NULL : image->symbol_edits; edit && edit != last; edit = edit->next)
        protect(image, edit, prot_of(edit));
    if (error)
        error = rimf_fail(image, EACCES, "tables of symbols may not be written");
    drop(image);
    return error;
}
