/* SPDX-License-Identifier: MIT
 *
 * loader/caller/hooks.c: makes the C library map addresses in moved code to the right object.
 *
 * Return addresses of moved code (rimf/moved/moved.h) are in the region.  Some functions of the C
 * library depend on their caller, which they find by the return address: dlsym(RTLD_NEXT), dlopen
 * (RUNPATH, $ORIGIN, namespace), dlvsym, dlmopen.  Others get an address from a backtrace: dladdr,
 * backtrace_symbols.  All of them end in two functions with that address as first argument; dlsym
 * also goes through one that has it as third or fourth argument (caller/find.c).  These are hooked:
 *
 *     original                       stub, near it                   stage 0
 *     f:      jmp stub   ──────►     call *entry  ───────────►       %rdi = original of %rdi
 *     f+n:    …                      the code of f       ◄───
 *                        ◄──────     jmp f+n
 *
 * Nothing else changes: all other registers and the stack are preserved and nothing is stored, so
 * threads and signal handlers may be inside at any time.  Addresses outside of moved code do not
 * change.
 *
 * dlsym finds original addresses in symbol tables.  If the canonical address of such a function is
 * in moved code, it is replaced after do_sym.  (An error leaves do_sym by longjmp: the stub holds
 * nothing.)  Likewise dli_saddr of dladdr, if an address in moved code was given: dladdr(f) returns
 * f, and the difference is the offset in the function.  For an original address, from a backtrace,
 * it returns the start of the original function.
 *
 * backtrace() and other stack walkers get original addresses in the first place if the program's
 * unwinder is a known one (caller/find.c): its results are replaced.
 *
 * The original of f runs, whoever calls it: its moved code is a jump to it (`kept` of rimf_feeder).
 *
 * The stubs (caller/stub.c) are in a library near all these functions: the one that brings the
 * region of moved code (moved_library), whose executable segment ends with int3 as
 * padding.
 *
 * caller_prepare checks everything before anything is changed; caller_install writes the stubs and
 * then the jumps, through the patch engine.  If that fails for the C library, no jump is written,
 * and no code may run in moved code.  At a start from a snapshot most of the jumps come with the
 * code, see caller/stub.c.
 */
#include "loader/caller/private.h"

#include "loader/host/host.h"
#include "rimf/moved/moved.h"
#include "rimf/image/image.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

_Static_assert(CALLER_STUB % MVLD_PATCH_MAX == 0, "it is written in pieces of this size");
_Static_assert(CALLER_FUNCTIONS <= RIMF_KEPT_ORIGINALS, "the original of each runs");

uintptr_t loader_caller_address(const struct loader *l, uintptr_t address)
{
    return rimf_unmoved(l->image, address);
}

uintptr_t loader_caller_symbol(const struct loader *l, uintptr_t address)
{
    return rimf_canonical_address(l->image, address);
}

int loader_moved(uintptr_t original, size_t length, uintptr_t *to, const struct loader *l)
{
    *to = rimf_moved_copy(l->image, original, length);
    return *to != 0;
}

struct named { /* Dl_info */
    const char *file;
    void *base;
    const char *name;
    uintptr_t address;
};

/* For an address in moved code, dladdr names the function and returns its address in moved code:
 * the difference is the offset in the function.  For an original address, from a backtrace, it
 * returns the start of the original function. */
uintptr_t loader_caller_named(const struct loader *l, uintptr_t address, struct named *answer,
                              uintptr_t found)
{
    if ((int)found && answer->address && rimf_original_of(l->image, address))
        answer->address = rimf_canonical_address(l->image, answer->address);
    return found;
}

/* ---- one function -------------------------------------------------------------------- */

static int hook_of(const struct caller_hooks *caller, size_t which, struct hook *hook, const char **why)
{
    const struct caller_function *function = &caller->functions[which];
    uintptr_t stub = caller->stubs + CALLER_STUB * which;
    size_t end = caller_begin_stub(hook->code, which);
    struct displaced moved;

    *why = displace((const uint8_t *)function->at, function->size, function->at, stub + end,
                    caller->kept && which < CALLER_NEEDED, &moved);
    if (*why)
        return -ENOTSUP;
    hook->stub = stub;
    hook->at = function->at + moved.skip;
    memcpy(hook->code + end, moved.bytes, moved.length);
    end += moved.length;
    memcpy(hook->was, (const void *)hook->at, sizeof hook->was);
    *why = "the functions that handle addresses are too far away";
    if (displace_jump(hook->code + end, stub + end, hook->at + moved.length) ||
        displace_jump(hook->jump, hook->at, stub))
        return -ENOTSUP;
    return 0;
}

/* ---- some functions: those of the C library, those of the unwinder, or both ------------- */

int caller_hooks(const struct caller_hooks *caller, size_t first, size_t end, struct hooks *hooks,
                  const char **why)
{
    int err = 0;

    hooks->n = 0;
    for (size_t i = first; i < end && !err; i++)
        if (caller->functions[i].at)
            err = hook_of(caller, i, &hooks->at[hooks->n++], why);
    return err;
}

/* 0; -ESTALE: some were refused, others were not. */
static int commit(struct mvld_batch *batch, int err)
{
    struct mvld_patch_report report = {0};

    if (batch && !err)
        err = rimf_api()->patch_commit(batch, &report);
    if (batch)
        rimf_api()->patch_end(batch);
    return !batch ? -ENOMEM : err ? err : report.refused ? -ESTALE : 0;
}

/* Overwrites padding, or the stub of a closed object's function. */
static int write_stubs(struct loader *l, const struct hooks *hooks)
{
    const struct mvld_api *api = rimf_api();
    struct mvld_batch *batch = api->patch_begin(l->image);
    uint8_t padding[CALLER_STUB];
    int err = 0;

    memset(padding, CALLER_PADDING, sizeof padding);
    for (size_t i = 0; batch && i < hooks->n; i++) {
        const uint8_t *stub = (const uint8_t *)hooks->at[i].stub, *code = hooks->at[i].code;
        int old = memcmp(stub + CALLER_SLOTS, code + CALLER_SLOTS, CALLER_STUB - CALLER_SLOTS) == 0;

        for (size_t at = 0; at < CALLER_STUB && !err; at += MVLD_PATCH_MAX)
            err = api->patch_add(batch, (uintptr_t)stub + at, old ? stub + at : padding + at,
                                 code + at, MVLD_PATCH_MAX);
    }
    return commit(batch, err);
}

/* Writes all jumps, or, with `back`, restores the bytes of those that were written. */
static int write_jumps(struct loader *l, const struct hooks *hooks, int back)
{
    const struct mvld_api *api = rimf_api();
    struct mvld_batch *batch = api->patch_begin(l->image);
    int err = 0;

    for (size_t i = 0; batch && i < hooks->n && !err; i++) {
        const struct hook *hook = &hooks->at[i];

        err = api->patch_add(batch, hook->at, back ? hook->jump : hook->was,
                             back ? hook->was : hook->jump, DISPLACE_JUMP);
    }
    return commit(batch, err);
}

/* All of them, or none. */
static int install(struct loader *l, size_t first, size_t end, const char **why)
{
    struct hooks hooks;
    int err = caller_hooks(l->caller, first, end, &hooks, why); /* of what stands there now */

    if (err)
        return err;
    *why = "the functions that handle addresses could not be changed";
    err = write_stubs(l, &hooks);
    if (err)
        return err;
    err = write_jumps(l, &hooks, 0);
    if (err == -ESTALE)
        write_jumps(l, &hooks, 1);
    for (size_t i = 0; i < hooks.n && !err; i++)
        rimf_log(&l->log, MVLD_LOG_FILES, "caller hooks: at %lx, stub at %lx",
                 (unsigned long)hooks.at[i].at, (unsigned long)hooks.at[i].stub);
    return err;
}

/* ---- the unwinder ------------------------------------------------------------------------ */

static void keep_originals(struct loader *l, size_t first, size_t end)
{
    struct rimf_kept *kept = rimf_image_feeder(l->image)->kept;

    for (size_t i = first; i < end; i++)
        kept[i] = (struct rimf_kept){l->caller->functions[i].at, l->caller->functions[i].size};
}

static void leave_unwinder(struct loader *l, const char *why)
{
    l->caller->unwinder = NULL;
    rimf_log(&l->log, MVLD_LOG_FILES, "caller hooks: backtraces will name moved code: %s", why);
}

/* Called before its code is moved. */
static void prepare_unwinder(struct loader *l)
{
    struct hooks hooks;
    const char *why = "its functions are not of the known form";
    int err = caller_find_unwinder(l);

    if (!err)
        err = caller_hooks(l->caller, CALLER_NEEDED, CALLER_FUNCTIONS, &hooks, &why);
    if (!err)
        keep_originals(l, CALLER_NEEDED, CALLER_FUNCTIONS);
    else if (err != -ENOENT)
        leave_unwinder(l, why);
}

/* The unwinder may come by a dlopen: the C library opens it for the first backtrace. */
void caller_changed(struct loader *l, const struct mvld_object *const *removed, size_t n)
{
    struct caller_hooks *caller = l->caller;
    const char *why;

    if (!caller->stubs)
        return;
    for (size_t i = 0; i < n && caller->unwinder; i++) {
        if (removed[i] != caller->unwinder)
            continue;
        caller->unwinder = NULL;
        memset(caller->functions + CALLER_NEEDED, 0,
               (CALLER_FUNCTIONS - CALLER_NEEDED) * sizeof *caller->functions);
        keep_originals(l, CALLER_NEEDED, CALLER_FUNCTIONS);
    }
    if (caller->unwinder)
        return;
    prepare_unwinder(l);
    if (caller->installed && caller->unwinder && install(l, CALLER_NEEDED, CALLER_FUNCTIONS, &why))
        leave_unwinder(l, why);
}

/* ---- before the passes run ------------------------------------------------------------- */

/* The end of the executable segment of the library that brings the region, or 0. */
static uintptr_t find_stubs(const struct mvld_image *image)
{
    const struct mvld_object *object;
    struct mvld_symbol code, frames;
    uintptr_t stubs = 0;

    if (moved_library(image, &code, &frames))
        return 0;
    object = code.object;
    for (size_t i = 0; i < object->n_segments; i++)
        if (object->segments[i].prot == (PROT_READ | PROT_EXEC))
            stubs = (object->segments[i].end & ~(CALLER_STUB - 1ul)) - CALLER_FUNCTIONS * CALLER_STUB;
    if (!stubs || !rimf_api()->object_holds(object, stubs, CALLER_FUNCTIONS * CALLER_STUB,
                                            PROT_READ | PROT_EXEC))
        return 0;
    for (size_t i = 0; i < CALLER_FUNCTIONS * CALLER_STUB; i++)
        if (((const uint8_t *)stubs)[i] != CALLER_PADDING)
            return 0;
    return stubs;
}

/* The process that made the snapshot verified them, for the same files. */
static int take_kept(struct loader *l, struct caller_function *functions)
{
    const struct rimf_kept *kept = rimf_image_feeder(l->image)->kept;

    for (unsigned i = 0; i < CALLER_NEEDED; i++)
        functions[i] = (struct caller_function){kept[i].at, kept[i].size};
    return functions[CALLER_OBJECT].at && functions[CALLER_ADDR].at && functions[CALLER_SYM].at;
}

void caller_finish(struct loader *l)
{
    l->caller->deferred = 0;
    if (caller_prepare(l, &l->caller->why))
        rimf_log(&l->log, MVLD_LOG_FILES, "caller hooks: not for moved code: %s", l->caller->why);
}

int caller_prepare(struct loader *l, const char **why)
{
    struct caller_hooks *caller = l->caller;
    struct hooks hooks;
    int err;

    *why = "musl has other functions that handle addresses";
    if (l->host->musl)
        return -ENOTSUP;
    *why = "there is no room for stubs";
    caller->stubs = find_stubs(l->image);
    if (!caller->stubs)
        return -ENOTSUP;
    caller->kept = take_kept(l, caller->functions);
    err = caller->kept ? 0 : caller_find(l, caller->functions, why);
    if (!err && !caller->kept) /* otherwise caller_install, which is next, makes the hooks */
        err = caller_hooks(caller, 0, CALLER_NEEDED, &hooks, why);
    if (err) {
        caller->stubs = 0;
        return err;
    }
    keep_originals(l, 0, CALLER_NEEDED);
    prepare_unwinder(l);
    caller_describe(l);
    return 0;
}

/* ---- when moved code lies in place and nothing enters it yet --------------------------------- */

int caller_install(void *loader, const char **why)
{
    struct loader *l = loader;
    int err;

    if (l->caller->installed)
        return 0;
    if (l->caller->deferred)
        caller_finish(l);
    *why = l->caller->why ? l->caller->why : "the C library's functions were not prepared";
    if (!l->caller->stubs)
        return -ENOTSUP;
    err = caller_snapshot(l);
    if (err)
        err = install(l, 0, l->caller->unwinder ? CALLER_FUNCTIONS : CALLER_NEEDED, why);
    if (err && l->caller->unwinder) {
        leave_unwinder(l, *why);
        err = install(l, 0, CALLER_NEEDED, why);
    }
    l->caller->installed = !err;
    return err;
}
