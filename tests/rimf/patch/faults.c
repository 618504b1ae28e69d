/* SPDX-License-Identifier: MIT
 *
 * patch_faults METHOD [threads | often | words]: every system call of a batch fails once, with
 * each error; then kinds of calls fail for good from the n-th on.  A failure
 * means that a process that is short of memory, or whose rights change, is left
 * with half a batch, with code that cannot be executed, or without signals.
 */
#include <pthread.h>
#include <signal.h>

#include "support.h"

enum { PAGES = 120, PATCHES = 9 };

/* Two near patches, one across pages, one in the last page, and a far one.  Pages between are the file's. */
static const size_t places[PATCHES] = {8,     64,    2 * PAGE - 3,  3 * PAGE - 1, 5 * PAGE + 1,
                                       6 * PAGE, 60 * PAGE, 119 * PAGE, 120 * PAGE - 5};
static const uint8_t old[5] = {0xe9, 1, 2, 3, 4}; /* jmp rel32, never run */
static const uint8_t new[5] = {0xe8, 5, 6, 7, 8}; /* call rel32 */

static struct patch_text t;
static int words, threads;

static struct mvld_batch *batch_of_words(const uint8_t *from, const uint8_t *to)
{
    static struct mvld_word where[PATCHES];
    static uint64_t before[PATCHES], after[PATCHES];
    struct mvld_batch *b = rimf_patcher_begin(t.patcher);

    CHECK(b);
    for (size_t i = 0; i < PATCHES; i++) {
        where[i] = (struct mvld_word){(uint32_t)places[i], 5, 0};
        memcpy(&before[i], from, 5);
        memcpy(&after[i], to, 5);
    }
    CHECK(rimf_patch_add_words(b, (uintptr_t)t.code, where, before, after, PATCHES) == 0);
    return b;
}

static struct mvld_batch *batch(const uint8_t *from, const uint8_t *to)
{
    struct mvld_batch *b;

    if (words)
        return batch_of_words(from, to);
    b = rimf_patcher_begin(t.patcher);
    CHECK(b);
    for (size_t i = 0; i < PATCHES; i++)
        CHECK(rimf_patch_add(b, (uintptr_t)t.code + places[i], from, to, 5) == 0);
    return b;
}

static int all_are(const uint8_t *bytes)
{
    for (size_t i = 0; i < PATCHES; i++) {
        if (memcmp(t.code + places[i], bytes, 5))
            return 0;
    }
    return t.code[0] == 0xc3 && t.code[13] == 0xc3 && t.code[30 * PAGE] == 0xc3;
}

static void set_all(const uint8_t *bytes)
{
    CHECK(mprotect(t.code, t.size, PROT_READ | PROT_WRITE) == 0);
    for (size_t i = 0; i < PATCHES; i++)
        memcpy(t.code + places[i], bytes, 5);
    CHECK(mprotect(t.code, t.size, PROT_READ | PROT_EXEC) == 0);
}

/* One commit with the kernel as it is set; 1 applied, 0 not, -1 in part. */
static int commit(const char *what, long n)
{
    struct mvld_patch_report report = {0, 0, NULL};
    struct mvld_batch *b = batch(old, new);
    sigset_t signals, none;
    int r = rimf_patch_commit(b, &report), applied;

    t.kernel.fail_at = t.kernel.fail_from = 0;
    patch_text_all_rx(&t);
    sigemptyset(&none);
    CHECK(sigprocmask(SIG_SETMASK, &none, &signals) == 0 && !sigismember(&signals, SIGUSR1));
    if (r < 0) {
        applied = 0;
        CHECK(all_are(old), "(%s %ld: half a batch, %d)", what, n, r);
        CHECK(report.applied == 0 && report.refused == PATCHES);
    } else if (report.refused == 0) {
        applied = 1;
        CHECK(all_are(new), "(%s %ld: not applied)", what, n);
    } else {
        applied = -1;
        for (size_t i = 0; i < PATCHES; i++)
            CHECK(!memcmp(t.code + places[i], rimf_patch_at(b, i)->result ? old : new, 5),
                  "(%s %ld: patch %zu lies)", what, n, i);
    }
    rimf_patch_end(b);
    set_all(old);
    return applied;
}

static void each_call_once(void)
{
    static const int errors[] = {-ENOMEM, -EPERM, -EACCES, -EINTR, -ENOSYS, -EINVAL};
    long calls, applied = 0, tried = 0;

    commit("warm-up", 0);
    t.kernel.calls = 0;
    CHECK(commit("clean", 0) == 1, "(%s)", t.sentence);
    calls = t.kernel.calls;
    for (size_t e = 0; e < sizeof(errors) / sizeof(*errors); e++) {
        for (long i = 1; i <= calls; i++, tried++) {
            int r;
            t.kernel.calls = 0;
            t.kernel.error = errors[e];
            t.kernel.fail_at = i;
            r = commit("call", i);
            CHECK(r >= 0, "(call %ld, number %ld, fails once with %d: applied in part)", i,
                  t.kernel.last, errors[e]);
            applied += r;
        }
    }
    printf("%ld calls, each failing in %zu ways: applied %ld of %ld\n", calls,
           sizeof(errors) / sizeof(*errors), applied, tried);
}

/* From the n-th call on, one kind of call fails for good. */
static void each_kind_for_good(void)
{
    static const struct {
        const char *name;
        long number, prot;
    } kinds[] = {
        {"mprotect to executable", SYS_mprotect, PROT_EXEC},
        {"mprotect", SYS_mprotect, 0},
        {"mremap", SYS_mremap, 0},
        {"mmap", SYS_mmap, 0},
        {"pwrite", SYS_pwrite64, 0},
        {"openat", SYS_openat, 0},
        {"pread", SYS_pread64, 0},
        {"membarrier", SYS_membarrier, 0},
        {"rt_sigaction", SYS_rt_sigaction, 0},
        {"ioctl", SYS_ioctl, 0},
    };

    for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
        long calls;
        t.kernel.calls = 0;
        CHECK(commit("clean", 0) == 1);
        calls = t.kernel.calls;
        for (long i = 1; i <= calls; i++) {
            int r;
            t.kernel.calls = 0;
            t.kernel.error = -EPERM;
            t.kernel.fail_number = kinds[k].number;
            t.kernel.fail_prot = kinds[k].prot;
            t.kernel.fail_from = i;
            r = commit(kinds[k].name, i);
            t.kernel.fail_number = -1;
            t.kernel.fail_prot = 0;
            /* Pages that cannot be moved back stay.  (At the limit of mappings they can: patch/full.c.) */
            CHECK(r >= 0 || (threads && kinds[k].number == SYS_mremap), "(%s from call %ld on: in part)",
                  kinds[k].name, i);
        }
    }
}

int main(int argc, char **argv)
{
    const char *method = argc > 1 ? argv[1] : "auto";
    patch_text_open(&t, PAGES);
    set_all(old);
    threads = argc > 2 && !strcmp(argv[2], "threads");
    if (threads)
        patch_park_thread();
    if (argc > 2 && !strcmp(argv[2], "often"))
        rimf_patcher_often(t.patcher);
    words = argc > 2 && !strcmp(argv[2], "words");
    CHECK(rimf_patcher_set_method(t.patcher, method) == 0);
    each_call_once();
    each_kind_for_good();
    patch_text_close(&t);
    return 0;
}
