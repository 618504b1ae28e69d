/* SPDX-License-Identifier: MIT
 *
 * Inline calls: the bytes that stand at one when its function is bound to each variant and to
 * none, what the calls give, and that they belong to their function in counts and status.  Wrong
 * records and changed bytes leave the call as it is, which is right: it calls the function.
 */
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

#include "check.h"

#define DECLARE(name)                                                                             \
    int inline_##name(void);                                                                      \
    extern unsigned char inline_site_##name[] __attribute__((visibility("hidden")));
DECLARE(good) DECLARE(across) DECLARE(none) DECLARE(no_jump) DECLARE(elsewhere) DECLARE(half)
DECLARE(outside) DECLARE(slot) DECLARE(both) DECLARE(no_branch) DECLARE(branch_alone) DECLARE(branch)

static const struct call {
    const char *name;
    int (*call)(void);
    unsigned char *site;
    const char *why; /* it is left as it is; "": nothing is said */
} calls[] = {
#define CALL(name, why) {#name, inline_##name, inline_site_##name, why}
    CALL(good, NULL), CALL(across, NULL), CALL(none, ""),
    CALL(no_jump, "function no_jump: no jump at its inline call"),
    CALL(elsewhere, "function elsewhere: no jump at its inline call"),
    CALL(half, "half an inline call"), CALL(outside, "a variant lies outside"),
    CALL(slot, "function slot: its function's slot lies outside"), CALL(both, "half an inline call"),
    CALL(no_branch, "function no_branch: no jump at its inline call"),
    CALL(branch_alone, "it is a branch, and no inline call")};
#define N (sizeof calls / sizeof *calls)
static unsigned char before[N][5], branch_before[6];

/* Of a branch: unbound it reads the switch. */
static void check_branch(const char *when, int arm)
{
    static const unsigned char nop[6] = {0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00};
    const unsigned char *site = inline_site_branch;

    CHECK(inline_branch() == 5000 + (arm < 0 ? mode != 0 : arm), "(%s)", when);
    if (arm > 0) /* jmp rel32; nop */
        CHECK(site[0] == 0xe9 && site[5] == 0x90, "(%s)", when);
    else
        CHECK(!memcmp(site, arm ? branch_before : nop, 6), "(%s)", when);
}

/* Of a call that is bound: the arm's result and the bytes; of another: the linker's. */
static void check_inline(const char *when, int arm, int called)
{
    static const unsigned char nop[5] = {0x0f, 0x1f, 0x44, 0x00, 0x00};

    for (size_t i = 0; i < N; i++) {
        const unsigned char *site = calls[i].site;
        int bound = arm >= 0 && !calls[i].why, is = calls[i].call(), want = bound ? 5000 + arm : called;
        int32_t distance;

        memcpy(&distance, site + 1, 4);
        CHECK(is == want, "(%s: %s gives %d, want %d)", when, calls[i].name, is, want);
        if (!bound)
            CHECK(!memcmp(site, before[i], 5), "(%s: %s)", when, calls[i].name);
        else if (arm == 0)
            CHECK(!memcmp(site, nop, 5), "(%s: %s)", when, calls[i].name);
        else /* mov $5001, %eax */
            CHECK(site[0] == 0xe9 && !memcmp(site + 5 + distance, "\xb8\x89\x13", 3), "(%s: %s)", when,
                  calls[i].name);
    }
    check_branch(when, arm);
}

static void bind(int to, int arm, int called)
{
    mode = to;
    CHECK(multiverse_commit() == 1);
    check_inline("committed", arm, called);
    mode = 50;
    check_inline("and changed", arm, called == 150 ? 150 : called);
}

static void put(unsigned char *at, const void *bytes)
{
    int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);

    CHECK(pwrite(memory, bytes, 5, (off_t)(uintptr_t)at) == 5);
    close(memory);
}

/* Somebody else wrote there: the call stays, its function is bound, and says so. */
static void changed_bytes(void)
{
    unsigned char *site = calls[0].site;
    static const unsigned char other[5] = {0x3e, 0x90, 0x0f, 0x1f, 0x00}; /* to arm 0, always */
    const struct multiverse_info_fn *info;

    put(site, other);
    mode = 1;
    CHECK(multiverse_commit() == 1 && strstr(multiverse_report(), "inline call at "));
    info = multiverse_info_fn((void *)decide);
    CHECK(info->active && info->outcome == MULTIVERSE_CHANGED && info->error == ESTALE);
    CHECK(!memcmp(site, other, 5) && inline_across() == 5001);
    put(site, before[0]);
    CHECK(inline_good() == 1001);
    CHECK(multiverse_commit() == 0 && inline_good() == 5001); /* tried again */
    CHECK(multiverse_revert() == 1);
    check_inline("after somebody's change", -1, 101);
}

int main(void)
{
    const struct multiverse_info_fn *info;

    for (size_t i = 0; i < N; i++)
        memcpy(before[i], calls[i].site, 5);
    memcpy(branch_before, inline_site_branch, 6);
    mode = 3;
    CHECK(multiverse_init() == 0);
    check_inline("never committed", -1, 103);
    mode = 0;
    CHECK(multiverse_commit() == 1);
    for (size_t i = 0; i < N; i++)
        CHECK(!calls[i].why || strstr(multiverse_report(), calls[i].why), "(%s)", calls[i].name);
    check_inline("committed", 0, 1000);
    CHECK(multiverse_status()->n_changed == 1 && multiverse_status()->n_unchanged == 0);
    info = multiverse_info_fn((void *)decide);
    CHECK(info->n_callsites == N + 3 && info->n_variants == 3 && !info->is_pointer && !info->error);
    CHECK(multiverse_info_var(&mode)->n_functions == 1);
    bind(1, 1, 1001);
    bind(0, 0, 1000);
    mode = 1;
    CHECK(multiverse_commit_refs(&mode) == 1);
    check_inline("one switch", 1, 1001);
    CHECK(multiverse_revert_refs(&mode) == 1);
    check_inline("one switch reverted", -1, 101);
    CHECK(multiverse_commit_fn((void *)decide) == 1);
    check_inline("one function", 1, 1001);
    mode = 50; /* no variant: the generic one */
    CHECK(multiverse_commit() == 1 && multiverse_status()->n_generic == 1);
    check_inline("generic", -1, 150);
    mode = 0;
    CHECK(multiverse_commit() == 1 && multiverse_revert_fn((void *)decide) == 1);
    check_inline("one function reverted", -1, 100);
    changed_bytes();
    mode = 5; /* a variant without an arm: empty */
    CHECK(multiverse_commit() == 1);
    for (size_t i = 0; i < N; i++)
        CHECK(!memcmp(calls[i].site, before[i], 5));
    CHECK(multiverse_revert() == 1);
    return 0;
}
