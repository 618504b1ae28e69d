/* SPDX-License-Identifier: MIT
 *
 * loader/host/sites.c: finds the host loader's calls of mmap, its cpuid instructions, its symbols.
 *
 *     b8 09 00 00 00    movl $9, %eax       ; SYS_mmap
 *     0f 05             syscall
 *
 * Searching all of its code for these bytes takes longer than all other work for placement.  For
 * the host loader of the build the search was done at build time (known_sites.py).  That host
 * loader is recognised by its build-id, and each site must still contain those bytes.
 *
 * musl maps everything, also for the program, through its function mmap.  That contains the same
 * bytes, or, before 1.2.6:
 *
 *     b8 09 00 00 00    movl $9, %eax
 *     4c 89 e7          movq %r12, %rdi
 *     0f 05             syscall
 *
 * The build also knows its cpuid instructions (cpuid.c has the answers).
 */
#include "loader/host/host.h"

#include "known_build_id.h"
#include "known_sites.h"
#include "rimf/base/base.h"
#include "rimf/elf/headers.h"

static const uint8_t site[7] = {0xb8, 0x09, 0x00, 0x00, 0x00, 0x0f, 0x05};

static int is_known(const struct host *host)
{
    size_t size;
    const uint8_t *id = elf_head_note((const void *)host->start, RIMF_PAGE, "GNU", NT_GNU_BUILD_ID, &size);

    return id && size == sizeof known_build_id && memcmp(id, known_build_id, size) == 0;
}

static size_t take_known(const struct host *host, uintptr_t *sites)
{
    size_t n = RIMF_COUNT(known_sites);

    if (n > MMAP_SITES || !is_known(host))
        return 0;
    for (size_t i = 0; i < n; i++) {
        sites[i] = host->bias + known_sites[i];
        if (sites[i] < host->text || sites[i] > host->text_end - sizeof site ||
            memcmp((const void *)sites[i], site, sizeof site) != 0)
            return 0;
    }
    return n;
}

/* The next call at or after `p`.  Its last byte, 05, is searched in eight bytes at a time: the term
 * with `high` is nonzero exactly if one of them is 05, and its lowest bit then belongs to the
 * first.  20 µs for 150 KB. */
static const uint8_t *next_mmap(const uint8_t *p, const uint8_t *end)
{
    const uint64_t low = 0x0101010101010101u, high = 0x8080808080808080u;
    const size_t last = sizeof site - 1;

    for (p += last; p < end && end - p >= 8; p += 8) {
        uint64_t word, found;

        __builtin_memcpy(&word, p, sizeof word); /* one load */
        word ^= 0x05 * low;
        for (found = (word - low) & ~word & high; found; found &= found - 1) {
            const uint8_t *at = p + __builtin_ctzll(found) / 8 - last;

            if (memcmp(at, site, sizeof site) == 0)
                return at;
        }
    }
    return NULL;
}

/* The length of the code at *place: that of `site`, or MMAP_MUSL_SIZE.  0: not found. */
size_t host_mmap_musl(const struct host *host, uintptr_t *place)
{
    static const uint8_t older[MMAP_MUSL_SIZE] = {0xb8, 0x09, 0x00, 0x00, 0x00,
                                                  0x4c, 0x89, 0xe7, 0x0f, 0x05};
    const Elf64_Sym *symbol = host_symbol(host, "mmap");
    uintptr_t at = symbol ? host->bias + symbol->st_value : 0;

    if (!symbol || at < host->text || at > host->text_end ||
        symbol->st_size > host->text_end - at)
        return 0;
    for (uintptr_t end = at + symbol->st_size; end - at >= sizeof older; at++) {
        *place = at;
        if (memcmp((const void *)at, site, sizeof site) == 0)
            return sizeof site;
        if (memcmp((const void *)at, older, sizeof older) == 0)
            return sizeof older;
    }
    return 0;
}

/* Returns at most MMAP_SITES sites; 0: there is none, or there are more. */
size_t host_mmap_sites(const struct host *host, uintptr_t *sites)
{
    const uint8_t *p = (const uint8_t *)host->text, *end = (const uint8_t *)host->text_end;
    size_t n = take_known(host, sites);

    if (n)
        return n;
    for (p = next_mmap(p, end); p; p = next_mmap(p + sizeof site, end)) {
        if (n == MMAP_SITES)
            return 0;
        sites[n++] = (uintptr_t)p;
    }
    return n;
}

/* Its stub begins with the same instructions. */
uintptr_t host_question_end(const struct host *host, const struct question *questions, size_t i)
{
    static const uint8_t cpuid[] = {0x0f, 0xa2};
    const uint8_t *stub = loader_cpuid_stubs + CPUID_STUB_SIZE * i + CPUID_STUB_CODE;
    const size_t size = questions[i].size;
    const uintptr_t at = host->bias + questions[i].at, end = at + size + sizeof cpuid;

    return at >= host->text && end > at && end <= host->text_end &&
                   memcmp((const void *)at, stub, size) == 0 &&
                   memcmp((const void *)(at + size), cpuid, sizeof cpuid) == 0
               ? end
               : 0;
}

/* Known only for a host loader that the build has disassembled; 0 for others. */
size_t host_questions(const struct host *host, const struct question **questions)
{
    *questions = known_questions;
    return known_questions[0].size && is_known(host) ? RIMF_COUNT(known_questions) : 0;
}

/* ---- symbols --------------------------------------------------------------------------------- */

/* rimf/elf/symbols.c finds symbols, too.  Each start of each program runs this code, so it does without:
 * rimf/elf/symbols.c is in pages that a start with nothing configured does not touch, and its view of an
 * object asks the kernel which memory can be read.
 */

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
