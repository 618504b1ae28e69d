/* SPDX-License-Identifier: MIT
 *
 * rimf/store/writer.c: the common part of all manifests: tables that are filled, then packed, and files that
 * are synced.
 */
#include "rimf/store/writer.h"

#include "rimf/base/base.h"
#include "rimf/base/status.h"
#include "rimf/base/cpu.h"
#include "rimf/moved/moved.h"

#include <errno.h>    /* numbers only */
#include <fcntl.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */
#include <sys/statfs.h>
#include <sys/statvfs.h> /* numbers only */

/* ---- tables ------------------------------------------------------------------------ */

int writer_open(struct writer *w)
{
    size_t size = sizeof *w->header;
    uint8_t *at;

    w->room[MANIFEST_NAMES]++;
    for (int i = 0; i < MANIFEST_TABLES; i++)
        size += w->room[i] * manifest_sizes[i];
    w->header = rimf_heap_alloc(&w->image->heap, size);
    if (!w->header)
        return rimf_fail(w->image, ENOMEM, "there is no memory for a manifest");
    at = (uint8_t *)(w->header + 1);
    for (int i = 0; i < MANIFEST_TABLES; i++) {
        w->at[i] = at;
        at += w->room[i] * manifest_sizes[i];
    }
    *w->header = (struct manifest_header){
        .magic = MANIFEST_MAGIC,
        .version = MANIFEST_VERSION,
        .header_size = sizeof *w->header,
        .names_size = 1, /* "", for empty names */
    };
    return 0;
}

size_t writer_close(struct writer *w)
{
    struct manifest_header *h = w->header;
    uint8_t *end = (uint8_t *)(h + 1);

    for (int i = 0; i < MANIFEST_TABLES; i++) {
        size_t size = (size_t)h->n[i] * manifest_sizes[i];

        memmove(end, w->at[i], size);
        w->at[i] = end;
        end += size;
    }
    h->size = (uint64_t)(end - (uint8_t *)h);
    h->checksum = manifest_checksum(h, h->size);
    return h->size;
}

void writer_release(struct writer *w)
{
    rimf_heap_release(&w->image->heap, w->header);
    rimf_heap_release(&w->image->heap, w->ways);
}

uint32_t writer_name(struct writer *w, const char *name)
{
    uint32_t at = w->header->names_size;
    size_t size = rimf_strlen(name) + 1;

    memcpy(w->names + at, name, size);
    w->header->names_size += (uint32_t)size;
    return at;
}

struct manifest_object *writer_object(struct writer *w, const struct rimf_object *object)
{
    struct manifest_object *out = &w->objects[w->header->n_objects++];

    *out = (struct manifest_object){
        .name = writer_name(w, object->public.name),
        .flags = object->public.flags & MVLD_OBJECT_UNPLACED ? MANIFEST_UNPLACED : 0,
    };
    if (object->public.flags & MVLD_OBJECT_VDSO)
        return out;
    out->file = object->file.id;
    out->build_id = manifest_build_id(&object->public);
    out->analysis = rimf_analysis_key(&object->public);
    out->first = (uint32_t)(rimf_page_down(object->public.start) - object->public.bias);
    out->length = (uint32_t)(rimf_page_up(object->public.end) - rimf_page_down(object->public.start));
    if (!out->flags)
        out->distance = (int64_t)(object->public.bias - w->base);
    return out;
}

void writer_name_overlay(struct writer *w, struct manifest_object *entry, uint32_t number,
                         const struct rimf_object *object)
{
    char own[MANIFEST_NAME_MAX + 1];

    rimf_format(own, sizeof own, "%u-%.200s", number, rimf_file_name(object->public.name));
    entry->overlay_name = writer_name(w, own);
}

uint32_t writer_number(const struct writer *w, const struct mvld_object *object)
{
    uint32_t i = 0;

    if (!w->table)
        return rimf_object_of(object)->number - 1;
    while (i < w->table->n_objects && &w->table->objects[i]->public != object)
        i++;
    return i < w->table->n_objects ? i : ~0u;
}

int writer_word(struct writer *w, uintptr_t address, uintptr_t value)
{
    const struct mvld_object *in = rimf_object_find(w->image, address);
    const struct mvld_object *to = rimf_object_find(w->image, value);
    uint32_t object = in ? writer_number(w, in) : ~0u, to_object = to ? writer_number(w, to) : ~0u;

    if (object == ~0u || to_object == ~0u || (in->flags | to->flags) & MVLD_OBJECT_VDSO ||
        address - in->bias > UINT32_MAX || value - to->bias > UINT32_MAX || address % sizeof value)
        return -ENOTSUP;
    w->words[w->header->n_words++] = (struct manifest_word){
        .object = object,
        .linked = (uint32_t)(address - in->bias),
        .to_object = to_object,
        .to_linked = (uint32_t)(value - to->bias),
    };
    return 0;
}

/* ---- files -------------------------------------------------------------------------- */

const char *writer_unsettled(const struct mvld_image *image, struct rimf_object *object)
{
    if (!object->file.settled)
        object->file.unsettled = file_id_unsettled(image->sys, &object->file.id, object->public.name);
    object->file.settled = 1;
    return object->file.unsettled;
}

/* By passes, which have changed what was there before; by our hooks; by relocation. */
static int is_written_by_us(const struct mvld_image *image, const struct rimf_object *object)
{
    return object->born != image->updates || object->public.flags & MVLD_OBJECT_LOADER || object->view.text_relocations;
}

/* Whether its code is what the kernel mapped.  Else a snapshot would hold a breakpoint, of which the kernel knows nothing
 * there, and the programs that execute it would end. */
static int is_code_unwritten(const struct mvld_image *image, const struct rimf_object *object)
{
    const struct elf_view *view = &object->view;

    for (size_t i = 0; i < view->phnum; i++)
        if (view->phdr[i].p_type == PT_LOAD && view->phdr[i].p_flags == (PF_R | PF_X) &&
            !status_is_unwritten(image->sys, view->bias + view->phdr[i].p_vaddr, view->phdr[i].p_filesz))
            return 0;
    return 1;
}

void rimf_image_will_write(struct mvld_image *image)
{
    const struct rimf_table *table = rimf_table_enter(image);

    for (size_t i = 0; i < table->n_objects; i++) {
        struct rimf_object *object = table->objects[i];

        if (!object->file.known || object->number || object->file.settled || writer_unsettled(image, object))
            continue;
        if (!is_written_by_us(image, object) && !is_code_unwritten(image, object))
            object->file.unsettled = "its code has breakpoints, for instance of probes by perf or bpftrace";
    }
    rimf_table_leave(image);
}

int write_finish(const struct writer *w, const char *name, struct file_id *out)
{
    const struct rimf_sys *sys = w->image->sys;
    long fd = SYS6(sys, SYS_openat, w->folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0, 0, 0);
    struct stat st;
    int error;

    if (sys_failed(fd))
        return (int)fd;
    error = (int)SYS3(sys, SYS_fsync, fd, 0, 0); /* reports what failed before the file was opened, too */
    if (!error)
        error = (int)SYS3(sys, SYS_fstat, fd, &st, 0);
    if (!error)
        file_id_of(out, &st);
    sys_close(sys, (int)fd);
    return error;
}

int write_may_run(const struct rimf_sys *sys, int folder)
{
    struct statfs fs;

    return SYS3(sys, SYS_fstatfs, folder, &fs, 0) || !(fs.f_flags & ST_NOEXEC);
}

const char *write_full(int error)
{
    return error == -ENOSPC ? ": the file system is full" : error == -EDQUOT ? ": the quota is used up" : "";
}
