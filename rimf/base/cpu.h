/* SPDX-License-Identifier: MIT
 *
 * rimf/base/cpu.h: a record of the CPU's answers to an earlier process.
 *
 * In a virtual machine each cpuid goes to the hypervisor, for some microseconds, and a host loader
 * executes some 40 at each start.  So answers are stored in a file, `cpu` in a cache folder
 * (cache.h has the rules of trust).  They are reused if the answers that they depend on, the
 * *basis*, are the same in this process:
 *
 *     1       model, stepping, features, the CPUs of the package, whether there is a hypervisor;
 *             without the number of the present CPU (EBX 31:24)
 *     7.0     features
 *     0xd.1   how state is saved; its size, with what the kernel has enabled (XCR0, IA32_XSS)
 *     0       vendor, highest leaf
 *     XCR0    by xgetbv, which does not trap
 *
 * Only sizes of caches and of saved state, and the highest extended leaf, are recorded (`kept` in
 * cpu.c).  Never recorded is which instructions exist (7.1, 0x80000001, 0x80000008 …) or which CPU
 * this is (0xb, 0x1f, 0x1a): these queries go to the CPU.
 *
 * There is no record without a hypervisor, because nothing would be gained; nor if the CPUs of a
 * machine are of different kinds (7.0 EDX 15).  Detecting a record that does not fit mostly costs
 * one cpuid: another machine that shares the cache, a hypervisor that shows another CPU, rr's or
 * valgrind's answers.
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
    uint64_t checksum; /* rimf_hash of the file, with 0 in this field */
    uint64_t xcr0;
    struct cpu_answer answers[CPU_BASIS + CPU_KEPT]; /* the basis, then the recorded answers */
};

/* The CPU, or a test's substitute. */
struct cpu {
    void (*ask)(const struct cpu *, struct cpu_answer *); /* called with leaf and subleaf set */
    uint64_t (*xcr0)(const struct cpu *);
};
extern const struct cpu cpu_at_hand;

/* Makes the record of this machine.  Returns its size in bytes; 0 with a static sentence in *why. */
size_t cpu_record(struct cpu_record *, const struct cpu *, const char **why);
/* Returns 0 if these `size` bytes are a complete record; else negative errno, and *why. */
int cpu_record_check(const struct cpu_record *, size_t size, const char **why);
/* Queries the basis until something differs.  Returns 0: the record is another machine's.  1: it is
 * this one's, and its basis now has the present answers. */
int cpu_record_fits(struct cpu_record *, const struct cpu *);

/* A number that identifies the basis: if another process gets the same number, resolvers of IFUNCs
 * see no difference between its CPU and this one.  Leaves 7.1 and 0x80000001 are not queried: their
 * features come with the model, unless a hypervisor hides some.  A record that fits (or NULL) spares the
 * queries.  0: there is no number, because CPUs are of different kinds. */
uint64_t cpu_identity(const struct cpu *, const struct cpu_record *);

/* The answer to that query among `n`, or NULL.  Subleaves are compared for leaves that have some. */
const struct cpu_answer *cpu_answer_find(const struct cpu_answer *, size_t n, uint32_t leaf,
                                         uint32_t subleaf);

#endif
