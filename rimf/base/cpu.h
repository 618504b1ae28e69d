/* SPDX-License-Identifier: MIT
 *
 * rimf/base/cpu.h: what the CPU answered an earlier process.
 *
 * In a virtual machine each cpuid goes to the hypervisor, for some microseconds, and a host loader
 * asks some 40 times at each start.  So answers are kept in a file, `cpu` in a cache folder
 * (cache.h says whose are taken).  Answers of an earlier process count when what they depend on was
 * asked in this one and is the same, the *basis*:
 *
 *     1       model, stepping, features, the CPUs of the package, whether there is a hypervisor;
 *             without the number of the CPU at hand (EBX 31:24)
 *     7.0     features
 *     0xd.1   how state is saved; its size, with what the kernel has enabled (XCR0, IA32_XSS)
 *     0       vendor, highest leaf
 *     XCR0    by xgetbv, which does not trap
 *
 * Kept are only the sizes of caches and of saved state, and the highest extended leaf
 * (`kept` in cpu.c).  Never kept is what says which instructions there are (7.1, 0x80000001, 0x80000008
 * …) or which CPU this is (0xb, 0x1f, 0x1a): whoever wants that asks the CPU.
 *
 * There is no record without a hypervisor, because nothing would be gained; nor where CPUs of one
 * machine are of different kinds (7.0 EDX 15).  One that does not fit costs one cpuid, mostly: another
 * machine that shares the cache, a hypervisor that shows another CPU, rr's or valgrind's answers.
 *
 * The file is this struct, cut off behind its last answer.
 */
#ifndef RIMF_CPU_H
#define RIMF_CPU_H

#include <stddef.h>
#include <stdint.h>

#define CPU_SYSTEM_FILE "/var/cache/mvld/cpu"
#define CPU_FILE "cpu" /* in the user's folder */
#define CPU_VERSION 1u
#define CPU_BASIS 4
#define CPU_KEPT 48

struct cpu_answer {
    uint32_t leaf, subleaf, eax, ebx, ecx, edx;
};

struct cpu_record {
    char magic[8]; /* "mvldcpu" */
    uint32_t version;
    uint32_t n; /* answers */
    uint64_t checksum; /* rimf_hash of the file, with 0 in this place */
    uint64_t xcr0;
    struct cpu_answer answers[CPU_BASIS + CPU_KEPT]; /* the basis, and those that are kept */
};

/* The CPU, or what a test has in its place. */
struct cpu {
    void (*ask)(const struct cpu *, struct cpu_answer *); /* leaf and subleaf are set */
    uint64_t (*xcr0)(const struct cpu *);
};
extern const struct cpu cpu_at_hand;

/* The record of this machine.  Its size in bytes; 0 with a sentence (static) in *why. */
size_t cpu_record(struct cpu_record *, const struct cpu *, const char **why);
/* 0 when these `size` bytes are a whole record; else negative errno, and *why. */
int cpu_record_check(const struct cpu_record *, size_t size, const char **why);
/* Asks for the basis, until something differs: 0, the record is another machine's.  1: it is this
 * one's, and in the place of its basis stands what was answered now. */
int cpu_record_fits(struct cpu_record *, const struct cpu *);

/* A number for the basis: who is told the same by another process has a CPU between which and this one
 * resolvers of IFUNCs see no difference; not asked are leaves 7.1 and 0x80000001, whose features come with
 * the model, unless a hypervisor hides some.  0: there is none, because CPUs are of different kinds. */
uint64_t cpu_identity(const struct cpu *);

/* The answer to that question among `n`, or NULL.  Subleaves count where there are some. */
const struct cpu_answer *cpu_answer_find(const struct cpu_answer *, size_t n, uint32_t leaf,
                                         uint32_t subleaf);

#endif
