/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/names.c: which functions the copies are of, as far as the symbols of their
 * objects tell: the dynamic ones, and those that are only in the file, if any are.
 */
#include "rimf/moved/moved.h"
#include "rimf/moved/symfile.h"

#include "rimf/base/base.h"
#include "rimf/image/private.h"

#include <errno.h> /* numbers only */

/* One object's. */
struct naming {
    const struct moved_code *moved;
    struct rimf_object *object;
    const struct analysis *analysis;
    uint8_t *is_named; /* for each unit; or NULL */
    moved_names_visitor *visit;
    void *cookie;
};

/* What has no copy is not said, nor what a size says of other fragments. */
static void say(const struct naming *n, const char *name, uintptr_t original, size_t size)
{
    const struct moved_fragment *fragment = moved_fragment_at(n->moved, n->object, original);
    size_t room = fragment ? fragment->code - (original - fragment->original) : 0;
    struct mvld_symbol symbol = {
        .name = name,
        .size = size < room ? size : room,
        .type = STT_FUNC,
        .binding = STB_GLOBAL,
        .object = &n->object->public,
    };

    if (!fragment)
        return;
    symbol.address = fragment->at + (original - fragment->original);
    n->visit(n->cookie, &symbol);
}

static int is_function(const Elf64_Sym *symbol)
{
    unsigned type = ELF64_ST_TYPE(symbol->st_info);

    return symbol->st_shndx != SHN_UNDEF && (type == STT_FUNC || type == STT_GNU_IFUNC);
}

/* One symbol of either table, where the object defines it. */
static void name_symbol(const struct naming *n, const Elf64_Sym *symbol, const char *name)
{
    uintptr_t original = n->object->view.bias + symbol->st_value;
    const struct analysis_unit *unit;

    if (!name || !*name || symbol->st_value > UINT32_MAX)
        return;
    unit = analysis_unit_at(n->analysis, (uint32_t)symbol->st_value);
    if (!unit || unit->reason != ANALYSIS_PROVEN)
        return;
    say(n, name, original, symbol->st_size);
    if (n->is_named && symbol->st_value == unit->start)
        n->is_named[unit - n->analysis->units] = 1;
}

static void name_dynamic(const struct naming *n)
{
    const struct elf_view *view = &n->object->view;
    size_t count = elf_symbol_count(view);
    Elf64_Sym symbol;

    for (size_t i = 1; i < count && !elf_symbol_at(view, i, &symbol); i++)
        if (is_function(&symbol))
            name_symbol(n, &symbol, elf_string(view, symbol.st_name));
}

/* What is not among the dynamic ones, which have no versions in their names. */
static void name_others(const struct naming *n, const struct file_symbols *file)
{
    const struct elf_view *view = &n->object->view;

    for (size_t i = 1; i < file->n; i++) {
        const Elf64_Sym *symbol = &file->symbols[i];
        const char *name = is_function(symbol) ? file_symbols_name(file, i) : NULL;

        if (!name)
            continue;
        if (ELF64_ST_BIND(symbol->st_info) != STB_LOCAL) {
            struct elf_name of = elf_name(name, NULL, ELF_ANY_BASE);

            if (elf_symbol_find(view, &of))
                continue;
        }
        name_symbol(n, symbol, name);
    }
}

static void name_rest(const struct naming *n)
{
    const struct analysis *s = n->analysis;

    for (size_t i = 0; i < s->n_units; i++)
        if (s->units[i].reason == ANALYSIS_PROVEN && !n->is_named[i])
            say(n, NULL, n->object->view.bias + s->units[i].start, s->units[i].size);
}

int moved_names_of(struct mvld_image *image, const struct rimf_object *object,
                  const struct file_symbols *file, int unnamed, moved_names_visitor *visit,
                  void *cookie)
{
    struct naming n = {.moved = image->moved, .object = (struct rimf_object *)object,
                       .visit = visit, .cookie = cookie};
    const char *why;

    n.analysis = rimf_analysis_whole(image, n.object, &why);
    if (!n.analysis)
        return rimf_fail(image, ENODATA, "%s: its copy has no names: %s", object->public.name, why);
    n.is_named = unnamed ? rimf_heap_alloc(&image->heap, n.analysis->n_units) : NULL;
    if (unnamed && !n.is_named)
        return rimf_fail(image, ENOMEM, "there is no memory to name copies of code");
    name_dynamic(&n);
    name_others(&n, file);
    if (unnamed)
        name_rest(&n);
    rimf_heap_release(&image->heap, n.is_named);
    return 0;
}

int moved_names_each(struct mvld_image *image, size_t *next, int unnamed,
                    moved_names_visitor *visit, void *cookie)
{
    struct moved_code *moved = image->moved;
    int error = 0;

    for (; moved && *next < moved->n && !error; ++*next) {
        const struct rimf_object *object = moved->list[*next].object;
        struct file_symbols file = {0};

        if (!moved_is_first(moved, *next))
            continue;
        file_symbols_read(image, object, &file);
        error = moved_names_of(image, object, &file, unnamed, visit, cookie);
        file_symbols_release(image, &file);
    }
    return error;
}
