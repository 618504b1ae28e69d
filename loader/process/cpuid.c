/* SPDX-License-Identifier: MIT
 *
 * loader/process/cpuid.c: answers the host loader's cpuid instructions.
 *
 * On bare metal a cpuid is cheap.  In a virtual machine each goes to the hypervisor, for some
 * microseconds, and glibc executes 40 at a start.  The build knows them (known_sites.py); jumps
 * from them go to stubs of host/entry.S, which call this file.  Two kinds of answers are reused:
 *
 *   - of this process: the highest extended leaf, the caches of the first and second level, and a
 *     cache by its number, which glibc queries a dozen times.  These answers depend neither on time
 *     nor on earlier queries.  If the CPUs of a machine differ in them, the answer is also random
 *     under the host loader.
 *   - of an earlier process, if its record (rimf/base/cpu.h) fits.  The answers to the queries that
 *     check this are reused, too.
 *
 * Everything else goes to the CPU.  A record is looked for beside the snapshot from which a program
 * starts; without a snapshot in root's cache, then in the user's.  Programs without a pipeline do
 * not look, because the host loader's calls do not suffice to check a file's owner.  The record is
 * not part of the snapshot, because it belongs to the machine: all programs share it, also those
 * without a snapshot, and a snapshot remains valid on another machine.  The price is opening a
 * file, 5 us.  A process that writes a snapshot also writes a record if none fits; one that may
 * write a snapshot, but starts from an existing one, renews a record that does not fit.
 */
#include "loader/loader.h"

#include "loader/process/process.h"
#include "rimf/base/cache.h"

#include <errno.h> /* numbers only */
#include <fcntl.h> /* numbers only */

#define FILE_MAX 1024 /* bytes of its path */

static int is_asked_again(uint32_t leaf)
{
    return leaf == 0x80000000 || leaf == 0x80000005 || leaf == 0x80000006 ||
           leaf == 0x80000008 || leaf == 0x8000001d;
}

void loader_cpuid(struct loader *l, struct cpuid_call *call)
{
    struct cpu_answers *known = l->cpuid;
    struct cpu_answer asked = {.leaf = (uint32_t)call->rax, .subleaf = (uint32_t)call->rcx};
    const struct cpu_answer *answer =
        cpu_answer_find(known->earlier, known->n_earlier, asked.leaf, asked.subleaf);

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

/* ---- which CPU it is --------------------------------------------------------------------- */

struct known {
    struct cpu cpu; /* stays first */
    const struct cpu_answers *answers;
};

static void ask_known(const struct cpu *cpu, struct cpu_answer *a)
{
    const struct cpu_answers *known = ((const struct known *)cpu)->answers;
    const struct cpu_answer *found =
        cpu_answer_find(known->earlier, known->n_earlier, a->leaf, a->subleaf);

    if (found)
        *a = *found;
    else
        cpu_at_hand.ask(&cpu_at_hand, a);
}

uint64_t cpuid_identity(const struct loader *l)
{
    const struct known known = {{ask_known, cpu_at_hand.xcr0}, l->cpuid};

    return cpu_identity(&known.cpu);
}

/* ---- the record of an earlier process ---------------------------------------------------- */

static size_t beside(const char *snapshot, char *to)
{
    return caches_beside(snapshot, CPU_FILE, to, FILE_MAX);
}

/* Reads the record; returns its size, or negative errno and *why. */
static long read_record(const struct loader *l, const char *path, uint32_t user,
                        struct cpu_record *record, const char **why)
{
    struct stat st;
    long fd = cache_open(l->sys, AT_FDCWD, path, S_IFREG, user, &st, why), size;

    if (sys_failed(fd))
        return fd;
    size = sys_pread(l->sys, (int)fd, record, sizeof *record, 0);
    sys_close(l->sys, (int)fd);
    if (size < 0 || size != st.st_size) {
        *why = size < 0 ? "it cannot be read" : "it is damaged";
        return size < 0 ? size : -EINVAL;
    }
    return cpu_record_check(record, (size_t)size, why) ? -EINVAL : size;
}

/* Returns 1 if there is one, whether it fits or not. */
static int take_record(struct loader *l, const char *path, uint32_t user)
{
    struct cpu_answers *known = l->cpuid;
    struct cpu_record *record = rimf_heap_alloc(&l->heap, sizeof *record);
    const char *why = "out of memory";
    long size = record ? read_record(l, path, user, record, &why) : -ENOMEM;

    if (size > 0)
        why = "the CPU, or the hypervisor, is another one";
    if (size > 0 && cpu_record_fits(record, &cpu_at_hand)) {
        known->earlier = record->answers;
        known->n_earlier = record->n;
        rimf_log(&l->log, MVLD_LOG_FILES, "cpuid: %s: %u answers", path, record->n);
        return 1;
    }
    rimf_heap_release(&l->heap, record);
    if (size != -ENOENT)
        rimf_log(&l->log, MVLD_LOG_FILES, "cpuid: %s: not used: %s", path, why);
    return size != -ENOENT;
}

static int take_users(struct loader *l)
{
    char path[FILE_MAX];

    return caches_folder(l, CPU_FILE, path, sizeof path) && take_record(l, path, caches_user(l));
}

static int take_beside(struct loader *l, const char *snapshot)
{
    char path[FILE_MAX];
    int there = beside(snapshot, path) && take_record(l, path, l->cpuid->user);

    l->cpuid->outdated = there && !l->cpuid->earlier;
    return there;
}

void cpuid_find(struct loader *l)
{
    const char *snapshot = l->cpuid->snapshot;

    if (!l->pipeline || (snapshot && take_beside(l, snapshot)))
        return;
    if ((snapshot && !l->cpuid->is_users) || take_record(l, CPU_SYSTEM_FILE, 0))
        return;
    if (!snapshot)
        take_users(l);
}

/* Written under another name and renamed, like every file of a cache, by the holder of its lock. */
static int write_record(const struct loader *l, const char *path, const struct cpu_record *record,
                        size_t size)
{
    char new[FILE_MAX + 16];
    long fd, error;

    rimf_format(new, sizeof new, "%s" CACHE_UNFINISHED, path);
    SYS3(l->sys, SYS_unlinkat, AT_FDCWD, new, 0); /* the rest of a killed one */
    fd = sys_openat(l->sys, new, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (sys_failed(fd))
        return (int)fd;
    error = sys_write(l->sys, (int)fd, record, size);
    error = error == (long)size ? SYS3(l->sys, SYS_fsync, fd, 0, 0) : error < 0 ? error : -ENOSPC;
    sys_close(l->sys, (int)fd);
    if (!error)
        error = SYS6(l->sys, SYS_renameat2, AT_FDCWD, new, AT_FDCWD, path, 0, 0);
    if (error)
        SYS3(l->sys, SYS_unlinkat, AT_FDCWD, new, 0);
    return (int)error;
}

void cpuid_keep(struct loader *l, const char *snapshot, uint32_t user)
{
    struct cpu_record *record = rimf_heap_alloc(&l->heap, sizeof *record);
    char path[FILE_MAX];
    const char *why = "out of memory";
    size_t size;
    int error;

    if (!beside(snapshot, path) ||
        (record && read_record(l, path, user, record, &why) > 0 &&
         cpu_record_fits(record, &cpu_at_hand))) {
        rimf_heap_release(&l->heap, record);
        return;
    }
    size = record ? cpu_record(record, &cpu_at_hand, &why) : 0;
    error = !size                             ? 0
            : sys_file_may_reach(l->sys, size) ? write_record(l, path, record, size)
                                               : -EFBIG;
    rimf_heap_release(&l->heap, record);
    if (error)
        rimf_log(&l->log, MVLD_LOG_FILES, "cpuid: %s cannot be written (error %d)", path, -error);
    else if (!size)
        rimf_log(&l->log, MVLD_LOG_FILES, "cpuid: nothing is kept: %s", why);
    else
        rimf_log(&l->log, MVLD_LOG_FILES, "cpuid: %s: written, %zu bytes", path, size);
}

/* To avoid a futile attempt at each start, tries once a minute, as for snapshots. */
void cpuid_renew(struct loader *l, const char *snapshot, uint32_t user)
{
    char path[FILE_MAX];
    const char *why;
    long lock;

    if (!l->cpuid->outdated || l->filtered->on || !beside(snapshot, path) || caches_young(l, path))
        return;
    lock = caches_lock(l, snapshot, user, 0, &why);
    if (sys_failed(lock))
        return;
    if (!SYS6(l->sys, SYS_utimensat, AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW, 0, 0))
        cpuid_keep(l, snapshot, user);
    sys_close(l->sys, (int)lock);
}
