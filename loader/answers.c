/* SPDX-License-Identifier: MIT
 *
 * loader/answers.c: which object an address in a copy belongs to.
 *
 * Where code runs in copies (rimf/copies.h), its return addresses lie in the region of
 * the copies.  Some questions to the C library are answered for who asks, and who asks
 * is told by the return address: dlsym(RTLD_NEXT), dlopen (RUNPATH, $ORIGIN, namespace),
 * dlvsym, dlmopen.  Others name an address that came from a backtrace: dladdr,
 * backtrace_symbols.  All of them end in two functions, whose first argument is that
 * address (answers_find.c), and these are hooked:
 *
 *     home                           stub, near it                   stage 0
 *     f:      jmp stub   ──────►     call *entry  ───────────►       %rdi = home of %rdi
 *     f+n:    …                      what stood at f     ◄───
 *                        ◄──────     jmp f+n
 *
 * Nothing else is changed: all other registers and the stack are as they were, nothing is
 * kept anywhere, so threads and signal handlers may be in there at any time.  Addresses
 * that are in no copy stay as they are.
 *
 * f runs at home whoever calls it: rimf_image_keep_home makes its copy a jump to it.
 *
 * The stubs lie in a library that lies among the others, so near both functions: the one
 * that brings the region of the copies (it defines `concat_code`), whose executable
 * segment ends with int3, as padding.  ANSWER_STUB bytes each:
 *
 *      0    ff 15 <rel32>     call *slot(%rip)
 *      6    …                 displaced instructions, at most DISPLACE_MAX bytes
 *           e9 <rel32>        jmp f+n
 *     56    <quad>            slot: loader_answers_entry
 *
 * Everything that can be looked at is looked at in answers_prepare, before anything is
 * changed; answers_install writes the stubs and then the jumps, through the patch engine.
 * When that fails no jump is there, and nothing may run in copies.
 */
#include "answers.h"

#include "copies.h"
#include "displace.h"
#include "image.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

#define CALL_SLOT 6u
#define SLOT (ANSWER_STUB - 8u)
#define INT3 0xcc

_Static_assert(CALL_SLOT + DISPLACE_MAX + DISPLACE_JUMP <= SLOT, "a stub holds it all");
_Static_assert(ANSWER_STUB % MVLD_PATCH_MAX == 0, "it is written in pieces of this size");

/* From the stubs, by loader_answers_entry. */
uintptr_t loader_answer(const struct loader *l, uintptr_t address)
{
    uintptr_t home = rimf_copy_home(l->image, address);

    return home ? home : address;
}

/* ---- one function -------------------------------------------------------------------- */

struct hook {
    uintptr_t stub, at; /* `at`: where the jump goes */
    uint8_t code[ANSWER_STUB];
    uint8_t was[DISPLACE_JUMP], jump[DISPLACE_JUMP];
};

static int make_hook(const struct answer *function, uintptr_t stub, struct hook *hook,
                     const char **why)
{
    uintptr_t entry = (uintptr_t)loader_answers_entry;
    static const uint8_t call[] = {0xff, 0x15, SLOT - CALL_SLOT, 0, 0, 0};
    struct displaced moved;
    size_t end;

    if (displace((const uint8_t *)function->at, function->size, function->at, stub + CALL_SLOT,
                 &moved, why))
        return -ENOTSUP;
    hook->stub = stub;
    hook->at = function->at + moved.skip;
    end = CALL_SLOT + moved.length;
    memset(hook->code, INT3, sizeof hook->code);
    memcpy(hook->code, call, sizeof call);
    memcpy(hook->code + CALL_SLOT, moved.bytes, moved.length);
    memcpy(hook->code + SLOT, &entry, sizeof entry);
    memcpy(hook->was, (const void *)hook->at, sizeof hook->was);
    *why = "the functions that answer are too far away";
    if (displace_jump(hook->code + end, stub + end, hook->at + moved.length) ||
        displace_jump(hook->jump, hook->at, stub))
        return -ENOTSUP;
    return 0;
}

static int make_hooks(const struct answers *answers, struct hook *hooks, const char **why)
{
    int err = 0;

    for (size_t i = 0; i < ANSWERS && !err; i++)
        err = make_hook(&answers->functions[i], answers->stubs + ANSWER_STUB * i, &hooks[i], why);
    return err;
}

/* ---- before the passes run ------------------------------------------------------------- */

/* The end of the executable segment of the library that brings the region, or 0. */
static uintptr_t find_stubs(const struct mvld_image *image)
{
    const struct mvld_object *object;
    struct mvld_symbol symbol;
    uintptr_t stubs = 0;

    if (rimf_api()->symbol_resolve(image, "concat_code", NULL, &symbol))
        return 0;
    object = symbol.object;
    for (size_t i = 0; i < object->n_segments; i++)
        if (object->segments[i].prot == (PROT_READ | PROT_EXEC))
            stubs = (object->segments[i].end & ~(ANSWER_STUB - 1ul)) - ANSWERS * ANSWER_STUB;
    if (!stubs || !rimf_api()->object_holds(object, stubs, ANSWERS * ANSWER_STUB,
                                            PROT_READ | PROT_EXEC))
        return 0;
    for (size_t i = 0; i < ANSWERS * ANSWER_STUB; i++)
        if (((const uint8_t *)stubs)[i] != INT3)
            return 0;
    return stubs;
}

int answers_prepare(struct loader *l, const char **why)
{
    struct hook hooks[ANSWERS];
    int err;

    *why = "musl has other functions that answer for addresses";
    if (l->host.musl)
        return -ENOTSUP;
    *why = "there is no room for stubs";
    l->answers.stubs = find_stubs(l->image);
    if (!l->answers.stubs)
        return -ENOTSUP;
    err = answers_find(l, &l->answers.functions[0], &l->answers.functions[1], why);
    if (!err)
        err = make_hooks(&l->answers, hooks, why);
    if (err)
        l->answers.stubs = 0;
    else
        rimf_image_keep_home(l->image, l->answers.functions[1].at);
    return err;
}

/* ---- when copies lie in place and nothing enters them yet ------------------------------------ */

static int commit(struct mvld_batch *batch, size_t *refused)
{
    struct mvld_patch_report report = {0};
    int err = rimf_api()->patch_commit(batch, &report);

    *refused = report.refused;
    return err;
}

static int write_stubs(struct loader *l, const struct hook *hooks)
{
    const struct mvld_api *api = rimf_api();
    struct mvld_batch *batch = api->patch_begin(l->image);
    uint8_t free_bytes[MVLD_PATCH_MAX];
    size_t refused = 0;
    int err = batch ? 0 : -ENOMEM;

    memset(free_bytes, INT3, sizeof free_bytes);
    for (size_t i = 0; i < ANSWERS; i++)
        for (size_t at = 0; at < ANSWER_STUB && !err; at += MVLD_PATCH_MAX)
            err = api->patch_add(batch, hooks[i].stub + at, free_bytes, hooks[i].code + at,
                                 MVLD_PATCH_MAX);
    if (!err)
        err = commit(batch, &refused);
    if (batch)
        api->patch_end(batch);
    return err ? err : refused ? -ESTALE : 0;
}

/* All jumps, or, with `back`, what was there: those that are there. */
static int write_jumps(struct loader *l, const struct hook *hooks, int back)
{
    const struct mvld_api *api = rimf_api();
    struct mvld_batch *batch = api->patch_begin(l->image);
    size_t refused = 0;
    int err = batch ? 0 : -ENOMEM;

    for (size_t i = 0; i < ANSWERS && !err; i++)
        err = api->patch_add(batch, hooks[i].at, back ? hooks[i].jump : hooks[i].was,
                             back ? hooks[i].was : hooks[i].jump, DISPLACE_JUMP);
    if (!err)
        err = commit(batch, &refused);
    if (batch)
        api->patch_end(batch);
    return err ? err : refused ? -ESTALE : 0;
}

int answers_install(void *loader, const char **why)
{
    struct loader *l = loader;
    struct hook hooks[ANSWERS];
    int err;

    if (l->answers.installed)
        return 0;
    *why = l->answers.why ? l->answers.why : "the C library's answers were not prepared";
    if (!l->answers.stubs)
        return -ENOTSUP;
    err = make_hooks(&l->answers, hooks, why); /* of what stands there now */
    if (err)
        return err;
    *why = "the functions that answer for addresses could not be changed";
    err = write_stubs(l, hooks);
    if (!err) {
        err = write_jumps(l, hooks, 0);
        if (err == -ESTALE)
            write_jumps(l, hooks, 1);
    }
    if (err)
        return err;
    l->answers.installed = 1;
    rimf_log(&l->log, MVLD_LOG_FILES, "answers: hooked at %lx and %lx, stubs at %lx",
             (unsigned long)hooks[0].at, (unsigned long)hooks[1].at,
             (unsigned long)l->answers.stubs);
    return 0;
}
