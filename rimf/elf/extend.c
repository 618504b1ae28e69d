/* SPDX-License-Identifier: MIT
 *
 * rimf/elf/extend.c: adds definitions to an object's symbol tables.
 *
 * Relocations name symbols by index, so existing symbols keep theirs.  In DT_GNU_HASH the symbols
 * of a chain are adjacent, so the chains of buckets that grow move to the end:
 *
 *     .dynsym   as before | chains that grew, with new symbols | …
 *     buckets   those of grown chains point there; the others are unchanged
 *     bloom     with the bits of new symbols
 *
 * .gnu.version and .dynstr likewise.  New symbols have no version, so they serve references of any.
 *
 * Tables with spare space are extended in place.  This is possible as long as nothing has been
 * looked up, even if the host loader has stored their addresses.
 *
 * A table without definitions does not tell the number of symbols: relocations do.
 */
#include "rimf/elf/view.h"

#include "rimf/base/base.h"

#include <sys/mman.h> /* numbers only */

struct extension {
    size_t n, most; /* number of old symbols; capacity */
    struct elf_gnu old;
    size_t hash_at, chain_at, versions_at, strings_at, end; /* from the start */
};

static size_t referred(const Elf64_Rela *relocations, size_t count, size_t n)
{
    for (size_t i = 0; i < count; i++)
        if (ELF64_R_SYM(relocations[i].r_info) >= n)
            n = ELF64_R_SYM(relocations[i].r_info) + 1;
    return n;
}

static int measure(const struct elf_view *view, const struct elf_more *more, size_t room, struct extension *e)
{
    size_t n = elf_symbol_count(view), names = room * ELF_ROOM_NAME;

    if (!n || !view->strings_size || !elf_gnu_tables(view, &e->old) || !e->old.head->n_buckets ||
        !e->old.head->n_bloom || e->old.head->n_bloom & (e->old.head->n_bloom - 1) || n < e->old.head->first)
        return 0;
    e->most = n - e->old.head->first; /* all chains may grow */
    n = referred(view->relocations, view->n_relocations, n);
    e->n = referred(view->plt_relocations, view->n_plt_relocations, n);
    if (e->n > view->symbols_limit)
        return 0;
    for (e->most += e->n + room; more; more = more->next, e->most++)
        names += rimf_strlen(more->name) + 1;
    e->hash_at = e->most * sizeof(Elf64_Sym);
    e->chain_at = e->hash_at + ((uintptr_t)e->old.chain - (uintptr_t)e->old.head);
    e->versions_at = e->chain_at + (e->most - e->old.head->first) * sizeof(uint32_t);
    e->strings_at = e->versions_at + e->most * sizeof(uint16_t);
    e->end = e->strings_at + view->strings_size + names;
    return 1;
}

size_t elf_extend_size(const struct elf_view *view, const struct elf_more *more, size_t room)
{
    struct extension e;

    return measure(view, more, room, &e) ? e.end : 0;
}

struct writing {
    const struct elf_view *view;
    const struct elf_gnu *old;
    Elf64_Sym *symbols;
    uint64_t *bloom;
    uint32_t *buckets, *chain;
    uint16_t *versions;
    size_t next, most; /* symbols */
};

static void append(struct writing *w, const Elf64_Sym *symbol, uint16_t version, uint32_t hash)
{
    if (w->next == w->most)
        return; /* chains share symbols: the object is damaged */
    w->symbols[w->next] = *symbol;
    w->versions[w->next] = version;
    w->chain[w->next++ - w->old->head->first] = hash & ~1u;
}

/* Writes the bucket's chain and its new symbols, unless done. */
static void write_chain(struct writing *w, uint32_t bucket, const struct elf_more *more, size_t name)
{
    const struct elf_gnu_head *head = w->old->head;
    size_t first = w->next, i = w->old->buckets[bucket];

    for (; i >= head->first && i - head->first < w->old->n_chain && i < w->view->symbols_limit; i++) {
        uint16_t version = 0;

        elf_versym(w->view, i, &version);
        append(w, &w->view->symbols[i], version, w->old->chain[i - head->first]);
        if (w->old->chain[i - head->first] & 1)
            break;
    }
    for (; more; name += rimf_strlen(more->name) + 1, more = more->next) {
        struct elf_name of = elf_name(more->name, NULL, ELF_ANY_BASE);
        Elf64_Sym symbol = more->symbol;

        if (of.gnu_hash % head->n_buckets != bucket)
            continue;
        symbol.st_name = (Elf64_Word)name;
        append(w, &symbol, 1 /* VER_NDX_GLOBAL */, of.gnu_hash);
        w->bloom[(of.gnu_hash / 64) & (head->n_bloom - 1)] |=
            1ul << of.gnu_hash % 64 | 1ul << (of.gnu_hash >> (head->shift & 31)) % 64;
    }
    w->chain[w->next - 1 - head->first] |= 1;
    w->buckets[bucket] = (uint32_t)first;
}

static void lead(const struct elf_view *view, Elf64_Dyn *entry)
{
    switch (entry->d_tag) {
    case DT_SYMTAB:
        entry->d_un.d_ptr = (uintptr_t)view->symbols - view->bias;
        break;
    case DT_GNU_HASH:
        entry->d_un.d_ptr = (uintptr_t)view->gnu_hash - view->bias;
        break;
    case DT_VERSYM:
        entry->d_un.d_ptr = view->versym ? (uintptr_t)view->versym - view->bias : entry->d_un.d_ptr;
        break;
    case DT_STRTAB:
        entry->d_un.d_ptr = (uintptr_t)view->strings - view->bias;
        break;
    case DT_STRSZ:
        entry->d_un.d_val = view->strings_size;
    }
}

/* Writes the chains, then the names.  Returns the end of the names. */
static size_t write_more(struct writing *w, const struct elf_more *more, char *strings, size_t name)
{
    const size_t behind = w->next, first_name = name;

    for (const struct elf_more *one = more; one; one = one->next) {
        uint32_t bucket = elf_name(one->name, NULL, ELF_ANY_BASE).gnu_hash % w->old->head->n_buckets;

        if (w->buckets[bucket] < behind)
            write_chain(w, bucket, more, first_name);
        memcpy(strings + name, one->name, rimf_strlen(one->name) + 1);
        name += rimf_strlen(one->name) + 1;
    }
    return name;
}

void elf_extend(struct elf_view *view, const struct elf_more *more, size_t room, uintptr_t at, size_t size)
{
    struct extension e = {.n = 0};
    struct writing w = {.view = view, .old = &e.old};
    char *strings;
    size_t name = view->strings_size;

    measure(view, more, room, &e);
    w.symbols = (Elf64_Sym *)at;
    w.bloom = (uint64_t *)(at + e.hash_at + sizeof *e.old.head);
    w.buckets = (uint32_t *)(w.bloom + e.old.head->n_bloom);
    w.chain = (uint32_t *)(at + e.chain_at);
    w.versions = (uint16_t *)(at + e.versions_at);
    strings = (char *)(at + e.strings_at);
    memcpy((void *)(at + e.hash_at), e.old.head, e.chain_at - e.hash_at);
    for (size_t i = 0; i < e.n; i++) {
        w.symbols[i] = view->symbols[i];
        elf_versym(view, i, &w.versions[i]);
    }
    for (size_t i = e.old.head->first; i < e.n && i - e.old.head->first < e.old.n_chain; i++)
        w.chain[i - e.old.head->first] = e.old.chain[i - e.old.head->first];
    memcpy(strings, view->strings, name);
    w.next = e.n;
    w.most = e.most;
    name = write_more(&w, more, strings, name);
    view->extended = (struct mvld_segment){at, at + size, PROT_READ};
    view->symbols = w.symbols;
    view->symbols_limit = w.next;
    view->gnu_hash = (const uint32_t *)(at + e.hash_at);
    view->versym = view->versym ? w.versions : NULL;
    view->strings = strings;
    view->strings_size = size - e.strings_at; /* with the spare space */
    for (size_t i = 0; i < view->n_dynamic; i++)
        lead(view, (Elf64_Dyn *)&view->dynamic[i]);
    view->strings_size = name;
}

/* Opens the tables that elf_extend made.  0: it made none. */
static int reopen(const struct elf_view *view, struct elf_gnu *old, struct writing *w)
{
    if (!view->extended.end || !elf_gnu_tables(view, old))
        return 0;
    *w = (struct writing){.view = view, .old = old, .symbols = (Elf64_Sym *)view->symbols,
                          .bloom = (uint64_t *)old->bloom, .buckets = (uint32_t *)old->buckets,
                          .chain = (uint32_t *)old->chain, .next = view->symbols_limit,
                          .most = ((uintptr_t)view->gnu_hash - (uintptr_t)view->symbols) / sizeof(Elf64_Sym)};
    w->versions = (uint16_t *)(w->chain + (w->most - old->head->first));
    return 1;
}

static size_t chain_length(const struct elf_view *view, const struct elf_gnu *old, const char *name)
{
    size_t at = old->buckets[elf_name(name, NULL, ELF_ANY_BASE).gnu_hash % old->head->n_buckets], n = 0;

    for (; at >= old->head->first && at < view->symbols_limit; at++, n++)
        if (old->chain[at - old->head->first] & 1)
            break;
    return n + 1;
}

int elf_append_fits(const struct elf_view *view, const struct elf_more *more)
{
    struct elf_gnu old;
    struct writing w;
    size_t symbols = 0, names = 0;

    if (!reopen(view, &old, &w))
        return 0;
    for (; more; more = more->next) {
        symbols += 1 + chain_length(view, &old, more->name);
        names += rimf_strlen(more->name) + 1;
    }
    return symbols <= w.most - w.next &&
           names <= view->extended.end - (uintptr_t)view->strings - view->strings_size;
}

void elf_append(struct elf_view *view, const struct elf_more *more)
{
    struct elf_gnu old;
    struct writing w;

    if (!reopen(view, &old, &w))
        return;
    view->strings_size = write_more(&w, more, (char *)view->strings, view->strings_size);
    view->symbols_limit = w.next;
}
