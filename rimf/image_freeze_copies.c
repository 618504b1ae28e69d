/* SPDX-License-Identifier: MIT
 *
 * rimf/image_freeze_copies.c: copies of code (copies.h) and their unwind tables as they are
 * now, into one file.
 *
 *     0       header of an ELF file, one PT_LOAD for each piece: whoever meets the file in
 *             /proc/PID/maps can tell which bytes are which addresses
 *     4096    code, then the sorted table, then the frames, in whole pages
 *
 * Addresses are as linked of the object whose memory the region is.  Nothing in the pages
 * depends on where they are mapped: copies hold distances, as all code does.
 */
#include "freeze.h"

#include "base.h"
#include "copies.h"

#include <errno.h> /* numbers only */
#include <fcntl.h> /* numbers only */

struct head {
    Elf64_Ehdr elf;
    Elf64_Phdr loads[FROZEN_PIECES];
};

static struct head make_head(const struct frozen_region *region)
{
    struct head head = {
        .elf = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
                            EV_CURRENT},
                .e_type = ET_DYN, .e_machine = EM_X86_64, .e_version = EV_CURRENT,
                .e_phoff = sizeof(Elf64_Ehdr), .e_ehsize = sizeof(Elf64_Ehdr),
                .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = FROZEN_PIECES},
    };

    for (int i = 0; i < FROZEN_PIECES; i++)
        head.loads[i] = (Elf64_Phdr){
            .p_type = PT_LOAD, .p_flags = i == FROZEN_CODE ? PF_R | PF_X : PF_R,
            .p_offset = region->pieces[i].offset,
            .p_vaddr = region->pieces[i].linked, .p_paddr = region->pieces[i].linked,
            .p_filesz = region->pieces[i].size, .p_memsz = region->pieces[i].size,
            .p_align = RIMF_PAGE};
    return head;
}

/* The pieces, behind the header, without holes in the file. */
static void fill_region(struct freeze *f, const struct mvld_object *object)
{
    const struct rimf_copies *copies = f->image->copies;
    const struct mvld_region *region = &copies->region;
    uintptr_t starts[FROZEN_PIECES] = {region->code, region->frames,
                                       region->frames + copy_frames_table(region)};
    uintptr_t ends[FROZEN_PIECES] = {copies->code_end,
                                     region->frames + copy_frames_searched(copies->n_frames),
                                     copies->frames_end};
    uint64_t offset = RIMF_PAGE;

    *f->region = (struct frozen_region){
        .object = freeze_index(f, object),
        .n_frames = (uint32_t)copies->n_frames,
        .code = region->code - object->bias,
        .code_size = region->code_size,
        .frames = region->frames - object->bias,
        .frames_size = region->frames_size,
    };
    for (int i = 0; i < FROZEN_PIECES; i++) {
        f->region->pieces[i] = (struct frozen_piece){starts[i] - object->bias, ends[i] - starts[i],
                                                     offset};
        offset += ends[i] - starts[i];
    }
    f->header->n_regions = 1;
}

static int fill_copies(struct freeze *f, const struct mvld_object *object)
{
    const struct rimf_copies *copies = f->image->copies;

    for (size_t i = 0; i < copies->n; i++) {
        const struct rimf_copy *copy = &copies->list[i];

        if (!copy->size || copy->object->public.flags & MVLD_OBJECT_APART)
            return rimf_fail(f->image, ENOTSUP, "%s: its code was copied, and cannot be frozen",
                             copy->object->public.name);
        f->copies[f->header->n_copies++] = (struct frozen_copy){
            .object = freeze_index(f, &copy->object->public),
            .home = copy->home - copy->object->public.bias,
            .at = copy->at - object->bias,
            .code = copy->code,
            .size = copy->size,
        };
    }
    return 0;
}

static int write_pieces(struct freeze *f, const struct mvld_object *object, int fd)
{
    const struct rimf_sys *sys = f->image->sys;
    struct head head = make_head(f->region);
    uint64_t hashes[FROZEN_PIECES];
    int error = freeze_write(sys, fd, &head, sizeof head, 0);

    for (int i = 0; i < FROZEN_PIECES && !error; i++) {
        const struct frozen_piece *piece = &f->region->pieces[i];
        const void *pages = (const void *)(object->bias + piece->linked);

        hashes[i] = sidecar_hash(pages, piece->size);
        error = freeze_write(sys, fd, pages, piece->size, piece->offset);
    }
    f->region->hash = sidecar_hash(hashes, sizeof hashes);
    return error;
}

int freeze_copies(struct freeze *f)
{
    const struct rimf_copies *copies = f->image->copies;
    const struct rimf_sys *sys = f->image->sys;
    const struct mvld_object *object;
    int error;
    long fd;

    if (!copies || !copies->n)
        return 0;
    object = rimf_object_find(f->image, copies->region.code);
    if (!object || object->flags & MVLD_OBJECT_APART)
        return rimf_fail(f->image, ENOTSUP, "copies of code lie where no object is");
    fill_region(f, object);
    error = fill_copies(f, object);
    if (error)
        return error;
    fd = SYS6(sys, SYS_openat, f->folder, FROZEN_COPIES, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
              0644, 0, 0);
    error = sys_failed(fd) ? (int)fd : write_pieces(f, object, (int)fd);
    if (!error)
        error = freeze_finish(sys, (int)fd, &f->region->file);
    if (!sys_failed(fd))
        sys_close(sys, (int)fd);
    return error ? rimf_fail(f->image, -error, "copies of code cannot be written (error %d)",
                             -error)
                 : 0;
}
