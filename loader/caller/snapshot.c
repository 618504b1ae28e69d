/* SPDX-License-Identifier: MIT
 *
 * loader/caller/snapshot.c: writes the caller hooks (caller/hooks.c) that a snapshot does not
 * contain.
 *
 * The jumps in the C library and the unwinder are in their code in the snapshot, which is mapped
 * once the hooks exist.  The stubs remain, because their slots point to us, and the jumps in the
 * host loader, whose code has our hook and is in no snapshot.  Each of the two is in one mapping
 * that is written only now, and no code of the program has run.  So two mprotects each are enough,
 * without the patch engine's checks.
 */
#include "loader/caller/private.h"

#include "loader/host/host.h"
#include "rimf/moved/moved.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

static int is_hosts(const struct loader *l, const struct hook *hook)
{
    return hook->at >= l->host->text && hook->at < l->host->text_end;
}

/* Whether every jump is in the snapshot or in the host loader. */
static int is_brought(const struct loader *l, const struct hooks *hooks)
{
    for (size_t i = 0; i < hooks->n; i++)
        if (!is_hosts(l, &hooks->at[i]) && !rimf_image_lays_over(l->image, hooks->at[i].at))
            return 0;
    return 1;
}

/* If the second mprotect fails, the stubs are not executable, and no jump to them exists. */
static int write_stubs(const struct loader *l, const struct hooks *hooks)
{
    uintptr_t start = rimf_page_down(l->caller->stubs);
    size_t size = rimf_page_up(l->caller->stubs + CALLER_FUNCTIONS * CALLER_STUB) - start;
    long err = sys_mprotect(l->sys, start, size, PROT_READ | PROT_WRITE);

    for (size_t i = 0; i < hooks->n && !err; i++)
        memcpy((void *)hooks->at[i].stub, hooks->at[i].code, CALLER_STUB);
    return (int)(err ? err : sys_mprotect(l->sys, start, size, PROT_READ | PROT_EXEC));
}

static int write_hosts_jumps(const struct loader *l, const struct hooks *hooks)
{
    struct text_patch patches[CALLER_FUNCTIONS];
    size_t n = 0;

    for (size_t i = 0; i < hooks->n; i++) {
        if (!is_hosts(l, &hooks->at[i]))
            continue;
        patches[n] = (struct text_patch){.at = hooks->at[i].at, .length = DISPLACE_JUMP};
        memcpy(patches[n++].bytes, hooks->at[i].jump, DISPLACE_JUMP);
    }
    return text_write_again(l->sys, l->host, patches, n);
}

int caller_snapshot(struct loader *l)
{
    struct hooks hooks;
    const char *why;
    int err = l->caller->kept && l->host->by_mprotect ? 0 : -ENOTSUP;

    if (!err)
        err = caller_hooks(l->caller, 0, l->caller->unwinder ? CALLER_FUNCTIONS : CALLER_NEEDED,
                            &hooks, &why);
    if (!err)
        err = is_brought(l, &hooks) ? write_stubs(l, &hooks) : -ENOTSUP;
    if (!err)
        err = write_hosts_jumps(l, &hooks);
    if (!err)
        rimf_log(&l->log, MVLD_LOG_FILES, "caller hooks: %zu, as in the snapshot", hooks.n);
    return err;
}
