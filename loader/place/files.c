/* SPDX-License-Identifier: MIT
 *
 * loader/place/files.c: records the file of each mapped object.
 *
 * Stored knowledge about a file (its analysis, its code in a snapshot) is valid for that very file,
 * and a path does not identify it: a library may be replaced after it was mapped.  The descriptor
 * that it is mapped from does, and place.c sees it.  The kernel mapped the executable:
 * /proc/self/exe is that file, whatever its path names now.
 */
#include "loader/loader.h"

#include "loader/place/place.h"
#include "loader/process/process.h"
#include "rimf/base/cache.h"
#include "rimf/elf/headers.h"
#include "loader/manager/pipeline.h"

#include <fcntl.h> /* numbers only */

static struct mapped_file *room_for_one(struct loader *l)
{
    struct files *files = l->files;

    return RIMF_ONE_MORE(&l->heap, files->at, files->n, files->room, FILES_AT_FIRST) ? &files->at[files->n++] : NULL;
}

/* Forgets what was mapped in [start, end), because something else was mapped there.  So a program
 * that opens and closes libraries for ever has no more notes than addresses for them. */
static void forget_covered(struct files *files, uintptr_t start, uintptr_t end)
{
    size_t kept = 0;

    for (size_t i = 0; i < files->n; i++)
        if (files->at[i].start < start || files->at[i].end > end)
            files->at[kept++] = files->at[i];
    files->n = kept;
}

/* `failed`: the kernel did not tell.  This is noted, too, because the address may have been another
 * object's. */
static void note(struct loader *l, uintptr_t start, size_t length, const struct stat *st,
                 long failed)
{
    struct mapped_file *file;

    forget_covered(l->files, start, start + length);
    file = room_for_one(l);
    if (!file) { /* better no note than an outdated one */
        l->files->wanted = 0;
        l->files->n = 0;
        return;
    }
    *file = (struct mapped_file){.start = start, .end = start + length, .known = !failed};
    if (!failed)
        file_id_of(&file->identity, st);
}

/* [start, start + length) was mapped from `fd`. */
void files_note(struct loader *l, uintptr_t start, size_t length, int fd)
{
    struct stat st;

    if (l->files->wanted)
        note(l, start, length, &st, SYS3(l->sys, SYS_fstat, fd, &st, 0));
}

/* The kernel mapped the executable, and PT_PHDR says where. */
static void note_executable(struct loader *l)
{
    struct executable e = block_executable(l->block);
    const Elf64_Phdr *first = e.ph; /* segments ascend */
    struct stat st;

    while (first < e.ph + e.n && first->p_type != PT_LOAD)
        first++;
    if (e.own && first < e.ph + e.n)
        note(l, e.bias + rimf_page_down(first->p_vaddr), elf_load_end(e.ph, e.n) - rimf_page_down(first->p_vaddr), &st,
             SYS6(l->sys, SYS_newfstatat, AT_FDCWD, "/proc/self/exe", &st, 0, 0, 0));
}

void files_want(struct loader *l)
{
    l->files->wanted = (pipeline_flags(l->pipeline) & MVLD_PASS_ANALYSIS) != 0;
}

/* Called before anything is mapped. */
void files_start(struct loader *l)
{
    files_want(l);
    l->files->segmented = l->direct; /* if the executable is at a fixed address */
    if (l->files->wanted && !l->direct)
        note_executable(l);
}

/* The identity of the file that was mapped at `address`, or NULL.  The newest mapping is valid. */
const struct file_id *files_identity(const struct loader *l, uintptr_t address)
{
    for (size_t i = l->files->n; i-- > 0;) {
        const struct mapped_file *file = &l->files->at[i];

        if (address >= file->start && address < file->end)
            return file->known ? &file->identity : NULL;
    }
    return NULL;
}
