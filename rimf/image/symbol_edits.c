/* SPDX-License-Identifier: MIT
 *
 * rimf/image/symbol_edits.c: symbol edits that passes declare in the stage `relocate`.
 *
 * Objects are mapped, and nothing refers to them yet.  A definition is changed where every look-up finds
 * it, by relocation or dlsym: in its entry of .dynsym, in a page that becomes private.
 *
 *     bound elsewhere   st_value leads to the other function, which is as far from here as it is now
 *     hidden            st_shndx is SHN_UNDEF: as if it were a reference
 *     added             the object, of which the host loader has read nothing yet, gets larger tables
 *                       (elf/extend.c), in memory of their own
 *
 * References that were bound when the object was linked (static functions, -Bsymbolic, protected symbols)
 * do not change.  All edits of a pass are made, or none.
 */
#include "rimf/image/private.h"

#include "rimf/base/base.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

#define SHN_ADDED 1 /* any but SHN_UNDEF and SHN_ABS */

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
    return add(image, symbol, at, &made);
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
    return add(image, symbol, at, &made);
}

/* ---- adding ------------------------------------------------------------------------------- */

/* Its tables are already larger, have spare space, and are not moved. */
static int is_in_place(const struct rimf_object *object)
{
    return object->room && object->view.extended.end;
}

static const char *unfit(const struct mvld_context *ctx, const struct mvld_symbol *symbol)
{
    const struct rimf_object *object = rimf_object_of(symbol->object);
    const struct mvld_object *holder = rimf_object_find(ctx->image, symbol->address);
    uint32_t prot = is_function(symbol->type) ? PROT_READ | PROT_EXEC : PROT_READ;

    if (object->born != ctx->image->updates && (ctx->later || !is_in_place(object)))
        return "the host loader has read the object's table";
    if (!is_function(symbol->type) && symbol->type != STT_OBJECT && symbol->type != STT_NOTYPE)
        return "functions and objects are added alone";
    if ((symbol->binding != STB_GLOBAL && symbol->binding != STB_WEAK) || symbol->version || !*symbol->name)
        return "what is added is global or weak, without version, and has a name";
    if (!(holder && elf_holds(&rimf_object_of(holder)->view, symbol->address, 1, prot)) &&
        !rimf_new_section_holds(ctx, is_function(symbol->type) ? MVLD_SECTION_CODE : MVLD_SECTION_DATA,
                                symbol->address))
        return "its address is no such part of an object, nor of a section of the pass";
    return NULL;
}

int rimf_symbol_add(const struct mvld_context *ctx, const struct mvld_symbol *symbol)
{
    struct mvld_image *image = rimf_context_image(ctx);
    int error = may_change(image, symbol);
    struct rimf_object *object;
    struct elf_name of;
    size_t size, n = 0;
    struct elf_more *more;
    const char *why;

    if (error)
        return error;
    object = (struct rimf_object *)rimf_object_of(symbol->object);
    of = elf_name(symbol->name, NULL, ELF_ANY_DEFAULT);
    size = rimf_strlen(symbol->name) + 1;
    why = unfit(ctx, symbol);
    if (why)
        return refuse(image, EINVAL, symbol, why);
    for (more = object->added.more; more && !rimf_streq(more->name, symbol->name); more = more->next)
        n++;
    if (more || elf_symbol_find(&object->view, &of))
        return refuse(image, EEXIST, symbol, "the object defines it");
    if (n == MVLD_SYMBOLS_MAX)
        return refuse(image, E2BIG, symbol, "the pass adds too many");
    more = rimf_heap_alloc(&image->heap, sizeof *more + size);
    if (!more)
        return refuse(image, ENOMEM, symbol, "out of memory");
    more->symbol = (Elf64_Sym){.st_info = ELF64_ST_INFO(symbol->binding, symbol->type), .st_shndx = SHN_ADDED,
                               .st_value = symbol->address - object->view.bias, .st_size = symbol->size};
    memcpy(more->name, symbol->name, size);
    more->next = object->added.more;
    object->added.more = more;
    if (is_in_place(object) ? elf_append_fits(&object->view, more)
                            : elf_extend_size(&object->view, more, object->room) != 0 &&
                                  elf_holds(&object->view, (uintptr_t)object->view.dynamic, 1, PROT_READ))
        return 0;
    object->added.more = more->next;
    rimf_heap_release(&image->heap, more);
    return refuse(image, ENOTSUP, symbol, "the object has no tables that could grow (DT_GNU_HASH), or no more room");
}

/* ---- realising --------------------------------------------------------------------------- */

static int protect(struct mvld_image *image, const struct rimf_object *object, const void *at, size_t size, int open)
{
    return rimf_object_protect(image, object, (uintptr_t)at, size, open)
               ? rimf_fail(image, EACCES, "%s: its tables of symbols may not be written", object->public.name) : 0;
}

/* Whether its tables must grow: for added symbols, or, if it is mapped now, for later ones. */
static int grows(const struct mvld_image *image, const struct rimf_object *object)
{
    return object->added.more || (object->room && object->born == image->updates && !object->view.extended.end &&
                            elf_extend_size(&object->view, NULL, object->room) &&
                            elf_holds(&object->view, (uintptr_t)object->view.dynamic, 1, PROT_READ));
}

/* Allocates larger tables of the object and makes its dynamic section writable; or makes its present tables
 * writable. */
static int extend_open(struct mvld_image *image, struct rimf_object *object)
{
    struct mvld_segment *now = &object->view.extended;
    long at;

    if (is_in_place(object)) {
        if (sys_mprotect(image->sys, now->start, now->end - now->start, PROT_READ | PROT_WRITE))
            return rimf_fail(image, EACCES, "%s: its tables of symbols may not be written", object->public.name);
        object->added.tables = now->start;
        return 0;
    }
    at = sys_mmap(image->sys, 0, elf_extend_size(&object->view, object->added.more, object->room),
                  PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (sys_failed(at))
        return rimf_fail(image, ENOMEM, "%s: there is no memory for its symbols", object->public.name);
    object->added.tables = (uintptr_t)at;
    return protect(image, object, object->view.dynamic, object->view.n_dynamic * sizeof(Elf64_Dyn), 1);
}

static void write_in_place(struct mvld_image *image, struct rimf_object *object, int failed)
{
    const struct mvld_segment *now = &object->view.extended;

    if (!failed)
        elf_append(&object->view, object->added.more);
    sys_mprotect(image->sys, now->start, now->end - now->start, PROT_READ);
}

static void write_larger(struct mvld_image *image, struct rimf_object *object, int failed)
{
    uintptr_t at = object->added.tables;
    size_t size = elf_extend_size(&object->view, object->added.more, object->room);

    if (failed) {
        sys_munmap(image->sys, at, size);
    } else {
        elf_extend(&object->view, object->added.more, object->room, at, size);
        sys_mprotect(image->sys, at, size, PROT_READ);
    }
    protect(image, object, object->view.dynamic, object->view.n_dynamic * sizeof(Elf64_Dyn), 0);
}

static void extend(struct mvld_image *image, struct rimf_object *object, int failed)
{
    if (object->added.tables)
        (is_in_place(object) ? write_in_place : write_larger)(image, object, failed);
    object->added.tables = 0;
    while (object->added.more) {
        struct elf_more *more = object->added.more;

        object->added.more = more->next;
        rimf_heap_release(&image->heap, more);
    }
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

/* First the steps that may fail; then writes, entries before the tables that copy them. */
int rimf_image_realise_symbols(struct mvld_image *image, const struct mvld_context *ctx, int failed)
{
    const struct rimf_table *table = rimf_table_enter(image);
    struct symbol_edit *edit = failed ? NULL : image->symbol_edits, *last = edit;
    int error = failed ? 0 : rimf_new_sections_seal(image, ctx);

    for (size_t i = 0; i < table->n_objects && !failed && !error; i++)
        error = grows(image, table->objects[i]) ? extend_open(image, table->objects[i]) : 0;
    for (; edit && !error; edit = edit->next) {
        error = protect(image, edit->object, edit->at, sizeof *edit->at, 1);
        last = edit->next;
    }
    for (edit = failed || error ? NULL : image->symbol_edits; edit; edit = edit->next)
        *edit->at = edit->made;
    for (size_t i = 0; i < table->n_objects; i++)
        extend(image, table->objects[i], failed || error);
    for (edit = failed ? NULL : image->symbol_edits; edit && edit != last; edit = edit->next)
        protect(image, edit->object, edit->at, sizeof *edit->at, 0);
    rimf_table_leave(image);
    drop(image);
    return error;
}

struct mvld_segment rimf_image_extended(const struct mvld_image *image, const void *dynamic)
{
    const struct mvld_object *object = rimf_object_find(image, (uintptr_t)dynamic);

    return object ? rimf_object_of(object)->view.extended : (struct mvld_segment){0, 0, 0};
}
