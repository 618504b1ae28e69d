/* SPDX-License-Identifier: MIT
 *
 * rimf/patch/patch.c: a batch (patch/batch.c) is verified and applied.
 *
 *   add … add ──► commit: signals off, lock
 *                   order      by address
 *                   verify     segment, mapping, overlap, old bytes: refuse or keep
 *                   apply      the first method that can
 *                 unlock, signals back
 *
 * Verification (patch/verify.c) only reads.
 * Methods see patches in ascending order and leave out those with a result.
 */
#include "rimf/patch/private.h"

/* ---- patcher ---- */

struct rimf_patcher *rimf_patcher_create(const struct rimf_patch_host *host)
{
    struct rimf_patcher *p = host->alloc(host->cookie, sizeof(*p));

    if (!p)
        return NULL;
    p->host = *host;
    p->maps.fd = -1;
    return p;
}

void rimf_patcher_destroy(struct rimf_patcher *p)
{
    struct rimf_patch_host host;

    if (!p)
        return;
    host = p->host;
    if (p->scratch)
        sys_munmap(host.sys, p->scratch, RIMF_PAGE);
    patch_reserve_release(p);
    p->maps.sys = host.sys;
    patch_maps_forget(&p->maps);
    patch_release(&host, p->spare);
    host.release(host.cookie, p);
}

void rimf_patcher_often(struct rimf_patcher *p)
{
    __atomic_store_n(&p->often, 1, __ATOMIC_RELAXED);
}

/* In the order in which they are tried. */
static const struct patch_method *const methods[] = {
    &patch_method_mprotect, /* gives way when threads run */
    &patch_method_remap,
    &patch_method_selfmem,
};

/* Whether this process may use it at all. */
static int allowed(struct rimf_patcher *p, const struct patch_method *method)
{
    int r;

    if (method == &patch_method_mprotect)
        return patch_mprotect_allowed(p);
    if (method == &patch_method_remap && patch_mprotect_allowed(p) == 0)
        return 0;
    r = patch_mem_open(p);
    if (r == 0)
        patch_mem_close(p);
    return r;
}

int rimf_patcher_set_method(struct rimf_patcher *p, const char *name)
{
    const struct patch_method *found = NULL;
    int r;

    if (!name)
        return -EINVAL;
    for (size_t i = 0; i < RIMF_COUNT(methods); i++) {
        if (rimf_streq(methods[i]->name, name))
            found = methods[i];
    }
    if (!found && !rimf_streq(name, "auto"))
        return -EINVAL;
    r = rimf_lock_acquire(p->host.sys, p->host.lock);
    if (r < 0)
        return r;
    r = found && allowed(p, found) ? -EPERM : 0;
    if (r)
        patch_say(p, r, "patch method %s cannot be used in this process", name);
    else
        p->forced = found;
    rimf_lock_release(p->host.sys, p->host.lock);
    return r;
}

/* ---- apply ---- */

static int fail_all(struct mvld_batch *b, int err)
{
    for (size_t i = 0; i < b->n; i++) {
        if (b->patches[i].result == 0)
            b->patches[i].result = err;
    }
    return err;
}

/* While other threads run, refuses patches that a thread may stand inside.  Returns the number of remaining
 * ones. */
static size_t refuse_unsafe(struct mvld_batch *b)
{
    size_t left = 0;

    for (size_t i = 0; i < b->n; i++) {
        struct mvld_patch *patch = &b->patches[i];
        if (patch->result == 0 && !patch_one_instruction(patch->expect, patch->length)) {
            patch->result = -EDEADLK;
            patch_say(b->patcher, 0, "%u bytes at %lx refused: threads run, and the old bytes are "
                      "not a single instruction", patch->length, patch->address);
        }
        left += patch->result == 0;
    }
    return left;
}

/* Uses the first possible method.  One that is not possible has changed nothing. */
static int apply(struct mvld_batch *b, const char **name)
{
    struct rimf_patcher *p = b->patcher;
    int first = 0, r = p->forced ? p->forced->apply(b) : -EBUSY;

    *name = p->forced ? p->forced->name : NULL;
    for (size_t i = 0; r < 0 && i < RIMF_COUNT(methods); i++) {
        if (methods[i] == p->forced)
            continue;
        if (r != -EBUSY && !first)
            first = r;
        *name = methods[i]->name;
        r = methods[i]->apply(b);
    }
    if (r < 0) {
        r = first ? first : r;
        patch_say(p, r, "no way to change the code of this process");
    }
    return r;
}

static int open_maps(struct rimf_patcher *p)
{
    int r = p->often && p->alone
                ? patch_maps_reopen(&p->maps, p->host.sys, !patch_is_child(p))
                : patch_maps_open(&p->maps, p->host.sys, p->alone);

    if (!r)
        return 0;
    patch_say(p, -EPERM, "cannot read /proc/self/maps: no code is changed");
    return r == -ENOMEM ? r : -EPERM;
}

static void close_maps(struct rimf_patcher *p)
{
    if (p->often && p->alone && patch_mark_parent(p) == 0)
        patch_maps_keep(&p->maps);
    else
        patch_maps_close(&p->maps);
}

/* Commits patch by patch, with the maps open. */
static int commit_each(struct mvld_batch *b, const char **method)
{
    struct rimf_patcher *p = b->patcher;
    size_t refused;
    int r = patch_order(b);

    if (r) {
        close_maps(p);
        return fail_all(b, r);
    }
    refused = patch_verify(b);
    close_maps(p);
    if (refused == b->n)
        return b->n ? patch_nth(b, 0)->result : 0;
    if (!p->alone && !b->unentered && refuse_unsafe(b) == 0)
        return -EDEADLK;
    r = apply(b, method);
    return r < 0 ? fail_all(b, r) : 0;
}

/* Commits the words as they are.  0, or negative errno: nothing has changed. */
static int commit_words(struct mvld_batch *b, const char **method, size_t *applied)
{
    struct rimf_patcher *p = b->patcher;
    size_t n = 0;
    int r = patch_words_verify(b, &n);

    close_maps(p);
    if (r == 0 && b->n_runs)
        r = patch_mprotect_runs(b);
    if (r == 0) {
        *applied = n;
        *method = patch_method_mprotect.name;
    }
    return r;
}

static int commit(struct mvld_batch *b, const char **method, size_t *applied)
{
    int r = 0;

    b->patcher->alone = patch_alone(b->patcher->host.sys);
    b->n_added = b->n;
    if (b->n_words && (b->patcher->alone || b->unentered)) {
        r = open_maps(b->patcher);
        if (r == 0 && commit_words(b, method, applied) == 0)
            return 0;
    }
    if (r == 0 && b->n_words)
        r = patch_words_expand(b);
    if (r == 0)
        r = open_maps(b->patcher);
    return r ? fail_all(b, r) : commit_each(b, method);
}

int rimf_patch_commit(struct mvld_batch *b, struct mvld_patch_report *report)
{
    const char *method = "none";
    const struct rimf_sys *sys;
    uint64_t signals;
    size_t applied = 0, refused = 0;
    int r;

    if (!b)
        return -EINVAL;
    sys = b->patcher->host.sys;
    r = patch_signals_off(sys, &signals);
    if (r == 0) {
        r = rimf_lock_acquire(sys, b->patcher->host.lock);
        if (r >= 0) {
            r = b->n || b->n_words ? commit(b, &method, &applied) : 0;
            rimf_lock_release(sys, b->patcher->host.lock);
        } else {
            fail_all(b, r);
        }
        patch_signals_back(sys, &signals);
    }
    if (!report)
        return r;
    for (size_t g = 0; r && g < b->n_words; g++)
        refused += b->words[g].n;
    for (size_t i = 0; i < b->n; i++)
        *(r == 0 && b->patches[i].result == 0 ? &applied : &refused) += 1;
    if (applied)
        patch_say(b->patcher, 0, "%zu changes by %s, %zu refused", applied, method, refused);
    *report = (struct mvld_patch_report){applied, refused, method};
    return r;
}
