/* SPDX-License-Identifier: MIT
 *
 * rimf/image_symbols.c: symbols, answered from the objects' own tables.
 *
 * The image does not know the scopes of the host loader; it knows the objects in
 * the order of the link map.  What was there at start-up is the global scope.  An
 * object that came by dlopen sees that first and then its own dependencies, or
 * everything that was opened RTLD_GLOBAL: which of the later objects these are
 * cannot be told from outside.  So a reference is bound to a later object only
 * when no other later one defines the name.
 *
 * A definition is meant, always: where the host loader would give the PLT entry of an
 * executable at a fixed address for the address of a function, this gives the function.
 *
 * Limits: STB_GNU_UNIQUE symbols are found in scope order (the host loader keeps
 * the one that was used first); dlmopen's namespaces are not in the image.
 */
#include "image_private.h"

#include "base.h"

#include <errno.h> /* numbers only */

static const char *version_of(const struct elf_view *view, size_t index)
{
    uint16_t entry;

    if (elf_versym(view, index, &entry))
        return NULL;
    return elf_version_name(view, entry & ELF_VERSION_INDEX);
}

static int find_in(const struct rimf_object *object, const char *name, const char *version,
                   enum elf_wanted wanted, struct mvld_symbol *out)
{
    size_t index = elf_symbol_find(&object->view, name, version, wanted);
    Elf64_Sym symbol;

    if (!index || elf_symbol_at(&object->view, index, &symbol))
        return -ENOENT;
    *out = (struct mvld_symbol){
        .name = elf_string(&object->view, symbol.st_name),
        .version = version_of(&object->view, index),
        .address = elf_symbol_address(&object->view, &symbol),
        .size = symbol.st_size,
        .type = ELF64_ST_TYPE(symbol.st_info),
        .binding = ELF64_ST_BIND(symbol.st_info),
        .visibility = ELF64_ST_VISIBILITY(symbol.st_other),
        .object = &object->public,
    };
    return out->name ? 0 : -ENOENT;
}

static int is_gone(const struct rimf_object *object)
{
    return __atomic_load_n(&object->gone, __ATOMIC_ACQUIRE);
}

/* The n-th definition in the part of the table that is the global scope (or in the
 * rest); *n counts down. */
static int find_nth(const struct rimf_table *table, int global, const char *name,
                    const char *version, enum elf_wanted wanted, size_t *n,
                    struct mvld_symbol *out)
{
    for (size_t i = 0; i < table->n_objects; i++) {
        const struct rimf_object *object = table->objects[i];

        if (object->global != global || object->public.flags & MVLD_OBJECT_VDSO)
            continue;
        if (find_in(object, name, version, wanted, out) == 0 && (*n)-- == 0)
            return 0;
    }
    return -ENOENT;
}

static int find_first(const struct rimf_table *table, int global, const char *name,
                      const char *version, enum elf_wanted wanted, struct mvld_symbol *out)
{
    size_t n = 0;

    return find_nth(table, global, name, version, wanted, &n, out);
}

int rimf_symbol_find(const struct mvld_object *public, const char *name, const char *version,
                     struct mvld_symbol *out)
{
    const struct rimf_object *object = rimf_object_of(public);

    if (is_gone(object))
        return -ENOENT;
    return find_in(object, name, version, version ? ELF_EXACT : ELF_ANY_DEFAULT, out);
}

int rimf_symbol_resolve(const struct mvld_image *image, const char *name, const char *version,
                        struct mvld_symbol *out)
{
    enum elf_wanted wanted = version ? ELF_EXACT : ELF_ANY_DEFAULT;
    const struct rimf_table *table = rimf_table_enter(image);
    int result = find_first(table, 1, name, version, wanted, out);

    if (result)
        result = find_first(table, 0, name, version, wanted, out);
    rimf_table_leave(image);
    return result;
}

static int bind(const struct rimf_table *table, const struct rimf_object *from, const char *name,
                const char *version, enum elf_wanted wanted, struct mvld_symbol *out)
{
    struct mvld_symbol other;
    size_t second = 1;

    if (from->view.symbolic && find_in(from, name, version, wanted, out) == 0)
        return 0;
    if (find_first(table, 1, name, version, wanted, out) == 0)
        return 0;
    if (find_first(table, 0, name, version, wanted, out))
        return -ENOENT;
    return find_nth(table, 0, name, version, wanted, &second, &other) ? 0 : -EAGAIN;
}

/* What reference `index` of the object asks for: its name; NULL: it is none. */
static const char *reference(const struct elf_view *view, size_t index, const char **version,
                             enum elf_wanted *wanted)
{
    const char *name;
    Elf64_Sym symbol;
    uint16_t entry;

    *version = NULL;
    *wanted = ELF_ANY_BASE;
    if (elf_symbol_at(view, index, &symbol))
        return NULL;
    name = elf_string(view, symbol.st_name);
    if (!name || !*name)
        return NULL;
    if (elf_versym(view, index, &entry) == 0) {
        *version = elf_version_name(view, entry & ELF_VERSION_INDEX);
        if (*version)
            *wanted = entry & ELF_VERSION_HIDDEN ? ELF_EXACT : ELF_EXACT_OR_NONE;
    }
    return name;
}

int rimf_symbol_copied(const struct mvld_image *image, const struct rimf_object *from,
                       size_t index, struct mvld_symbol *out)
{
    const struct rimf_table *table;
    enum elf_wanted wanted;
    const char *version, *name = reference(&from->view, index, &version, &wanted);
    int result = -ENOENT;

    if (!name)
        return -ENOENT;
    table = rimf_table_enter(image);
    for (size_t i = 0; i < table->n_objects && result; i++)
        if (table->objects[i] != from && !(table->objects[i]->public.flags & MVLD_OBJECT_VDSO))
            result = find_in(table->objects[i], name, version, wanted, out);
    rimf_table_leave(image);
    return result;
}

int rimf_symbol_bind(const struct mvld_image *image, const struct rimf_object *from, size_t index,
                     struct mvld_symbol *out)
{
    const struct rimf_table *table;
    enum elf_wanted wanted;
    const char *version, *name = reference(&from->view, index, &version, &wanted);
    int result;

    if (!name)
        return -ENOENT;
    table = rimf_table_enter(image);
    result = bind(table, from, name, version, wanted, out);
    rimf_table_leave(image);
    return result;
}
