/* SPDX-License-Identifier: MIT
 *
 * rimf/image/sections.c: an object's parts by kind; and code and data that passes add, near the
 * program, where the feeder knows free addresses within reach of the objects' calls.
 *
 * A section of code can be written, and not executed, until its pass has returned; then it is
 * executed, and never written again.  So is that of a pass that failed: calls that it patched lead there.
 *
 * Protections that passes want are made behind all else: until then mvld reads and writes them.
 */
#include "rimf/image/private.h"

#include "rimf/base/base.h"
#include "rimf/elf/headers.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

static void append(struct rimf_object *object, enum mvld_section_kind kind, uintptr_t start,
                   uintptr_t end, uint32_t prot)
{
    if (start >= end)
        return;
    object->sections[object->n_sections++] = (struct mvld_section){
        .kind = kind,
        .linked = start - object->view.bias,
        .address = start,
        .size = end - start,
        .prot = prot,
    };
}

static uintptr_t clamp(uintptr_t value, uintptr_t low, uintptr_t high)
{
    return value < low ? low : value > high ? high : value;
}

void rimf_sections_fill(struct rimf_object *object)
{
    const struct elf_view *view = &object->view;
    const Elf64_Phdr *relro = elf_phdr_last(view->phdr, view->phnum, PT_GNU_RELRO);
    uintptr_t relro_start = relro ? view->bias + relro->p_vaddr : 0, relro_end = relro_start;

    if (relro && __builtin_add_overflow(relro_start, relro->p_memsz, &relro_end))
        relro_end = relro_start;
    for (size_t i = 0; i < view->n_segments; i++) {
        const struct mvld_segment *segment = &view->segments[i];
        uintptr_t cut_start = clamp(relro_start, segment->start, segment->end);
        uintptr_t cut_end = clamp(relro_end, segment->start, segment->end);

        if (segment->prot & PROT_EXEC) {
            append(object, MVLD_SECTION_CODE, segment->start, segment->end, segment->prot);
        } else if (!(segment->prot & PROT_WRITE)) {
            append(object, MVLD_SECTION_RODATA, segment->start, segment->end, segment->prot);
        } else if (relro_start >= segment->start && relro_start < segment->end) {
            append(object, MVLD_SECTION_DATA, segment->start, cut_start, segment->prot);
            append(object, MVLD_SECTION_RELRO, cut_start, cut_end,
                   segment->prot & ~(uint32_t)PROT_WRITE);
            append(object, MVLD_SECTION_DATA, cut_end, segment->end, segment->prot);
        } else {
            append(object, MVLD_SECTION_DATA, segment->start, segment->end, segment->prot);
        }
    }
}

long rimf_object_protect(const struct mvld_image *image, const struct rimf_object *object, uintptr_t address,
                         size_t length, int open)
{
    uintptr_t start = rimf_page_down(address), end = rimf_page_up(address + length);
    const struct mvld_segment *segment = elf_segment_at(&object->view, address);

    return !segment ? -EFAULT
           : sys_mprotect(image->sys, start, end - start, open ? PROT_READ | PROT_WRITE : (int)segment->prot);
}

/* ---- those that passes add ------------------------------------------------------------- */

int rimf_section_may_add(const struct mvld_context *ctx, enum mvld_section_kind kind, size_t size)
{
    struct mvld_image *image = rimf_context_image(ctx);

    if (!image || rimf_only_in(image, RIMF_STAGE_RUN, ctx->pass))
        return 0;
    if (kind != MVLD_SECTION_CODE && kind != MVLD_SECTION_DATA)
        return rimf_fail(image, EINVAL, "%s: a new section is of code or of data", ctx->pass), 0;
    if (!size || size > MVLD_SECTION_MAX)
        return rimf_fail(image, EINVAL, "%s: a section of %zu bytes", ctx->pass, size), 0;
    if (image->n_new_sections == MVLD_SECTIONS_MAX)
        return rimf_fail(image, E2BIG, "%s: more than %u sections were added", ctx->pass, MVLD_SECTIONS_MAX), 0;
    if (image->watch)
        return rimf_fail(image, ENOTSUP, "%s: no snapshot holds sections that passes add", ctx->pass), 0;
    return 1;
}

int rimf_section_note(const struct mvld_context *ctx, enum mvld_section_kind kind, uintptr_t at, size_t size)
{
    struct new_section *section = rimf_heap_alloc(&ctx->image->heap, sizeof *section);

    if (!section)
        return -ENOMEM;
    *section = (struct new_section){ctx->image->new_sections, ctx, ctx->image->updates,
                                    {.kind = kind, .address = at, .size = size, .prot = PROT_READ | PROT_WRITE}};
    ctx->image->new_sections = section;
    ctx->image->n_new_sections++;
    return 0;
}

void *rimf_section_add(const struct mvld_context *ctx, enum mvld_section_kind kind, size_t size)
{
    struct mvld_image *image = rimf_context_image(ctx);
    long at;

    if (!rimf_section_may_add(ctx, kind, size))
        return NULL;
    size = rimf_page_up(size);
    at = image->feeder.room ? image->feeder.room(image->feeder.cookie, size) : -ENOMEM;
    if (!sys_failed(at) && !rimf_section_note(ctx, kind, (uintptr_t)at, size))
        return (void *)at;
    if (!sys_failed(at))
        sys_munmap(image->sys, (uintptr_t)at, size);
    rimf_fail(image, ENOMEM, "%s: there is no room near the program", ctx->pass);
    return NULL;
}

static int holds(const struct mvld_section *section, uintptr_t address)
{
    return address - section->address < section->size;
}

int rimf_new_section_holds(const struct mvld_context *ctx, enum mvld_section_kind kind, uintptr_t address)
{
    const struct new_section *section = ctx->image->new_sections;

    while (section && !(section->public.kind == kind && holds(&section->public, address) &&
                        (section->public.prot & PROT_EXEC || section->owner == ctx)))
        section = section->next;
    return section != NULL;
}

int rimf_is_new_code(const struct mvld_image *image, uintptr_t address)
{
    const struct new_section *section = image->new_sections;

    while (section && !(section->public.prot & PROT_EXEC && holds(&section->public, address)))
        section = section->next;
    return section != NULL;
}

int rimf_new_sections_seal(struct mvld_image *image, const struct mvld_context *ctx)
{
    for (struct new_section *section = image->new_sections; section; section = section->next) {
        struct mvld_section *public = &section->public;

        if (public->prot & PROT_EXEC || public->kind != MVLD_SECTION_CODE || section->owner != ctx)
            continue;
        if (sys_mprotect(image->sys, public->address, public->size, PROT_READ | PROT_EXEC))
            return rimf_fail(image, EACCES, "%s: new code may not be executed here", section->owner->pass);
        public->prot = PROT_READ | PROT_EXEC;
    }
    return 0;
}

/* ---- asking ---------------------------------------------------------------------------- */

const struct mvld_section *rimf_section_at(const struct mvld_image *image, const struct mvld_object *object,
                                           size_t index)
{
    const struct rimf_object *private = rimf_object_of(object);
    const struct new_section *section = image ? image->new_sections : NULL;

    if (object && !rimf_is_object(object))
        return NULL;
    if (object)
        return index < private->n_sections ? &private->sections[index] : NULL;
    while (section && index--)
        section = section->next;
    return section ? &section->public : NULL;
}

const struct mvld_section *rimf_section_find(const struct mvld_image *image, uintptr_t address)
{
    const struct mvld_object *object = rimf_object_find(image, address);
    const struct mvld_section *section = NULL;

    for (size_t i = 0; (section = rimf_section_at(image, object, i)); i++)
        if (holds(section, address))
            return section;
    return NULL;
}

/* ---- protecting ------------------------------------------------------------------------ */

static int refuse(const struct mvld_context *ctx, const struct mvld_section *of, int error, const char *why)
{
    return rimf_fail(ctx->image, error, "%s: the section at %lx is not protected: %s", ctx->pass,
                     of ? (unsigned long)of->address : 0, why);
}

/* The host loader writes there when a function is called for the first time. */
static int has_lazy_slots(const struct mvld_section *of, const struct elf_view *view)
{
    for (size_t i = 0; !view->now && i < view->n_plt_relocations; i++)
        if (holds(of, view->bias + view->plt_relocations[i].r_offset))
            return 1;
    return 0;
}

int rimf_section_protect(const struct mvld_context *ctx, const struct mvld_section *of, uint32_t prot, int key)
{
    struct mvld_image *image = rimf_context_image(ctx);
    const struct mvld_object *object = image && of ? rimf_object_find(image, of->address) : NULL;
    int error = rimf_only_in(image, RIMF_STAGE_RUN, ctx ? ctx->pass : "");
    struct section_wanted *wanted;

    if (error)
        return error;
    if (!of || rimf_section_find(image, of->address) != of || of->kind != MVLD_SECTION_DATA ||
        prot & ~(uint32_t)(PROT_READ | PROT_WRITE))
        return refuse(ctx, of, EINVAL, "it is no section of data, or no such protection");
    if (image->watch || of->address % RIMF_PAGE || (object && object->why))
        return refuse(ctx, of, ENOTSUP, image->watch ? "no snapshot holds it" : object && object->why ? object->why
                                        : "it shares a page with what is before it");
    if (object && has_lazy_slots(of, &rimf_object_of(object)->view))
        return refuse(ctx, of, ENOTSUP, "the host loader writes to slots in it (link with -z now)");
    if (object && holds(of, (uintptr_t)rimf_object_of(object)->dynamic))
        return refuse(ctx, of, ENOTSUP, "the host loader reads the dynamic section in it (link with -z relro)");
    for (wanted = image->sections_wanted; wanted && wanted->section != of;)
        wanted = wanted->next;
    if (wanted)
        return refuse(ctx, of, EEXIST, "a pass protects it already");
    wanted = rimf_heap_alloc(&image->heap, sizeof *wanted);
    if (!wanted)
        return refuse(ctx, of, ENOMEM, "out of memory");
    *wanted = (struct section_wanted){.next = image->sections_wanted, .ctx = ctx, .section = (struct mvld_section *)of,
                                      .prot = prot, .key = key};
    image->sections_wanted = wanted;
    return 0;
}

long rimf_key_add(const struct mvld_context *ctx)
{
    struct mvld_image *image = rimf_context_image(ctx);
    long key = rimf_only_in(image, RIMF_STAGE_RUN, ctx ? ctx->pass : "");

    if (key)
        return key;
    key = SYS3(image->sys, SYS_pkey_alloc, 0, 1 /* PKEY_DISABLE_ACCESS */, 0);
    return key >= 0 ? key : rimf_fail(image, (int)-key, "%s: there is no protection key here", ctx->pass);
}

void rimf_protections_forget(struct mvld_image *image, const struct mvld_context *ctx)
{
    for (struct section_wanted **at = &image->sections_wanted; *at;) {
        struct section_wanted *wanted = *at;

        if (wanted->ctx != ctx) {
            at = &wanted->next;
            continue;
        }
        *at = wanted->next;
        rimf_heap_release(&image->heap, wanted);
    }
}

static struct mvld_segment *segment_of(const struct mvld_image *image, const struct section_wanted *w)
{
    const struct mvld_object *object = rimf_object_find(image, w->section->address);

    return object ? (struct mvld_segment *)elf_segment_at(&rimf_object_of(object)->view, w->section->address) : NULL;
}

static long set_protection(const struct mvld_image *image, const struct section_wanted *w, uint32_t prot, int key)
{
    return SYS6(image->sys, key < 0 ? SYS_mprotect : SYS_pkey_mprotect, w->section->address,
                rimf_page_up(w->section->size), prot, key, 0, 0);
}

static int protect(struct mvld_image *image, struct section_wanted *w)
{
    struct mvld_segment *segment = segment_of(image, w);
    long error = set_protection(image, w, w->prot, w->key);

    if (error)
        return refuse(w->ctx, w->section, (int)-error, "the kernel does not do it");
    w->is_made = 1;
    w->before = w->section->prot;
    w->section->prot = w->prot;
    if (segment) { /* nothing of it is looked at any more */
        w->segment_before = segment->prot;
        segment->prot = w->key < 0 ? segment->prot & w->prot : 0;
    }
    return 0;
}

static void take_back(struct mvld_image *image, struct section_wanted *w)
{
    struct mvld_segment *segment = segment_of(image, w);

    if (set_protection(image, w, w->before, w->key < 0 ? -1 : 0))
        rimf_log(image->log, MVLD_LOG_WARNING, "mvld: the section at %lx stays protected",
                 (unsigned long)w->section->address);
    w->section->prot = w->before;
    if (segment)
        segment->prot = w->segment_before;
}

const struct mvld_context *rimf_protections_emit(struct mvld_image *image, int *error)
{
    *error = 0;
    while (image->sections_wanted && !image->unfinished) {
        const struct mvld_context *ctx = image->sections_wanted->ctx;

        for (struct section_wanted *w = image->sections_wanted; w && !*error; w = w->next)
            *error = w->ctx == ctx ? protect(image, w) : 0;
        for (struct section_wanted *w = image->sections_wanted; w && *error; w = w->next)
            if (w->is_made)
                take_back(image, w);
        if (*error)
            return ctx;
        rimf_protections_forget(image, ctx);
    }
    return NULL;
}
