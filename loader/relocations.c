/* SPDX-License-Identifier: MIT
 *
 * loader/relocations.c: symbols that the host loader need not look up again
 * (rimf/frozen.h tells why, and of which tables).
 *
 * The host loader maps all objects, takes memory for thread-local storage, and then
 * relocates.  At that request for memory, when as many files are mapped as the image
 * has, they are compared: the same files in the same order, at the same distances, with
 * the same build-id in memory.  Who comes in between (LD_PRELOAD, another search path)
 * makes it another list.  When all is the same, pages of tables are mapped over those of
 * the files; when it is not, or there is no such request, the host loader looks up as ever.
 */
#include "loader.h"

#include "cache.h"

#include <errno.h>    /* numbers only */
#include <fcntl.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

static uint64_t count_files(const struct frozen *frozen)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < frozen->header->n_objects; i++)
        n += frozen->objects[i].file.inode != 0; /* the vDSO has none */
    return n;
}

/* Who wants to see symbols being looked up. */
static int is_listened_to(const struct block *block)
{
    for (char **e = block->envp; *e; e++)
        if (rimf_after(*e, "LD_DEBUG="))
            return 1;
    return 0;
}

void relocations_expect(struct loader *l)
{
    if (l->files.wanted && !l->host.musl && !is_listened_to(&l->block))
        l->frozen.awaited = count_files(&l->frozen.file.view);
}

/* ---- comparing ---------------------------------------------------------------------- */

/* Of a mapped file, as far as they are in its first page; the host loader has read more of it. */
static const Elf64_Phdr *headers_at(uintptr_t start, size_t *n)
{
    const Elf64_Ehdr *file = (const Elf64_Ehdr *)start;

    *n = memcmp(file->e_ident, ELFMAG, SELFMAG) == 0 && file->e_phoff == sizeof *file &&
                 file->e_phnum <= (RIMF_PAGE - sizeof *file) / sizeof(Elf64_Phdr)
             ? file->e_phnum
             : 0;
    return (const Elf64_Phdr *)(file + 1);
}

static uint64_t build_id_at(uintptr_t start)
{
    struct identity own = {NULL, 0};
    size_t n;
    const Elf64_Phdr *ph = headers_at(start, &n);

    for (size_t i = 0; i < n && !own.build_id; i++)
        if (ph[i].p_type == PT_NOTE && ph[i].p_offset % 4 == 0 && ph[i].p_offset < RIMF_PAGE &&
            ph[i].p_filesz <= RIMF_PAGE - ph[i].p_offset)
            find_build_id((const char *)(start + ph[i].p_offset), ph[i].p_filesz, &own);
    return own.build_id ? sidecar_hash(own.build_id, own.size) : 0;
}

struct comparison {
    struct loader *l;
    size_t next;    /* of the files */
    uintptr_t base; /* of the first object that is not apart */
    int based;
};

static const struct mapped_file *file_of(const struct comparison *c, uint32_t i)
{
    const struct files *files = &c->l->files;
    const struct frozen_object *object = &c->l->frozen.file.view.objects[i];

    if (i == 0) /* the kernel mapped it, and we then the host loader */
        return &files->at[0];
    if (sidecar_same_file(&object->file, &files->at[1].identity))
        return &files->at[1];
    return c->next < files->n ? &files->at[c->next] : NULL;
}

static int compare(struct comparison *c, uint32_t i)
{
    const struct frozen_object *object = &c->l->frozen.file.view.objects[i];
    const struct mapped_file *file = file_of(c, i);
    uintptr_t bias;

    if (!object->file.inode)
        return 1;
    if (!file || !file->known || !sidecar_same_file(&object->file, &file->identity) ||
        build_id_at(file->start) != object->build_id)
        return 0;
    c->next += file == &c->l->files.at[c->next];
    bias = file->start - object->first;
    if (object->flags & FROZEN_APART)
        return 1;
    if (!c->based)
        c->base = bias;
    c->based = 1;
    return (int64_t)(bias - c->base) == object->distance;
}

static int all_the_same(struct comparison *c)
{
    const struct frozen_header *header = c->l->frozen.file.view.header;

    if (c->l->files.n < 2 || !c->l->files.at[1].known)
        return 0;
    for (uint32_t i = 0; i < header->n_objects; i++)
        if (!compare(c, i))
            return 0;
    return c->next == c->l->files.n;
}

/* ---- mapping ------------------------------------------------------------------------ */

/* As the first segment is mapped, which has the tables, and may have code behind them in the same
 * page; 0: nothing is mapped over that. */
static int rights_at(uintptr_t start)
{
    size_t n;
    const Elf64_Phdr *ph = headers_at(start, &n), *end = ph + n;

    while (ph < end && ph->p_type != PT_LOAD)
        ph++;
    if (ph == end || !(ph->p_flags & PF_R) || ph->p_flags & PF_W)
        return 0;
    return PROT_READ | (ph->p_flags & PF_X ? PROT_EXEC : 0);
}

/* The tables, when they are those that were written. */
static long open_tables(struct loader *l)
{
    const struct frozen_file *file = &l->frozen.file;
    struct sidecar_identity now;
    const char *why;
    struct stat st;
    size_t size = rimf_strlen(l->frozen.folder) + sizeof "/" FROZEN_RELOCATIONS;
    char *path = rimf_heap_alloc(&l->heap, size);
    long fd = -ENOMEM;

    if (path) {
        rimf_format(path, size, "%s/" FROZEN_RELOCATIONS, l->frozen.folder);
        fd = cache_open(l->sys, AT_FDCWD, path, S_IFREG, file->user, &st, &why);
        rimf_heap_release(&l->heap, path);
    }
    if (sys_failed(fd))
        return fd;
    cache_identity(&now, &st);
    if (sidecar_same_file(&now, &file->view.header->relocations))
        return fd;
    sys_close(l->sys, (int)fd);
    return -ESTALE;
}

/* All but the host loader is mapped, and nothing is relocated. */
void relocations_replace(struct loader *l)
{
    struct comparison c = {.l = l, .next = 2};
    const struct frozen *frozen = &l->frozen.file.view;
    uint32_t entries = 0;
    long fd;

    l->frozen.awaited = 0;
    if (!all_the_same(&c))
        return;
    fd = open_tables(l);
    if (sys_failed(fd))
        return;
    for (uint32_t i = 0; i < frozen->header->n_relocations; i++) {
        const struct frozen_relocations *r = &frozen->relocations[i];
        const struct frozen_object *object = &frozen->objects[r->object];
        uintptr_t bias = c.base + (uintptr_t)object->distance;
        int rights = rights_at(bias + object->first);

        if (rights && !sys_failed(sys_mmap(l->sys, bias + r->linked, r->size, rights,
                                           MAP_PRIVATE | MAP_FIXED, (int)fd, r->offset)))
            entries += r->n;
    }
    sys_close(l->sys, (int)fd);
    l->frozen.relocated = entries != 0;
    rimf_log(&l->log, MVLD_LOG_FILES, "image: %u symbols are not looked up", entries);
}
