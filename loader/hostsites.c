/* SPDX-License-Identifier: MIT
 *
 * loader/hostsites.c: where the host loader calls mmap, and where it asks the CPU the same
 * again and again.
 *
 *     b8 09 00 00 00    movl $9, %eax       ; SYS_mmap
 *     0f 05             syscall
 *
 * To look for these bytes in all of its code takes longer than everything else that
 * is done for placement.  Of the host loader that mvld was built beside, the build
 * has looked already (known_sites.py); it is known again by its build-id, and still
 * each place must hold those bytes.
 *
 * musl maps everything, also for the program, through its function mmap.  The same bytes
 * are in it, or, before 1.2.6:
 *
 *     b8 09 00 00 00    movl $9, %eax
 *     4c 89 e7          movq %r12, %rdi
 *     0f 05             syscall
 *
 * glibc asks cpuid for the sizes of the caches, a dozen times, and each time for what it knows
 * already:
 *
 *     b8 <leaf>         movl $leaf, %eax
 *     [b9 <subleaf>     movl $subleaf, %ecx]
 *     0f a2             cpuid
 *
 * On the machine itself that is nothing; in a virtual one each of them goes to the
 * hypervisor, for some microseconds.  So the first answer in the process is given again
 * (entry.S).  The questions are those for the highest leaf, for the caches of the first and
 * second level, and for a cache by its number (0x80000000, 0x80000005, 0x80000006,
 * 0x8000001d): their answers change neither with time nor with what was asked before, and
 * %ecx counts in the last one only.  Where the CPUs of a machine differ in them, it is chance
 * under the host loader, too, on which of them each is answered.  Only the movl is replaced:
 * whoever branches to the cpuid itself still finds it.
 */
#include "loader.h"

#include "known_sites.h"

static const uint8_t site[7] = {0xb8, 0x09, 0x00, 0x00, 0x00, 0x0f, 0x05};

static int is_known(const struct host *host)
{
    struct identity identity = {0};

    for (size_t i = 0; i < host->phnum; i++) {
        const Elf64_Phdr *ph = &host->phdr[i];

        if (ph->p_type == PT_NOTE && ph->p_align <= 4 && ph->p_vaddr % 4 == 0 &&
            ph->p_vaddr < host->end - host->bias &&
            ph->p_filesz <= host->end - host->bias - ph->p_vaddr)
            find_build_id((const char *)(host->bias + ph->p_vaddr), ph->p_filesz, &identity);
    }
    return identity.size == sizeof known_build_id &&
           memcmp(identity.build_id, known_build_id, sizeof known_build_id) == 0;
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

/* The next call at or after `p`.  Its last byte, 05, is looked for in eight bytes at a
 * time: the term with `high` is nonzero exactly when one of them
 * is 05, and its lowest bit then belongs to the first.  20 µs for 150 KB. */
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

/* The length of the code at *place: that of `site`, or MMAP_MUSL_SIZE.  0: there is none. */
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

/* At most MMAP_SITES; 0: there is none, or there are more. */
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

size_t host_question_size(const struct host *host, const struct question *q)
{
    const uintptr_t at = host->bias + q->at;
    uint8_t code[12] = {0xb8};
    size_t n = 5;

    memcpy(code + 1, &q->leaf, 4);
    if (q->subleaf >= 0) {
        code[n] = 0xb9;
        memcpy(code + n + 1, &q->subleaf, 4);
        n += 5;
    }
    code[n++] = 0x0f;
    code[n++] = 0xa2;
    return at >= host->text && at <= host->text_end - n && memcmp((const void *)at, code, n) == 0
               ? n
               : 0;
}

/* Only of a host loader that the build has disassembled; 0 of others. */
size_t host_questions(const struct host *host, const struct question **questions)
{
    *questions = known_questions;
    return known_questions[0].leaf && is_known(host) ? RIMF_COUNT(known_questions) : 0;
}
