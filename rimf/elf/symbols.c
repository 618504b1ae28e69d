/* SPDX-License-Identifier: MIT
 *
 * rimf/elf/symbols.c: one object's dynamic symbols, by DT_GNU_HASH or DT_HASH, their versions, and relocations.
 *
 * The host loader decides what is a definition, and which of several versions is meant (glibc's
 * elf/dl-lookup.c; musl ignores versions and agrees where there is one).
 */
#include "rimf/elf/view.h"

#include "rimf/base/base.h"

#include <errno.h> /* numbers only */

struct lookup {
    const struct elf_view *view;
    const struct elf_name *of;
    size_t n_versioned, versioned; /* number of symbols with a default version, and the first of
                                    * them */
};

int elf_symbol_at(const struct elf_view *view, size_t index, Elf64_Sym *out)
{
    if (!view->symbols || index >= view->symbols_limit)
        return -ENOENT;
    *out = view->symbols[index];
    return 0;
}

uintptr_t elf_symbol_address(const struct elf_view *view, const Elf64_Sym *symbol)
{
    if (ELF64_ST_TYPE(symbol->st_info) == STT_TLS)
        return 0;
    return symbol->st_shndx == SHN_ABS ? symbol->st_value : view->bias + symbol->st_value;
}

int elf_string_is(const struct elf_view *view, size_t offset, const char *name)
{
    for (; offset < view->strings_size; offset++, name++) {
        if (view->strings[offset] != *name)
            return 0;
        if (!*name)
            return 1;
    }
    return 0;
}

static int is_definition(const Elf64_Sym *symbol)
{
    unsigned type = ELF64_ST_TYPE(symbol->st_info), binding = ELF64_ST_BIND(symbol->st_info);
    unsigned visibility = ELF64_ST_VISIBILITY(symbol->st_other);

    if (symbol->st_shndx == SHN_UNDEF || visibility == STV_HIDDEN || visibility == STV_INTERNAL)
        return 0;
    if (binding != STB_GLOBAL && binding != STB_WEAK && binding != STB_GNU_UNIQUE)
        return 0;
    if (symbol->st_value == 0 && symbol->st_shndx != SHN_ABS && type != STT_TLS)
        return 0;
    return type == STT_NOTYPE || type == STT_OBJECT || type == STT_FUNC || type == STT_COMMON ||
           type == STT_TLS || type == STT_GNU_IFUNC;
}

/* Whether symbol `index`, whose name is right, has the wanted version.  Without a wanted version a
 * default one is only recorded, and used if it is the only one. */
static int version_fits(struct lookup *lookup, size_t index)
{
    unsigned first_versioned = lookup->of->wanted == ELF_ANY_DEFAULT ? 2 : 3, number;
    const char *name;
    uint16_t entry;

    if (elf_versym(lookup->view, index, &entry))
        return 1;
    number = entry & ELF_VERSION_INDEX;
    if (lookup->of->wanted == ELF_ANY_DEFAULT || lookup->of->wanted == ELF_ANY_BASE) {
        if (number < first_versioned)
            return 1;
        if (!(entry & ELF_VERSION_HIDDEN) && lookup->n_versioned++ == 0)
            lookup->versioned = index;
        return 0;
    }
    name = elf_version_name(lookup->view, number);
    if (name)
        return rimf_streq(name, lookup->of->version);
    return lookup->of->wanted == ELF_EXACT_OR_NONE && !(entry & ELF_VERSION_HIDDEN);
}

static int matches(struct lookup *lookup, size_t index)
{
    Elf64_Sym symbol;

    return elf_symbol_at(lookup->view, index, &symbol) == 0 && is_definition(&symbol) &&
           elf_string_is(lookup->view, symbol.st_name, lookup->of->name) && version_fits(lookup, index);
}

/* ---- DT_GNU_HASH ---------------------------------------------------------- *
 *
 *   n_buckets, first symbol, n_bloom, bloom shift    4 words
 *   bloom filter                                     n_bloom 8-byte words
 *   buckets: index of the first symbol of a chain    n_buckets words
 *   a symbol's hash, bit 0: last of its chain        one word from `first` on
 */
struct elf_gnu {
    const struct elf_gnu_head {
        uint32_t n_buckets, first, n_bloom, shift;
    } *head;
    const uint64_t *bloom;
    const uint32_t *buckets, *chain; /* chain: from `first` on */
    size_t n_chain;
};

/* Returns 1 if they exist; they may be wrong. */
static int gnu_tables(const struct elf_view *view, struct elf_gnu *g)
{
    const struct elf_gnu_head *head = (const struct elf_gnu_head *)view->gnu_hash;
    size_t room = head ? elf_room(view, (uintptr_t)(head + 1)) : 0;
    size_t tables = head ? (size_t)head->n_bloom * 8 + (size_t)head->n_buckets * 4 : 0;

    if (!head || tables > room)
        return 0;
    g->head = head;
    g->bloom = (const uint64_t *)(head + 1);
    g->buckets = (const uint32_t *)(g->bloom + head->n_bloom);
    g->chain = g->buckets + head->n_buckets;
    g->n_chain = (room - tables) / 4;
    return 1;
}

static uint32_t gnu_hash_of(const char *name)
{
    uint32_t hash = 5381;

    for (; *name; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

static size_t find_gnu(struct lookup *lookup)
{
    uint32_t hash = lookup->of->gnu_hash;
    struct elf_gnu g;
    uint64_t word;

    if (!gnu_tables(lookup->view, &g) || !g.head->n_buckets || !g.head->n_bloom ||
        g.head->n_bloom & (g.head->n_bloom - 1))
        return 0;
    word = g.bloom[(hash / 64) & (g.head->n_bloom - 1)];
    if (!(word >> (hash % 64) & word >> ((hash >> (g.head->shift & 31)) % 64) & 1))
        return 0;
    for (size_t index = g.buckets[hash % g.head->n_buckets], at = index - g.head->first;
         index >= g.head->first && at < g.n_chain; index++, at++) {
        if ((g.chain[at] | 1) == (hash | 1) && matches(lookup, index))
            return index;
        if (g.chain[at] & 1)
            break;
    }
    return 0;
}

/* ---- DT_HASH --------------------------------------------------------------- *
 *
 *   n_buckets, n_chain                                  2 words
 *   buckets: index of the first symbol of a chain       n_buckets words
 *   chain: index of the symbol that follows, 0: none    n_chain words
 */
static uint32_t sysv_hash_of(const char *name)
{
    uint32_t hash = 0;

    for (; *name; name++) {
        hash = (hash << 4) + (unsigned char)*name;
        hash ^= (hash & 0xf0000000u) >> 24;
        hash &= 0x0fffffffu;
    }
    return hash;
}

static size_t find_sysv(struct lookup *lookup)
{
    const uint32_t *table = lookup->view->hash;
    size_t n_buckets = table[0], n_chain = table[1], index;
    size_t room = elf_room(lookup->view, (uintptr_t)table) / 4 - 2;

    if (!n_buckets || n_buckets > room || n_chain > room - n_buckets)
        return 0;
    index = table[2 + sysv_hash_of(lookup->of->name) % n_buckets];
    for (size_t steps = 0; index && index < n_chain && steps < n_chain; steps++) {
        if (matches(lookup, index))
            return index;
        index = table[2 + n_buckets + index];
    }
    return 0;
}

/* ---- counting --------------------------------------------------------------- *
 *
 * No entry gives the number of symbols.  DT_HASH has a chain entry for each; in DT_GNU_HASH the
 * last symbol ends the chain of the bucket with the highest start.
 */
static size_t count_gnu(const struct elf_view *view)
{
    struct elf_gnu g;
    size_t last = 0;

    if (!gnu_tables(view, &g))
        return 0;
    for (size_t i = 0; i < g.head->n_buckets; i++)
        if (g.buckets[i] > last)
            last = g.buckets[i];
    if (last < g.head->first || !last)
        return g.head->first;
    while (last - g.head->first < g.n_chain && !(g.chain[last - g.head->first] & 1))
        last++;
    return last + 1;
}

size_t elf_symbol_count(const struct elf_view *view)
{
    size_t n = 0, room;

    if (view->gnu_hash) {
        n = count_gnu(view);
    } else if (view->hash) {
        room = elf_room(view, (uintptr_t)view->hash) / 4 - 2;
        n = view->hash[1] <= room ? view->hash[1] : 0;
    }
    return n < view->symbols_limit ? n : view->symbols_limit;
}

struct elf_name elf_name(const char *name, const char *version, enum elf_wanted wanted)
{
    return (struct elf_name){name, version, wanted, gnu_hash_of(name)};
}

size_t elf_symbol_find(const struct elf_view *view, const struct elf_name *of)
{
    struct lookup lookup = {.view = view, .of = of};
    size_t index = 0;

    if (view->gnu_hash)
        index = find_gnu(&lookup);
    else if (view->hash)
        index = find_sysv(&lookup);
    if (!index && lookup.n_versioned == 1)
        index = lookup.versioned;
    return index;
}

/* ---- versions ----------------------------------------------------------------------------------
 *
 * Symbol versions.
 *
 * DT_VERSYM has one 16-bit entry for each symbol: the number of its version, and whether the symbol
 * is hidden (not the default of its name).  Numbers 0 and 1 mean local and global without version;
 * DT_VERDEF assigns numbers to the versions that the object defines, DT_VERNEED to those that it
 * needs.  Both tables are chains of forward distances.
 */

int elf_versym(const struct elf_view *view, size_t index, uint16_t *out)
{
    if (!view->versym || index >= view->symbols_limit ||
        elf_room(view, (uintptr_t)(view->versym + index)) < sizeof *view->versym)
        return -ENOENT;
    *out = view->versym[index];
    return 0;
}

/* The address of the next record of a chain if one of `size` bytes fits there, or 0.  The segment
 * of the first one ends at `end`; nearly all are in it. */
static uintptr_t follow(const struct elf_view *view, uintptr_t at, uint32_t distance, size_t size,
                        uintptr_t end)
{
    uintptr_t next = at + distance;

    if (!distance || next < at || next % 4 != 0 ||
        (next < end ? end - next : elf_room(view, next)) < size)
        return 0;
    return next;
}

static uintptr_t end_at(const struct elf_view *view, uintptr_t at)
{
    return at ? at + elf_room(view, at) : 0;
}

const char *elf_version_defined(const struct elf_view *view, unsigned number)
{
    uintptr_t at = view->verdef, end = end_at(view, at);

    for (size_t i = 0; at && i < view->n_verdef; i++) {
        const Elf64_Verdef *record = (const Elf64_Verdef *)at;

        if ((record->vd_ndx & ELF_VERSION_INDEX) == number) {
            uintptr_t name = follow(view, at, record->vd_aux, sizeof(Elf64_Verdaux), end);

            if (!name || record->vd_flags & VER_FLG_BASE)
                return NULL;
            return elf_string(view, ((const Elf64_Verdaux *)name)->vda_name);
        }
        at = follow(view, at, record->vd_next, sizeof *record, end);
    }
    return NULL;
}

static const char *needed_of_file(const struct elf_view *view, uintptr_t file, unsigned number,
                                  uintptr_t end)
{
    const Elf64_Verneed *record = (const Elf64_Verneed *)file;
    uintptr_t at = follow(view, file, record->vn_aux, sizeof(Elf64_Vernaux), end);

    for (size_t i = 0; at && i < record->vn_cnt; i++) {
        const Elf64_Vernaux *version = (const Elf64_Vernaux *)at;

        if ((version->vna_other & ELF_VERSION_INDEX) == number)
            return elf_string(view, version->vna_name);
        at = follow(view, at, version->vna_next, sizeof *version, end);
    }
    return NULL;
}

static const char *needed_version(const struct elf_view *view, unsigned number)
{
    uintptr_t at = view->verneed, end = end_at(view, at);

    for (size_t i = 0; at && i < view->n_verneed; i++) {
        const char *name = needed_of_file(view, at, number, end);

        if (name)
            return name;
        at = follow(view, at, ((const Elf64_Verneed *)at)->vn_next, sizeof(Elf64_Verneed), end);
    }
    return NULL;
}

const char *elf_version_name(const struct elf_view *view, unsigned number)
{
    const char *name = elf_version_defined(view, number);

    return name ? name : needed_version(view, number);
}

/* ---- relocations -------------------------------------------------------------------------------
 *
 * Finds the relocation that fills a GOT slot, and the words that are relocated to addresses.
 */

/* Slots and their relocations are usually in the same order: try that index first. */
static int find_plt(const struct elf_view *view, uint64_t offset, Elf64_Rela *out)
{
    const Elf64_Rela *table = view->plt_relocations;
    size_t guess;

    if (!view->n_plt_relocations)
        return -ENOENT;
    guess = (size_t)((offset - table[0].r_offset) / sizeof(Elf64_Addr));
    if (guess < view->n_plt_relocations && table[guess].r_offset == offset) {
        *out = table[guess];
        return 0;
    }
    for (size_t i = 0; i < view->n_plt_relocations; i++) {
        if (table[i].r_offset == offset) {
            *out = table[i];
            return 0;
        }
    }
    return -ENOENT;
}

int elf_slot_relocation(const struct elf_view *view, uintptr_t slot, Elf64_Rela *out)
{
    uint64_t offset = slot - view->bias;

    if (find_plt(view, offset, out) == 0)
        return ELF64_R_TYPE(out->r_info) == R_X86_64_JUMP_SLOT ||
                       ELF64_R_TYPE(out->r_info) == R_X86_64_IRELATIVE
                   ? 0
                   : -ENOENT;
    for (size_t i = view->n_relative; i < view->n_relocations; i++) {
        if (view->relocations[i].r_offset != offset)
            continue;
        *out = view->relocations[i];
        return ELF64_R_TYPE(out->r_info) == R_X86_64_GLOB_DAT ? 0 : -ENOENT;
    }
    return -ENOENT;
}

int elf_pointer_each(const struct elf_view *view, int (*visit)(void *cookie, uintptr_t word), void *cookie)
{
    int result = 0;

    for (size_t i = 0; i < view->n_relocations && !result; i++) {
        uint32_t type = ELF64_R_TYPE(view->relocations[i].r_info);

        if (type == R_X86_64_RELATIVE || type == R_X86_64_64 || type == R_X86_64_IRELATIVE)
            result = visit(cookie, view->bias + view->relocations[i].r_offset);
    }
    return result ? result : elf_relr_each(view, visit, cookie);
}
