/* SPDX-License-Identifier: MIT
 *
 * Where the C library cannot be made to answer for moved code, nothing of it is changed.
 */
#include "world.h"
#include "rimf/moved/moved.h"

#include <sys/wait.h>

static void put(uintptr_t at, const void *bytes, size_t n)
{
    struct mvld_batch *batch = rimf_api()->patch_begin(image);
    struct mvld_patch_report report;
    uint8_t was[16];

    memcpy(was, (void *)at, n);
    CHECK(rimf_api()->patch_add(batch, at, was, bytes, n) == 0);
    CHECK(rimf_api()->patch_commit(batch, &report) == 0 && report.refused == 0);
    rimf_api()->patch_end(batch);
}

/* The first bytes of each. */
static void save(const struct caller_function *functions, uint8_t (*bytes)[16])
{
    for (int i = 0; i < CALLER_NEEDED; i++)
        if (functions[i].at)
            memcpy(bytes[i], (void *)functions[i].at, 16);
}

/* A debugger has stopped in one of them, before or after they were looked at. */
void breakpoints(void)
{
    for (int which = 0; which < 2 * CALLER_NEEDED; which++) {
        struct loader *l = start();
        uint8_t before[CALLER_NEEDED][16] = {{0}}, after[CALLER_NEEDED][16] = {{0}};
        uint8_t trap = 0xcc, was;
        uintptr_t at;
        struct caller_function functions[CALLER_FUNCTIONS];
        const char *why = "";

        prepare(l);
        memcpy(functions, l->caller->functions, sizeof functions);
        at = functions[which % CALLER_NEEDED].at;
        if (!at)
            continue;
        was = *(uint8_t *)at;
        put(at, &trap, 1);
        save(functions, before);
        if (which < CALLER_NEEDED) {
            l->caller->stubs = 0;
            memset(rimf_image_feeder(l->image)->kept, 0, CALLER_NEEDED * sizeof(struct rimf_kept)); /* as if never found */
            CHECK(caller_prepare(l, &why) == -ENOTSUP && l->caller->stubs == 0);
        }
        CHECK(caller_install(l, &why) < 0 && *why);
        save(functions, after);
        CHECK(memcmp(before, after, sizeof before) == 0);
        put(at, &was, 1);
    }
}

void stubs_in_use(void)
{
    struct loader *l = start();
    const char *why = "";
    uint8_t nop = 0x90;

    prepare(l);
    put(l->caller->stubs + 17, &nop, 1);
    CHECK(caller_install(l, &why) < 0 && *why);
    CHECK(caller_prepare(l, &why) == -ENOTSUP && *why);
}

void not_prepared(void)
{
    struct loader *l = start();
    const char *why = "";

    CHECK(caller_install(l, &why) < 0 && *why);
    l->host->musl = 1;
    CHECK(caller_prepare(l, &why) == -ENOTSUP && strstr(why, "musl"));
}

/* Whichever system call fails: all is there, or nothing. */
static void fail_each(int unwinder)
{
    int failed = 0, status, done = 0;

    for (int n = 1; !done; n++) {
        pid_t child = fork();

        if (child == 0) {
            struct loader *l;
            struct kernel kernel = kernel_make(n);
            uint8_t before[CALLER_NEEDED][16] = {{0}}, after[CALLER_NEEDED][16] = {{0}};
            const char *why = "";
            int err;

            if (unwinder)
                open_unwinder();
            l = start();
            prepare(l);
            save(l->caller->functions, before);
            image->sys = &kernel.sys;
            err = caller_install(l, &why);
            image->sys = &rimf_sys_kernel;
            save(l->caller->functions, after);
            if (err)
                CHECK(memcmp(before, after, sizeof before) == 0, "(call %d: %s)", n, why);
            else
                check_hooks();
            if (!err && unwinder)
                check_unwinder(l->caller->unwinder != NULL);
            _exit(err ? 3 : kernel.calls < n ? 4 : 0);
        }
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status), "(call %d: %x)", n,
              status);
        CHECK(WEXITSTATUS(status) != 1, "(call %d)", n);
        failed += WEXITSTATUS(status) == 3;
        done = WEXITSTATUS(status) == 4;
        if (done)
            fprintf(stderr, "%d system calls; %d must not fail\n", n - 1, failed);
    }
    /* With an unwinder it is tried again without. */
    CHECK(unwinder || failed >= 2, "(%d)", failed);
}

void failures(void)
{
    fail_each(0);
    fail_each(1);
}
