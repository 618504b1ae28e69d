/* SPDX-License-Identifier: MIT
 *
 * rimf/realise/added.c: code that a pass adds with names and unwind tables (code_add of mvld/pass.h).
 *
 * Unwinders and debuggers ask the host loader for the object of an address, and use that object's table.  So
 * such code is in libconcat.so.1's region like moved code, and is announced in the same ways (moved/moved.h):
 * the table that unwinders search grows, debuggers get a file with names, perf gets lines.  This happens
 * after the pass returned 0; code of a failed pass is never announced.
 */
#include "rimf/realise/realise.h"

#include "rimf/base/base.h"
#include "rimf/elf/frames.h"
#include "rimf/image/private.h"
#include "rimf/moved/moved.h"
#include "rimf/moved/symfile.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

struct added_code {
    struct added_code *next; /* after it in the region */
    const struct mvld_context *owner;
    uint32_t names;
    size_t n;
    struct rimf_described functions[]; /* names and frames follow them */
};

/* An unwinder that does not know an instruction may end the program. */
static int are_instructions(const uint8_t *at, size_t size)
{
    struct reader r = {.at = at, .end = at + size};

    return cfa_can_move(&r);
}

/* ---- declaring ------------------------------------------------------------------------------ */

static const char *wrong(const struct mvld_new_function *f, size_t n, size_t size, size_t *i, size_t *bytes)
{
    size_t end = 0;

    if (!f || !n || n > MVLD_FUNCTIONS_MAX)
        return "none, or too many";
    for (*i = 0; *i < n; end = f[*i].offset + (size_t)f[*i].size, ++*i) {
        if (f[*i].offset < end || !f[*i].size || f[*i].offset > size || f[*i].size > size - f[*i].offset)
            return "it overlaps the one before, or does not lie in the code";
        if (!f[*i].name || !*f[*i].name)
            return "it has no name";
        if (f[*i].frame_size > MVLD_FRAME_MAX || (f[*i].frame_size && !f[*i].frame) ||
            !are_instructions(f[*i].frame, f[*i].frame_size))
            return "its frame is not understood";
        *bytes += rimf_strlen(f[*i].name) + 1 + f[*i].frame_size;
    }
    return NULL;
}

static struct added_code *copy(struct mvld_image *image, const struct mvld_new_function *f, size_t n, size_t bytes,
                               uintptr_t at)
{
    struct added_code *added = rimf_heap_alloc(&image->heap, sizeof *added + n * sizeof *added->functions + bytes);
    char *text = added ? (char *)&added->functions[n] : NULL;

    for (size_t i = 0; added && i < n; i++) {
        added->functions[i] = (struct rimf_described){.start = at + f[i].offset, .size = f[i].size, .name = text,
                                                      .frame_size = (uint8_t)f[i].frame_size};
        memcpy(text, f[i].name, rimf_strlen(f[i].name) + 1);
        text += rimf_strlen(f[i].name) + 1;
        added->functions[i].frame = (const uint8_t *)text;
        if (f[i].frame_size)
            memcpy(text, f[i].frame, f[i].frame_size);
        text += f[i].frame_size;
    }
    return added;
}

/* Takes pages of the region, behind the present ones. */
static long take_pages(struct mvld_image *image, size_t size, const char **why)
{
    struct moved_code *moved = moved_region(image, why);
    const struct rimf_region *region = moved ? &moved->region : NULL;
    long error;

    if (!moved)
        return -ENODATA;
    *why = moved->n_planned > moved->n ? "code is about to move there"
           : size > region->code + region->code_size - moved->code_end ? "the room of libconcat.so.1 is full" : NULL;
    if (*why)
        return -ENOSPC;
    error = sys_mmap(image->sys, moved->code_end, size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    *why = "memory is short";
    if (!sys_failed(error))
        moved->code_end += size;
    return error;
}

void *rimf_code_place(const struct mvld_context *ctx, size_t size, const struct mvld_new_function *functions, size_t n,
                      uint32_t names)
{
    struct mvld_image *image = ctx->image;
    struct added_code *added, **end;
    size_t i = 0, bytes = 0;
    const char *why = wrong(functions, n, size, &i, &bytes);
    long at;

    if (why)
        return rimf_fail(image, EINVAL, "%s: function %zu of new code: %s", ctx->pass, i, why), NULL;
    at = take_pages(image, rimf_page_up(size), &why);
    if (sys_failed(at))
        return rimf_fail(image, (int)-at, "%s: no code is added: %s", ctx->pass, why), NULL;
    added = copy(image, functions, n, bytes, (uintptr_t)at);
    if (!added || rimf_section_note(ctx, MVLD_SECTION_CODE, (uintptr_t)at, rimf_page_up(size))) {
        rimf_heap_release(&image->heap, added);
        return rimf_fail(image, ENOMEM, "%s: memory is short", ctx->pass), NULL;
    }
    added->owner = ctx;
    added->names = names;
    added->n = n;
    for (end = &image->moved->added; *end; end = &(*end)->next)
        ;
    *end = added;
    return (void *)at;
}

void *rimf_code_add(const struct mvld_context *ctx, size_t size, const struct mvld_new_function *functions, size_t n,
                    uint32_t names)
{
    struct mvld_image *image = rimf_context_image(ctx);

    if (rimf_only_in(image, RIMF_STAGE_RUN, ctx ? ctx->pass : "") ||
        !rimf_section_may_add(ctx, MVLD_SECTION_CODE, size))
        return NULL;
    /* Code of earlier passes is placed first, because unwinders learn of code in the order of its addresses. */
    if ((image->moved && image->moved->n_planned > image->moved->n) || rimf_splices_wait(image))
        rimf_image_emit_before(image);
    return rimf_code_place(ctx, size, functions, n, names);
}

/* ---- realising ---------------------------------------------------------------------------------- */

static void report(struct mvld_image *image, const struct added_code *added)
{
    if ((added->names & MVLD_NAMES_DEBUGGERS && moved_names_debug(image, added->functions, added->n)) ||
        (added->names & MVLD_NAMES_PERF && moved_names_perf(image, added->functions, added->n)))
        rimf_log(image->log, MVLD_LOG_WARNING, "%s: its code has no names: %s", added->owner->pass, image->error);
}

/* All of it is the running pass's: another one may have failed meanwhile. */
int rimf_added_realise(struct mvld_image *image, const struct mvld_context *ctx, int failed)
{
    int error = 0;

    while (image->moved->added && image->moved->added->owner == ctx) {
        struct added_code *added = image->moved->added;

        error = failed || error ? error : moved_describe(image, added->functions, added->n);
        if (!failed && !error)
            report(image, added);
        image->moved->added = added->next;
        rimf_heap_release(&image->heap, added);
    }
    return error;
}

/* ---- what its pass does not want any more ------------------------------------------------- */

/* NULL, or why it stays (static, or the last sentence). */
static const char *in_use(const struct mvld_context *ctx, const struct new_section *section)
{
    struct mvld_image *image = ctx->image;

    if (section->owner != ctx)
        rimf_format(image->error, sizeof image->error, "the pass '%s' added it", section->owner->pass);
    for (const struct section_wanted *wanted = image->sections_wanted; wanted; wanted = wanted->next)
        if (wanted->section == &section->public)
            return "it is wanted with another protection";
    return section->owner != ctx               ? image->error
           : section->update != image->updates ? "an earlier call of run added it"
           : section->public.prot & PROT_EXEC  ? "it is executed by now"
           : rimf_retarget_leads_into(image, section->public.address, section->public.size)
               ? "a reference is wanted there" : NULL;
}

int rimf_section_remove(const struct mvld_context *ctx, const struct mvld_section *public)
{
    struct mvld_image *image = rimf_context_image(ctx);
    struct new_section **at = image ? &image->new_sections : NULL, *section;
    int error = rimf_only_in(image, RIMF_STAGE_RUN, ctx ? ctx->pass : "");
    const char *why;

    if (error)
        return error;
    while (*at && &(*at)->public != public)
        at = &(*at)->next;
    section = *at;
    if (!section || rimf_object_find(image, section->public.address))
        return rimf_fail(image, EINVAL, "%s: no section that was added is to be removed", ctx->pass);
    why = in_use(ctx, section);
    if (why)
        return rimf_fail(image, EBUSY, "%s: the section at %lx stays: %s", ctx->pass,
                         (unsigned long)section->public.address, why);
    sys_munmap(image->sys, section->public.address, section->public.size);
    *at = section->next;
    image->n_new_sections--;
    rimf_heap_release(&image->heap, section);
    return 0;
}
