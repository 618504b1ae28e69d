/* SPDX-License-Identifier: MIT
 *
 * rimf/image/symbols.c: looks symbols up in the objects' own tables, and changes them for passes.
 *
 * The image does not know the scopes of the host loader; it knows the objects in the order of the link map.
 * The objects of the start are the global scope.  An object of dlopen sees that first and then its own
 * dependencies, or everything that was opened RTLD_GLOBAL: which of the later objects these are is not
 * visible from outside.  So a reference is bound to a later object only if no other later one defines the
 * name.
 *
 * The result is always a definition: where the host loader would give the PLT entry of an executable at a
 * fixed address as a function's address, this gives the function.
 *
 * Limits: STB_GNU_UNIQUE symbols are found in scope order (the host loader uses the first one that was
 * bound); dlmopen's namespaces are not in the image.
 */
#include "rimf/image/private.h"

#include "rimf/base/base.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

static const char *version_of(const struct elf_view *view, size_t index)
{
    uint16_t entry;

    if (elf_versym(view, index, &entry))
        return NULL;
    return elf_version_name(view, entry & ELF_VERSION_INDEX);
}

/* The version only for look-ups by name, like dlsym's and dlvsym's, and of an IFUNC (slots.c): the caller of
 * another reference's look-up knows it, and finding it walks a chain. */
static int describe(const struct rimf_object *object, size_t index, int version, struct mvld_symbol *out)
{
    Elf64_Sym symbol;

    if (!index || elf_symbol_at(&object->view, index, &symbol) || symbol.st_shndx == SHN_UNDEF)
        return -ENOENT;
    *out = (struct mvld_symbol){
        .name = elf_string(&object->view, symbol.st_name),
        .version = version || ELF64_ST_TYPE(symbol.st_info) == STT_GNU_IFUNC ? version_of(&object->view, index) : NULL,
        .address = elf_symbol_address(&object->view, &symbol),
        .size = symbol.st_size,
        .type = ELF64_ST_TYPE(symbol.st_info),
        .binding = ELF64_ST_BIND(symbol.st_info),
        .visibility = ELF64_ST_VISIBILITY(symbol.st_other),
        .object = &object->public,
    };
    return out->name ? 0 : -ENOENT;
}

static int find_in(const struct rimf_object *object, const struct elf_name *of,
                   struct mvld_symbol *out)
{
    return describe(object, elf_symbol_find(&object->view, of),
                    of->wanted == ELF_ANY_DEFAULT || of->wanted == ELF_EXACT, out);
}

static int is_gone(const struct rimf_object *object)
{
    return __atomic_load_n(&object->gone, __ATOMIC_ACQUIRE);
}

/* The n-th definition in the part of the table that is the global scope (or in the
 * rest); *n counts down. */
static int find_nth(const struct rimf_table *table, int global, const struct elf_name *of,
                    size_t *n, struct mvld_symbol *out)
{
    for (size_t i = 0; i < table->n_objects; i++) {
        const struct rimf_object *object = table->objects[i];

        if (object->global != global || object->public.flags & MVLD_OBJECT_VDSO)
            continue;
        if (find_in(object, of, out) == 0 && (*n)-- == 0)
            return 0;
    }
    return -ENOENT;
}

static int find_first(const struct rimf_table *table, int global, const struct elf_name *of,
                      struct mvld_symbol *out)
{
    size_t n = 0;

    return find_nth(table, global, of, &n, out);
}

int rimf_symbol_find(const struct mvld_object *public, const char *name, const char *version,
                     struct mvld_symbol *out)
{
    const struct rimf_object *object = rimf_object_of(public);
    struct elf_name of;

    if (!rimf_is_object(public) || !name || !out)
        return -EINVAL;
    if (is_gone(object))
        return -ENOENT;
    of = elf_name(name, version, version ? ELF_EXACT : ELF_ANY_DEFAULT);
    return find_in(object, &of, out);
}

int rimf_symbol_each(const struct mvld_object *public,
                     int (*visit)(void *cookie, const struct mvld_symbol *), void *cookie)
{
    const struct rimf_object *object = rimf_object_of(public);
    int known = rimf_is_object(public) && visit;
    size_t n = !known || is_gone(object) ? 0 : elf_symbol_count(&object->view);
    struct mvld_symbol symbol;
    int result = known ? 0 : -EINVAL;

    for (size_t i = 1; i < n && !result; i++)
        if (!describe(object, i, 1, &symbol))
            result = visit(cookie, &symbol);
    return result;
}

int rimf_symbol_resolve(const struct mvld_image *image, const char *name, const char *version,
                        struct mvld_symbol *out)
{
    const struct rimf_table *table;
    struct elf_name of;
    int result;

    if (!image || !name || !out)
        return -EINVAL;
    of = elf_name(name, version, version ? ELF_EXACT : ELF_ANY_DEFAULT);
    table = rimf_table_enter(image);
    result = find_first(table, 1, &of, out);
    if (result)
        result = find_first(table, 0, &of, out);
    rimf_table_leave(image);
    return result;
}

static int bind(const struct rimf_table *table, const struct rimf_object *from,
                const struct elf_name *of, struct mvld_symbol *out)
{
    struct mvld_symbol other;
    size_t second = 1;

    if (from->view.symbolic && find_in(from, of, out) == 0)
        return 0;
    if (find_first(table, 1, of, out) == 0)
        return 0;
    if (find_first(table, 0, of, out))
        return -ENOENT;
    return find_nth(table, 0, of, &second, &other) ? 0 : -EAGAIN;
}

/* The name that reference `index` of the object needs.  0; -ENOENT: not a reference. */
static int reference(const struct elf_view *view, size_t index, struct elf_name *of)
{
    const char *name, *version = NULL;
    Elf64_Sym symbol;
    uint16_t entry;

    if (elf_symbol_at(view, index, &symbol))
        return -ENOENT;
    name = elf_string(view, symbol.st_name);
    if (!name || !*name)
        return -ENOENT;
    if (elf_versym(view, index, &entry) == 0)
        version = elf_version_name(view, entry & ELF_VERSION_INDEX);
    *of = elf_name(name, version, !version                     ? ELF_ANY_BASE
                                  : entry & ELF_VERSION_HIDDEN ? ELF_EXACT
                                                               : ELF_EXACT_OR_NONE);
    return 0;
}

int rimf_symbol_copied(const struct mvld_image *image, const struct rimf_object *from,
                       size_t index, struct mvld_symbol *out)
{
    const struct rimf_table *table;
    struct elf_name of;
    int result = -ENOENT;

    if (reference(&from->view, index, &of))
        return -ENOENT;
    table = rimf_table_enter(image);
    for (size_t i = 0; i < table->n_objects && result; i++)
        if (table->objects[i] != from && !(table->objects[i]->public.flags & MVLD_OBJECT_VDSO))
            result = find_in(table->objects[i], &of, out);
    rimf_table_leave(image);
    return result;
}

int rimf_symbol_bind(const struct mvld_image *image, const struct rimf_object *from, size_t index,
                     struct mvld_symbol *out)
{
    const struct rimf_table *table;
    struct elf_name of;
    int result;

    if (reference(&from->view, index, &of))
        return -ENOENT;
    table = rimf_table_enter(image);
    result = bind(table, from, &of, out);
    rimf_table_leave(image);
    return result;
}

/* ---- edits of the stage relocate ----------------------------------------------------------
 *
 * Objects are mapped, and nothing refers to them yet.  A definition is changed where every look-up finds
 * it, by relocation or dlsym: in its entry of .dynsym, in a page that becomes private.
 *
 *     bound elsewhere   st_value leads to the other function, which is as far from here as it is now
 *     hidden            st_shndx is SHN_UNDEF: as if it were a reference
 *
 * References that were bound when the object was linked (static functions, -Bsymbolic, protected symbols)
 * do not change.  All edits of a pass are made, or none. */

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

/* Whether it has a name and an object, and this is the right stage: 0, or negative errno with a sentence. */
static int may_change(struct mvld_image *image, const struct mvld_symbol *symbol)
{
    int known = symbol && symbol->name && rimf_is_object(symbol->object);

    if (image && known && image->stage != RIMF_STAGE_RELOCATE)
        return refuse(image, EPERM, symbol, "symbols are changed in the stage relocate alone");
    return image && known ? 0 : rimf_fail(image, image && image->stage != RIMF_STAGE_RELOCATE ? EPERM : EINVAL,
                                          "a symbol without name or object is to be changed");
}

/* The entry that a look-up of the symbol finds, or NULL with the sentence recorded. */
static Elf64_Sym *entry_of(struct mvld_image *image, const struct mvld_symbol *symbol)
{
    const struct rimf_object *object = rimf_object_of(symbol->object);
    struct elf_name of = elf_name(symbol->name, symbol->version,
                                  symbol->version ? ELF_EXACT : ELF_ANY_DEFAULT);
    size_t index = elf_symbol_find(&object->view, &of);
    uintptr_t at = (uintptr_t)(object->view.symbols + index);

    if (!index || !elf_holds(&object->view, at, sizeof(Elf64_Sym), PROT_READ))
        refuse(image, ENOENT, symbol, "the object does not define it");
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

static int add_edit(struct mvld_image *image, const struct mvld_symbol *symbol, Elf64_Sym *at,
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
    int error = may_change(image, symbol);
    Elf64_Sym *at = error ? NULL : entry_of(image, symbol), made;

    if (!at)
        return error ? error : -ENOENT;
    if (!to || !is_function(symbol->type) || !is_function(to->type) || !to->address)
        return refuse(image, EINVAL, symbol, "only functions lead to functions");
    made = *at;
    made.st_value = to->address - symbol->object->bias;
    made.st_size = to->size;
    made.st_info = ELF64_ST_INFO(ELF64_ST_BIND(at->st_info), to->type);
    return add_edit(image, symbol, at, &made);
}

int rimf_symbol_hide(struct mvld_image *image, const struct mvld_symbol *symbol)
{
    int error = may_change(image, symbol);
    Elf64_Sym *at = error ? NULL : entry_of(image, symbol), made;

    if (!at)
        return error ? error : -ENOENT;
    if (symbol->type == STT_TLS || symbol->binding == STB_GNU_UNIQUE)
        return refuse(image, EINVAL, symbol, "thread-local and unique ones are not hidden");
    made = *at;
    made.st_shndx = SHN_UNDEF;
    made.st_value = 0;
    return add_edit(image, symbol, at, &made);
}

static int protect(struct mvld_image *image, const struct symbol_edit *edit, int open)
{
    return rimf_object_protect(image, edit->object, (uintptr_t)edit->at, sizeof *edit->at, open)
               ? rimf_fail(image, EACCES, "%s: its tables of symbols may not be written", edit->object->public.name) : 0;
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

/* First the steps that may fail. */
int rimf_image_realise_symbols(struct mvld_image *image, int failed)
{
    struct symbol_edit *edit = failed ? NULL : image->symbol_edits, *last = edit;
    int error = 0;

    for (; edit && !error; edit = edit->next) {
        error = protect(image, edit, 1);
        last = edit->next;
    }
    for (edit = failed || error ? NULL : image->symbol_edits; edit; edit = edit->next)
        *edit->at = edit->made;
    for (edit = failed ? NULL : image->symbol_edits; edit && edit != last; edit = edit->next)
        protect(image, edit, 0);
    drop(image);
    return error;
}
