/* SPDX-License-Identifier: MIT
 *
 * rimf/realise/file_view.c: a file that is about to be mapped, as an object (file_object of mvld/pass.h).
 *
 * Functions that read mapped objects must be able to read it.  So its segments are mapped as by the host
 * loader, in memory that is not executable, and unmapped when the pass returns.  Code is left out: it is the
 * largest part, and no query of such an object reads it.
 */
#include "rimf/realise/realise.h"

#include "rimf/base/base.h"
#include "rimf/elf/headers.h"
#include "rimf/image/private.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

#define SPAN_MAX (1ul << 32)

/* The span of all segments, in whole pages; 0: not what a host loader maps. */
static size_t span_of(const struct mvld_file *file, const Elf64_Phdr *ph, size_t n, uint64_t *low)
{
    uint64_t high = 0;

    *low = UINT64_MAX;
    for (size_t i = 0; i < n; i++) {
        if (ph[i].p_type != PT_LOAD)
            continue;
        if (ph[i].p_filesz > ph[i].p_memsz || ph[i].p_offset > file->size ||
            ph[i].p_filesz > file->size - ph[i].p_offset || ph[i].p_vaddr > SPAN_MAX || ph[i].p_memsz > SPAN_MAX)
            return 0;
        *low = ph[i].p_vaddr < *low ? rimf_page_down(ph[i].p_vaddr) : *low;
        high = ph[i].p_vaddr + ph[i].p_memsz > high ? ph[i].p_vaddr + ph[i].p_memsz : high;
    }
    return high > *low ? rimf_page_up(high - *low) : 0;
}

static void lay_out(const struct mvld_file *file, const Elf64_Phdr *ph, size_t n, uintptr_t bias)
{
    for (size_t i = 0; i < n; i++)
        if (ph[i].p_type == PT_LOAD && !(ph[i].p_flags & PF_X))
            memcpy((void *)(bias + ph[i].p_vaddr), (const char *)file->bytes + ph[i].p_offset, ph[i].p_filesz);
}

static const struct mvld_object *open_object(struct mvld_image *image, const struct mvld_file *file,
                                             const Elf64_Phdr *ph, size_t n, uintptr_t bias)
{
    const Elf64_Phdr *dynamic = elf_phdr_last(ph, n, PT_DYNAMIC);
    struct rimf_source source = {.name = file->name, .bias = bias, .phdr = ph, .phnum = n, .flags = file->flags};
    long error;

    if (dynamic && bias + dynamic->p_vaddr - image->viewed.start < image->viewed.size)
        source.dynamic = (const void *)(bias + dynamic->p_vaddr);
    error = rimf_heap_enter(&image->heap);
    if (error)
        return NULL;
    image->viewed.object = rimf_object_create(image, &source);
    rimf_heap_leave(&image->heap);
    return &image->viewed.object->public;
}

void rimf_file_close(struct mvld_image *image)
{
    if (image->viewed.size)
        sys_munmap(image->sys, image->viewed.start, image->viewed.size);
    rimf_heap_release(&image->heap, image->viewed.object);
    image->viewed.object = NULL;
    image->viewed.size = 0;
}

const struct mvld_object *rimf_file_object(const struct mvld_context *ctx, const struct mvld_file *file)
{
    struct mvld_image *image = rimf_context_image(ctx);
    const struct mvld_object *object;
    const Elf64_Phdr *ph;
    uint64_t low;
    size_t n, size;
    long at;

    if (rimf_only_in(image, RIMF_STAGE_MAP, ctx ? ctx->pass : "") || !file || !file->name)
        return NULL;
    ph = file->bytes ? elf_headers(file->bytes, file->size, &n) : NULL;
    size = ph ? span_of(file, ph, n, &low) : 0;
    if (!size)
        return rimf_fail(image, ENOEXEC, "%s: %s is no ELF file that could be mapped", ctx->pass, file->name), NULL;
    rimf_file_close(image);
    at = sys_mmap(image->sys, 0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!sys_failed(at)) {
        image->viewed.start = (uintptr_t)at;
        image->viewed.size = size;
        lay_out(file, ph, n, (uintptr_t)at - low);
    }
    object = sys_failed(at) ? NULL : open_object(image, file, ph, n, (uintptr_t)at - low);
    if (!object)
        rimf_fail(image, ENOMEM, "%s: out of memory for %s", ctx->pass, file->name);
    return object;
}
