/* SPDX-License-Identifier: MIT
 *
 * loader/host/symbol.c: finds a dynamic symbol of the host loader by name.
 *
 * rimf/elf/symbols.c finds symbols, too.  Each start of each program runs this code, so it does without:
 * rimf/elf/symbols.c is in pages that a start with nothing configured does not touch, and its view of an
 * object asks the kernel which memory can be read.
 */
#include "loader/host/host.h"

#include "rimf/base/base.h"

static int inside(const struct host *host, const void *p, size_t size)
{
    uintptr_t at = (uintptr_t)p;

    return at >= host->start && at <= host->end && size <= host->end - at;
}

/* A table of the dynamic section, not yet relocated; NULL if it is outside. */
static const void *table(const struct host *host, const Elf64_Dyn *d, size_t size)
{
    const void *p = (const void *)(host->bias + d->d_un.d_ptr);

    return inside(host, p, size) ? p : NULL;
}

struct symbols {
    const Elf64_Sym *table;
    const char *strings;
    size_t strings_size;
    const uint32_t *gnu_hash, *hash;
};

static int symbol_is(const struct host *host, const struct symbols *s, uint32_t index,
                     const char *name)
{
    const Elf64_Sym *symbol = s->table + index;

    if (!inside(host, symbol, sizeof *symbol) || symbol->st_shndx == SHN_UNDEF ||
        symbol->st_name >= s->strings_size ||
        rimf_strlen(name) >= s->strings_size - symbol->st_name)
        return 0;
    return rimf_streq(s->strings + symbol->st_name, name) &&
           inside(host, (void *)(host->bias + symbol->st_value), symbol->st_size);
}

static const Elf64_Sym *find_gnu(const struct host *host, const struct symbols *s,
                                 const char *name)
{
    const uint32_t *h = s->gnu_hash, *bucket, *chain;
    uint32_t hash = 5381, i;

    for (const char *p = name; *p; p++)
        hash = hash * 33 + (uint8_t)*p;
    if (!h[0] || h[0] > 1u << 20 || h[2] > 1u << 20)
        return NULL;
    bucket = h + 4 + 2 * h[2];
    chain = bucket + h[0];
    if (!inside(host, bucket, 4ul * h[0]))
        return NULL;
    i = bucket[hash % h[0]];
    for (; i >= h[1] && inside(host, chain + (i - h[1]), 4); i++) {
        uint32_t other = chain[i - h[1]];

        if (((other ^ hash) >> 1) == 0 && symbol_is(host, s, i, name))
            return s->table + i;
        if (other & 1)
            break;
    }
    return NULL;
}

const Elf64_Sym *host_symbol(const struct host *host, const char *name)
{
    struct symbols s = {0};

    for (const Elf64_Dyn *d = host->dynamic; inside(host, d, sizeof *d) && d->d_tag; d++) {
        switch (d->d_tag) {
        case DT_SYMTAB: s.table = table(host, d, sizeof *s.table); break;
        case DT_STRTAB: s.strings = table(host, d, 1); break;
        case DT_STRSZ: s.strings_size = d->d_un.d_val; break;
        case DT_GNU_HASH: s.gnu_hash = table(host, d, 16); break;
        case DT_HASH: s.hash = table(host, d, 8); break;
        default: break;
        }
    }
    if (!s.table || !s.strings || !inside(host, s.strings, s.strings_size))
        return NULL;
    if (s.gnu_hash)
        return find_gnu(host, &s, name);
    for (uint32_t i = 1; s.hash && i < s.hash[1]; i++) {
        if (!inside(host, s.table + i, sizeof *s.table))
            break;
        if (symbol_is(host, &s, i, name))
            return s.table + i;
    }
    return NULL;
}
