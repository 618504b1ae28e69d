/* SPDX-License-Identifier: MIT
 *
 * loader/host/sites.c: finds the host loader's calls of mmap, and its cpuid instructions.
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
#include "rimf/base/base.h"
#include "rimf/elf/headers.h"
#include "known_build_id.h"
#include "known_sites.h"

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
