/* SPDX-License-Identifier: MIT
 *
 * rimf/base/cpu.c: records the CPU's answers; cpu.h tells which are reused.
 */
#include "rimf/base/cpu.h"

#include "rimf/base/base.h"

#include <errno.h> /* numbers only */

#define OSXSAVE (1u << 27)    /* 1, ECX */
#define HYPERVISOR (1u << 31) /* 1, ECX */
#define CPU_NUMBER 0xff000000u /* 1, EBX */
#define HYBRID (1u << 15)     /* 7.0, EDX */
#define TRACE (1u << 25)      /* 7.0, EBX: leaf 0x14 */
#define KEY_LOCKER (1u << 23) /* 7.0, ECX: leaf 0x19 */

enum { BASIS_1, BASIS_7, BASIS_D, BASIS_0 };
static const struct {
    uint32_t leaf, subleaf;
} basis_of[CPU_BASIS] = {{1, 0}, {7, 0}, {0xd, 1}, {0, 0}};

/* The recorded answers: for each leaf the subleaves from `first` up to `n`, or, for lists of
 * caches, to the one that ends the list. */
static const struct {
    uint32_t leaf, first, n;
    int listed;
} kept[] = {
    {0x2, 0, 1, 0},         /* descriptors of caches */
    {0x4, 0, 8, 1},         /* caches */
    {0xd, 0, 1, 0},         /* size of the saved state */
    {0xd, 2, 18, 0},        /* sizes of its parts */
    {0x14, 0, 1, 0},        /* empty, because the feature does not exist (below) */
    {0x19, 0, 1, 0},        /* the same */
    {0x80000000, 0, 1, 0},  /* highest extended leaf */
    {0x80000005, 0, 1, 0},  /* caches of the first level */
    {0x80000006, 0, 1, 0},  /* of the second and third */
    {0x80000007, 0, 1, 0},  /* of power and clocks */
    {0x8000001d, 0, 8, 1},  /* caches */
};

static int has_subleaves(uint32_t leaf)
{
    return leaf == 4 || leaf == 7 || leaf == 0xd || leaf == 0x14 || leaf == 0x19 ||
           leaf == 0x8000001d;
}

const struct cpu_answer *cpu_answer_find(const struct cpu_answer *answers, size_t n, uint32_t leaf,
                                         uint32_t subleaf)
{
    for (size_t i = 0; i < n; i++)
        if (answers[i].leaf == leaf && (answers[i].subleaf == subleaf || !has_subleaves(leaf)))
            return &answers[i];
    return NULL;
}

/* ---- the CPU --------------------------------------------------------------------------- */

static void ask_cpu(const struct cpu *cpu, struct cpu_answer *a)
{
    (void)cpu;
    __asm__ volatile("cpuid"
                     : "=a"(a->eax), "=b"(a->ebx), "=c"(a->ecx), "=d"(a->edx)
                     : "0"(a->leaf), "2"(a->subleaf));
}

static uint64_t read_xcr0(const struct cpu *cpu)
{
    uint32_t low, high;

    (void)cpu;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

const struct cpu cpu_at_hand = {ask_cpu, read_xcr0};

static struct cpu_answer ask(const struct cpu *cpu, uint32_t leaf, uint32_t subleaf)
{
    struct cpu_answer answer = {.leaf = leaf, .subleaf = subleaf};

    cpu->ask(cpu, &answer);
    return answer;
}

/* xgetbv exists if leaf 1 says so. */
static uint64_t xcr0_of(const struct cpu *cpu, const struct cpu_answer *features)
{
    return features->ecx & OSXSAVE ? cpu->xcr0(cpu) : 0;
}

/* ---- making one ---------------------------------------------------------------------------- */

/* Leaves 0x14 and 0x19 describe features of leaf 7: recorded only if these do not exist. */
static int may_be_kept(const struct cpu_record *r, const struct cpu_answer *a)
{
    if (a->leaf == 0x14)
        return !(r->answers[BASIS_7].ebx & TRACE);
    if (a->leaf == 0x19)
        return !(r->answers[BASIS_7].ecx & KEY_LOCKER);
    return a->leaf != 2 || (a->eax & 0xff) == 1; /* otherwise it must be queried several times */
}

static void keep(struct cpu_record *r, const struct cpu *cpu, size_t i)
{
    for (uint32_t subleaf = kept[i].first; subleaf < kept[i].first + kept[i].n; subleaf++) {
        struct cpu_answer answer = ask(cpu, kept[i].leaf, subleaf);

        if (r->n < RIMF_COUNT(r->answers) && may_be_kept(r, &answer))
            r->answers[r->n++] = answer;
        if (kept[i].listed && !(answer.eax & 0x1f))
            break;
    }
}

static size_t size_of(uint32_t n)
{
    return offsetof(struct cpu_record, answers) + n * sizeof(struct cpu_answer);
}

static uint64_t checksum_of(const struct cpu_record *record, size_t size)
{
    struct cpu_record copy = {0};

    memcpy(&copy, record, size);
    copy.checksum = 0;
    return rimf_hash(&copy, size);
}

size_t cpu_record(struct cpu_record *r, const struct cpu *cpu, const char **why)
{
    uint32_t highest[2];

    *r = (struct cpu_record){.magic = "mvldcpu", .version = CPU_VERSION, .n = CPU_BASIS};
    for (size_t i = 0; i < CPU_BASIS; i++)
        r->answers[i] = ask(cpu, basis_of[i].leaf, basis_of[i].subleaf);
    highest[0] = r->answers[BASIS_0].eax;
    highest[1] = ask(cpu, 0x80000000, 0).eax;
    *why = !(r->answers[BASIS_1].ecx & HYPERVISOR) ? "there is no hypervisor: cpuid costs little"
           : highest[0] < 0xd                      ? "the CPU answers too few questions"
           : r->answers[BASIS_7].edx & HYBRID      ? "its CPUs are of different kinds"
                                                   : NULL;
    if (*why)
        return 0;
    r->answers[BASIS_1].ebx &= ~CPU_NUMBER;
    r->xcr0 = xcr0_of(cpu, &r->answers[BASIS_1]);
    for (size_t i = 0; i < RIMF_COUNT(kept); i++)
        if (kept[i].leaf == 0x80000000 || kept[i].leaf <= highest[kept[i].leaf >> 31])
            keep(r, cpu, i);
    r->checksum = checksum_of(r, size_of(r->n));
    return size_of(r->n);
}

/* ---- taking one ------------------------------------------------------------------------------- */

static int is_of_kept(const struct cpu_answer *a)
{
    for (size_t i = 0; i < RIMF_COUNT(kept); i++)
        if (a->leaf == kept[i].leaf && a->subleaf - kept[i].first < kept[i].n)
            return 1;
    return 0;
}

int cpu_record_check(const struct cpu_record *r, size_t size, const char **why)
{
    if (size < size_of(0) || memcmp(r->magic, "mvldcpu", sizeof r->magic) != 0) {
        *why = "it is no record of a CPU";
        return -EINVAL;
    }
    if (r->version != CPU_VERSION) {
        *why = "it is of another version of mvld";
        return -EINVAL;
    }
    if (r->n < CPU_BASIS || r->n > RIMF_COUNT(r->answers) || size != size_of(r->n) ||
        r->checksum != checksum_of(r, size)) {
        *why = "it is damaged";
        return -EINVAL;
    }
    for (size_t i = 0; i < r->n; i++) {
        const struct cpu_answer *a = &r->answers[i];

        if (i < CPU_BASIS ? a->leaf != basis_of[i].leaf || a->subleaf != basis_of[i].subleaf
                          : !is_of_kept(a) || !may_be_kept(r, a)) {
            *why = "it holds what is never kept";
            return -EINVAL;
        }
    }
    return 0;
}

int cpu_record_fits(struct cpu_record *r, const struct cpu *cpu)
{
    const struct cpu_answer *features = &r->answers[BASIS_1];

    for (size_t i = 0; i < CPU_BASIS; i++) {
        const struct cpu_answer was = r->answers[i], now = ask(cpu, was.leaf, was.subleaf);
        const uint32_t ignored = i == BASIS_1 ? CPU_NUMBER : 0;

        if (now.eax != was.eax || ((now.ebx ^ was.ebx) & ~ignored) || now.ecx != was.ecx ||
            now.edx != was.edx)
            return 0;
        r->answers[i] = now;
    }
    return xcr0_of(cpu, features) == r->xcr0 && features->ecx & HYPERVISOR &&
           !(r->answers[BASIS_7].edx & HYBRID);
}

uint64_t cpu_identity(const struct cpu *cpu, const struct cpu_record *known)
{
    struct {
        struct cpu_answer basis[CPU_BASIS];
        uint64_t xcr0;
    } is;

    for (size_t i = 0; i < CPU_BASIS; i++)
        is.basis[i] = known ? known->answers[i] : ask(cpu, basis_of[i].leaf, basis_of[i].subleaf);
    is.basis[BASIS_1].ebx &= ~CPU_NUMBER;
    is.xcr0 = known ? known->xcr0 : xcr0_of(cpu, &is.basis[BASIS_1]);
    return is.basis[BASIS_7].edx & HYBRID ? 0 : rimf_hash(&is, sizeof is);
}
