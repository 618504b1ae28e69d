/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/object_relocations.c: reads relocations and symbols: all addresses that may be entered or
 * pointed to from outside the code, the slots of the GOT, and code that relocations change.
 *
 * An object at a fixed address has pointers without relocations.  A search for words that look like
 * addresses finds numbers (in python3, 9 % of the code would be entered by one), so there is none:
 * branches, symbols and landing pads must suffice.
 *
 * All relocated words are stored once more, including those that point to data, for tabled.c.
 *
 * A file may name the same table a thousand times in its headers, but it is read once; no count is larger
 * than its bytes allow.
 */
#include "rimf/analyze/object.h"

#include "rimf/elf/view.h"

#include <string.h>
#include <sys/mman.h>

static int is_code(const struct object *o, uint64_t address)
{
    const struct segment *s = object_segment(o, address);

    return s && s->flags & PF_X;
}

static void point(struct object *o, uint64_t target, uint64_t from)
{
    if (is_code(o, target))
        VECTOR_ADD(&o->pointers, struct pointer, (uint32_t)target, (uint32_t)from);
}

/* A word that a relocation writes; target 0: in another object. */
static void write_word(struct object *o, uint64_t target, uint64_t place)
{
    const struct segment *s = object_segment(o, place);

    if (s && s->flags & PF_W && place % 8 == 0)
        VECTOR_ADD(&o->words, struct pointer, (uint32_t)target, (uint32_t)place);
}

/* A table of the dynamic section, cut at the end of its segment.  Entries of 24 bytes consist of words of 8. */
static const void *table(const struct object *o, int64_t tag, uint64_t want, size_t entry,
                         size_t *n)
{
    uint64_t address = object_tag(o, tag);
    size_t room = address ? object_room(o, address) : 0;
    const uint8_t *at = object_at(o, address, 0);

    *n = (want < room ? want : room) / entry;
    return at && (uintptr_t)at % (entry < 8 ? entry : 8) == 0 && *n ? at : NULL;
}

/* ---- relocations -------------------------------------------------------------------- */

struct symbols {
    const Elf64_Sym *at;
    size_t n;
    const char *names; /* the last byte is zero, or there are no names */
    size_t names_size;
};

static void take_place(struct object *o, uint64_t place, uint32_t type)
{
    const struct segment *s = object_segment(o, place);

    if (!s || place % 8 != 0 || !(s->flags & PF_W))
        return;
    if (type == R_X86_64_GLOB_DAT || type == R_X86_64_JUMP_SLOT || type == R_X86_64_IRELATIVE)
        VECTOR_ADD(&o->slots, uint32_t, (uint32_t)place);
}

/* A relocation changes up to eight bytes; each of them in code is recorded. */
static void take_relocated(struct object *o, uint64_t place)
{
    if (!is_code(o, place) && !is_code(o, place + 7))
        return;
    for (uint64_t at = place; at < place + 8; at++)
        if (is_code(o, at))
            VECTOR_ADD(&o->relocated, uint32_t, (uint32_t)at);
}

static void take_relocation(struct object *o, const struct symbols *symbols, const Elf64_Rela *r)
{
    uint32_t type = ELF64_R_TYPE(r->r_info);
    uint64_t symbol = ELF64_R_SYM(r->r_info), target = (uint64_t)r->r_addend;

    take_place(o, r->r_offset, type);
    take_relocated(o, r->r_offset);
    if (type == R_X86_64_64 && symbol < symbols->n) {
        /* Another object may define it; then one more check does no harm. */
        const Elf64_Sym *sym = &symbols->at[symbol];
        int known = sym->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(sym->st_info) != STT_TLS;

        if (known)
            point(o, sym->st_value + target, r->r_offset);
        write_word(o, known ? sym->st_value + target : 0, r->r_offset);
    } else if (type == R_X86_64_RELATIVE || type == R_X86_64_IRELATIVE) {
        point(o, target, r->r_offset);
        write_word(o, target, r->r_offset);
        if (type == R_X86_64_IRELATIVE)
            VECTOR_ADD(&o->named, uint32_t, (uint32_t)target);
    } else {
        write_word(o, 0, r->r_offset);
    }
}

static void take_table(struct object *o, const struct symbols *symbols, int64_t tag,
                       uint64_t size)
{
    size_t n;
    const Elf64_Rela *r = table(o, tag, size, sizeof *r, &n);

    for (size_t i = 0; r && i < n; i++)
        take_relocation(o, symbols, &r[i]);
}

static int take_relative_word(void *object, uintptr_t place)
{
    struct object *o = object;
    const uint8_t *at = object_at(o, place, 8);
    uint64_t target;

    take_relocated(o, place);
    if (!at)
        return 0;
    memcpy(&target, at, sizeof target);
    point(o, target, place);
    write_word(o, target, place);
    return 0;
}

static void take_relr(struct object *o)
{
    struct elf_view view = {.bias = 0}; /* of this table alone */

    view.relr = table(o, DT_RELR, object_tag(o, DT_RELRSZ), sizeof *view.relr, &view.n_relr);
    if (view.relr)
        elf_relr_each(&view, take_relative_word, o);
}

/* ---- symbols --------------------------------------------------------------------------- */

static size_t count_by_gnu_hash(const struct object *o)
{
    size_t room;
    const uint32_t *at = table(o, DT_GNU_HASH, UINT64_MAX, sizeof *at, &room);
    struct mvld_segment bytes = {.start = (uintptr_t)at, .end = (uintptr_t)(at + room), .prot = PROT_READ};
    const struct elf_view view = {.segments = &bytes, .n_segments = 1, .gnu_hash = at, .symbols_limit = SIZE_MAX};

    return at ? elf_symbol_count(&view) : 0;
}

static void take_names(struct symbols *s, const void *at, size_t size)
{
    s->names = at;
    while (at && size && s->names[size - 1])
        size--;
    s->names_size = at ? size : 0;
}

static struct symbols dynamic_symbols(const struct object *o)
{
    struct symbols s = {NULL, 0, NULL, 0};
    size_t n, room, gnu, count = 0;
    const char *names;
    const uint32_t *hash = table(o, DT_HASH, UINT64_MAX, 4, &n);

    if (hash && n >= 2)
        count = hash[1];
    gnu = count_by_gnu_hash(o);
    count = gnu > count ? gnu : count;
    s.at = table(o, DT_SYMTAB, UINT64_MAX, sizeof *s.at, &room);
    s.n = !s.at ? 0 : count < room ? count : room;
    names = table(o, DT_STRTAB, object_tag(o, DT_STRSZ), 1, &room);
    take_names(&s, names, room);
    return s;
}

/* Takes functions, and untyped addresses in the dynamic table: other objects may call those, too.  Data in
 * code is stored separately. */
static void take_symbols(struct object *o, const struct symbols *symbols, int local)
{
    for (size_t i = 0; i < symbols->n; i++) {
        const Elf64_Sym *s = &symbols->at[i];
        unsigned type = ELF64_ST_TYPE(s->st_info);

        if (s->st_name < symbols->names_size)
            object_take_name(o, symbols->names + s->st_name, s->st_shndx == SHN_UNDEF);
        if (s->st_shndx == SHN_UNDEF || s->st_shndx >= SHN_LORESERVE)
            continue;
        if (!local && type != STT_TLS)
            VECTOR_ADD(&o->named, uint32_t, (uint32_t)s->st_value);
        if (type == STT_FUNC || type == STT_GNU_IFUNC || (type == STT_NOTYPE && !local))
            point(o, s->st_value, s->st_value);
        else if (type == STT_NOTYPE && is_code(o, s->st_value))
            VECTOR_ADD(&o->labels, uint32_t, (uint32_t)s->st_value);
        if ((type == STT_FUNC || type == STT_GNU_IFUNC) && s->st_name < symbols->names_size &&
            is_code(o, s->st_value))
            VECTOR_ADD(&o->functions, struct function, symbols->names + s->st_name,
                       (uint32_t)s->st_value, (uint32_t)s->st_size);
        if (type == STT_OBJECT && s->st_size && is_code(o, s->st_value))
            VECTOR_ADD(&o->data, struct pointer, (uint32_t)s->st_value, (uint32_t)s->st_value);
    }
}

static void take_local_symbols(struct object *o)
{
    size_t n;
    const Elf64_Shdr *sections = object_sections(o, &n), *section = sections;

    for (size_t i = 0; i < n; i++, section++) {
        struct symbols symbols = {NULL, 0, NULL, 0};

        if (section->sh_type != SHT_SYMTAB || section->sh_entsize != sizeof(Elf64_Sym) ||
            section->sh_offset % 8 != 0 || section->sh_offset > o->size ||
            section->sh_size > o->size - section->sh_offset)
            continue;
        symbols.at = (const Elf64_Sym *)(o->file + section->sh_offset);
        symbols.n = section->sh_size / sizeof(Elf64_Sym);
        if (section->sh_link < n && sections[section->sh_link].sh_offset <= o->size &&
            sections[section->sh_link].sh_size <= o->size - sections[section->sh_link].sh_offset)
            take_names(&symbols, o->file + sections[section->sh_link].sh_offset,
                       sections[section->sh_link].sh_size);
        take_symbols(o, &symbols, 1);
        return; /* there is one */
    }
}

/* ---- the rest ----------------------------------------------------------------------------- */

static void take_entry(struct object *o, uint64_t address)
{
    point(o, address, address);
    VECTOR_ADD(&o->named, uint32_t, (uint32_t)address);
}

static int by_place(const void *a, const void *b)
{
    const struct pointer *x = a, *y = b;

    return x->from < y->from ? -1 : x->from > y->from;
}

const struct pointer *object_word_at(const struct object *o, uint32_t place)
{
    const struct pointer key = {.from = place};

    return o->words.n ? bsearch(&key, o->words.at, o->words.n, sizeof key, by_place) : NULL;
}

int object_read_references(struct object *o)
{
    struct symbols symbols = dynamic_symbols(o);

    take_table(o, &symbols, DT_RELA, object_tag(o, DT_RELASZ));
    if (object_tag(o, DT_PLTREL) == DT_RELA)
        take_table(o, &symbols, DT_JMPREL, object_tag(o, DT_PLTRELSZ));
    take_relr(o);
    take_symbols(o, &symbols, 0);
    take_local_symbols(o);
    take_entry(o, o->header.e_entry);
    take_entry(o, object_tag(o, DT_INIT));
    take_entry(o, object_tag(o, DT_FINI));
    object_find_restarts(o);
    object_find_maps(o);
    sort_addresses(&o->slots);
    sort_addresses(&o->relocated);
    sort_addresses(&o->named);
    if (o->words.n)
        qsort(o->words.at, o->words.n, sizeof(struct pointer), by_place);
    if (vectors_failed(o->all, RIMF_COUNT(o->all)))
        return object_fail(o, "there is no memory for its relocations");
    return 0;
}
