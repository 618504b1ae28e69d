/* SPDX-License-Identifier: MIT
 *
 * loader/process/cpuid.c: answers the host loader's cpuid instructions.
 *
 * On bare metal a cpuid is cheap.  In a virtual machine each goes to the hypervisor, for some
 * microseconds, and glibc executes 40 at a start.  The build knows them (known_sites.py); jumps
 * from them go to stubs of host/entry.S, which call this file.  Two kinds of answers are reused:
 *
 *   - of this process: the highest extended leaf, the caches of the first and second level, and a
 *     cache by its number, which glibc queries a dozen times, on an Intel CPU three dozen times.  These
 *     answers depend neither on time nor on earlier queries.  If the CPUs of a machine differ in
 *     them, the answer is also random under the host loader.
 *   - of an earlier process, if its record (rimf/base/cpu.h) fits.  The answers to the queries that
 *     check this are reused, too.
 *
 * Everything else goes to the CPU.  A record is looked for in root's cache, then in the user's.  Programs
 * without a pipeline do not look, because the host loader's calls do not suffice to check a file's
 * owner.  The record is not part of a snapshot, because it belongs to the machine: all programs share
 * it, also those without a snapshot, and a snapshot remains valid on another machine.  The price is
 * opening a file, 5 us.  A process that writes a snapshot also writes a record if none fits.
 */
#include "loader/loader.h"

#include "loader/process/process.h"
#include "rimf/base/cache.h"

#include <errno.h> /* numbers only */
#include <fcntl.h> /* numbers only */

#define FILE_MAX 1024 /* bytes of its path */

static int is_asked_again(uint32_t leaf)
{
    return leaf == 4 || leaf == 0x80000000 || leaf == 0x80000005 || leaf == 0x80000006 ||
           leaf == 0x80000008 || leaf == 0x8000001d;
}

void loader_cpuid(struct loader *l, struct cpuid_call *call)
{
    struct cpu_answers *known = l->cpuid;
    struct cpu_answer asked = {.leaf = (uint32_t)call->rax, .subleaf = (uint32_t)call->rcx};
    const struct cpu_answer *answer =
        known->record ? cpu_answer_find(known->record->answers, known->record->n, asked.leaf, asked.subleaf) : NULL;

    if (!answer)
        answer = cpu_answer_find(known->first, known->n_first, asked.leaf, asked.subleaf);
    if (!answer) {
        cpu_at_hand.ask(&cpu_at_hand, &asked);
        answer = &asked;
        if (is_asked_again(asked.leaf) && known->n_first < RIMF_COUNT(known->first))
            known->first[known->n_first++] = asked;
    }
    call->rax = answer->eax;
    call->rbx = answer->ebx;
    call->rcx = answer->ecx;
    call->rdx = answer->edx;
}

uint64_t cpuid_identity(const struct loader *l)
{
    return cpu_identity(&cpu_at_hand, l->cpuid->record);
}

/* ---- the record of an earlier process ---------------------------------------------------- */

/* Reads the record if there is one; 0, or negative errno and *why. */
static long read_record(const struct loader *l, const char *path, uint32_t user, struct cpu_record *record,
                        const char **why)
{
    struct stat st;
    long fd = cache_open(l->sys, AT_FDCWD, path, S_IFREG, user, &st, why), size;

    if (sys_failed(fd))
        return fd;
    size = sys_pread(l->sys, (int)fd, record, sizeof *record, 0);
    sys_close(l->sys, (int)fd);
    *why = "it cannot be read, or is damaged";
    return size < 0 || size != st.st_size ? -EINVAL : cpu_record_check(record, (size_t)size, why);
}

static void take_record(struct loader *l, const char *path, uint32_t user)
{
    struct cpu_record *record = rimf_heap_alloc(&l->heap, sizeof *record);
    const char *why = "out of memory";
    long error = record ? read_record(l, path, user, record, &why) : -ENOMEM;

    if (!error && cpu_record_fits(record, &cpu_at_hand)) {
        l->cpuid->record = record;
        rimf_log(&l->log, MVLD_LOG_FILES, "cpuid: %s: %u answers", path, record->n);
        return;
    }
    rimf_heap_release(&l->heap, record);
    if (error != -ENOENT)
        rimf_log(&l->log, MVLD_LOG_FILES, "cpuid: %s: not used: %s", path,
                 error ? why : "the CPU, or the hypervisor, is another one");
}

void cpuid_find(struct loader *l)
{
    char path[FILE_MAX];

    if (l->pipeline)
        take_record(l, CPU_SYSTEM_FILE, 0);
    if (l->pipeline && !l->cpuid->record && caches_folder(l, CPU_FILE, path, sizeof path))
        take_record(l, path, caches_user(l));
}

/* Like every file of a cache it is written under another name and renamed, by the holder of its lock. */
static long write_record(const struct rimf_sys *sys, const char *path, const struct cpu_record *record, size_t size)
{
    char new[FILE_MAX + sizeof CACHE_UNFINISHED];
    long error;

    rimf_format(new, sizeof new, "%s" CACHE_UNFINISHED, path);
    SYS3(sys, SYS_unlinkat, AT_FDCWD, new, 0); /* the rest of a killed one */
    error = cache_write(sys, AT_FDCWD, new, record, size);
    if (!error)
        error = SYS6(sys, SYS_renameat2, AT_FDCWD, new, AT_FDCWD, path, 0, 0);
    if (error)
        SYS3(sys, SYS_unlinkat, AT_FDCWD, new, 0);
    return error;
}

void cpuid_keep(struct loader *l, const char *snapshot)
{
    struct cpu_record *record = NULL;
    char path[FILE_MAX];
    const char *why;
    size_t size;
    long error;

    if (!l->cpuid->record && caches_beside(snapshot, CPU_FILE, path, sizeof path))
        record = rimf_heap_alloc(&l->heap, sizeof *record);
    if (!record)
        return;
    size = cpu_record(record, &cpu_at_hand, &why);
    error = size ? write_record(l->sys, path, record, size) : 0;
    rimf_heap_release(&l->heap, record);
    if (error)
        rimf_log(&l->log, MVLD_LOG_FILES, "cpuid: %s cannot be written (error %ld)", path, -error);
    else
        rimf_log(&l->log, MVLD_LOG_FILES, "cpuid: %s: %s", path, size ? "written" : why);
}
