/* SPDX-License-Identifier: MIT
 *
 * loader/store/relocations.c: gives the host loader relocation tables with fewer symbols to look up
 * (rimf/store/manifest.h has the reasons, and the tables).
 *
 * The host loader maps all objects, allocates thread-local storage, and then relocates.  At that
 * allocation, if as many files are mapped as in the snapshot, they are compared: the same files in the same
 * order, at the same distances, with the same build-id in memory.  An additional object (LD_PRELOAD,
 * another search path) makes a different list.  So does a file of LD_PRELOAD that the host loader cannot
 * use and unmaps again: nothing is read at its address.  If all is the same, the dynamic sections are made
 * to point to the snapshot's tables; otherwise, or without such an allocation, the host loader looks up all
 * symbols.
 */
#include "loader/loader.h"

#include "loader/host/host.h"
#include "loader/place/place.h"
#include "loader/process/process.h"
#include "loader/store/store.h"
#include "rimf/elf/headers.h"

#include <errno.h> /* numbers only */
#include <fcntl.h> /* numbers only */
#include <link.h>

static uint64_t count_files(const struct manifest *m)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < m->header->n_objects; i++)
        n += m->objects[i].file.inode != 0; /* the vDSO has none */
    return n;
}

void relocations_expect(struct loader *l)
{
    if (!l->files->wanted || l->host->musl || l->knobs->debug) /* who debugs observes look-ups of symbols */
        return;
    l->snapshot->awaited = count_files(&l->snapshot->file.view);
}

/* ---- comparing ---------------------------------------------------------------------- */

static uint64_t build_id_at(const struct rimf_sys *sys, uintptr_t start, uintptr_t bias)
{
    size_t n, size;
    const Elf64_Phdr *ph = elf_headers((const void *)start, RIMF_PAGE, &n);
    const uint8_t *own = elf_mapped_build_id(sys, ph, n, bias, &size);

    return own ? rimf_hash(own, size) : 0;
}

/* The object at that bias, searched from `from` on, because queries are in the link map's order.  NULL:
 * none. */
static const struct link_map *map_at(const struct loader *l, uintptr_t bias, const struct link_map *from)
{
    const struct link_map *first = l->debug ? l->debug->r_map : NULL, *map = from;

    while (map && map->l_addr != bias)
        map = map->l_next;
    return map || from == first ? map : map_at(l, bias, first);
}

struct comparison {
    struct loader *l;
    const struct link_map *map; /* of the previous object */
    uintptr_t *biases; /* of each object */
    size_t next;       /* of the files */
    uintptr_t base;    /* bias of the first object that is not unplaced */
};

static const struct mapped_file *file_of(const struct comparison *c, uint32_t i)
{
    const struct files *files = c->l->files;
    const struct manifest_object *object = &c->l->snapshot->file.view.objects[i];

    if (i == 0) /* mapped by the kernel; then we mapped the host loader */
        return &files->at[0];
    if (file_id_same(&object->file, &files->at[1].identity))
        return &files->at[1];
    return c->next < files->n ? &files->at[c->next] : NULL;
}

static int is_as_recorded(struct comparison *c, uint32_t i)
{
    const struct manifest_object *object = &c->l->snapshot->file.view.objects[i];
    const struct mapped_file *file = file_of(c, i);
    uintptr_t bias;

    c->biases[i] = 0;
    if (!object->file.inode)
        return 1;
    if (!file || !file->known || !file_id_same(&object->file, &file->identity))
        return 0;
    c->biases[i] = bias = file->start - object->first;
    c->map = map_at(c->l, bias, c->map);
    if (!c->map) /* it was mapped, and is unmapped now */
        return 0;
    if (build_id_at(c->l->sys, file->start, bias) != object->build_id)
        return 0;
    c->next += file == &c->l->files->at[c->next];
    if (object->flags & MANIFEST_UNPLACED)
        return 1;
    if (!c->base)
        c->base = bias;
    return (int64_t)(bias - c->base) == object->distance;
}

static int all_the_same(struct comparison *c)
{
    const struct manifest_header *header = c->l->snapshot->file.view.header;

    if (c->l->files->n < 2 || !c->l->files->at[1].known)
        return 0;
    for (uint32_t i = 0; i < header->n_objects; i++)
        if (!is_as_recorded(c, i))
            return 0;
    return c->next == c->l->files->n;
}

/* ---- leading it there ---------------------------------------------------------------- */

/* With a debugger, or if that is unknown, the snapshot will be refused, and passes will need the slots,
 * which the replaced tables do not have. */
static int may_map(const struct loader *l)
{
    return l->hooked && l->filtered->untraced;
}

/* With moved code, hooked functions of the C library come first. */
static void map_texts(struct loader *l, struct manifest_file *file)
{
    const struct manifest_header *h = file->view.header;

    if (file->view.region || !h->cpu || h->cpu != cpuid_identity(l))
        return;
    manifest_map_texts_early(file, l->sys);
    rimf_log(&l->log, MVLD_LOG_FILES, "snapshot: the code of %u segments lies there before relocation",
             file->early.end_text - file->early.first_text);
}

/* The path of that library, as the host loader found it. */
static const char *path_of(const struct loader *l, uint32_t object)
{
    const struct link_map *map = map_at(l, l->snapshot->biases[object], NULL);

    return map ? map->l_name : NULL;
}

int relocations_take_texts_back(struct loader *l)
{
    struct manifest_file *file = &l->snapshot->file;
    long error = 0;

    while (file->early.end_text > file->early.first_text && !error) {
        const char *path = path_of(l, file->view.texts[file->early.end_text - 1].object);
        long fd = path ? sys_openat(l->sys, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0)
                       : -ENOENT;

        error = sys_failed(fd) ? fd : manifest_take_text_back(file, l->sys, (int)fd);
        if (!sys_failed(fd))
            sys_close(l->sys, (int)fd);
    }
    return (int)error;
}

/* All objects but the host loader are mapped, and nothing is relocated. */
void relocations_replace(struct loader *l)
{
    struct manifest_file *file = &l->snapshot->file;
    struct comparison c = {.l = l, .next = 2};
    const char *why;

    l->snapshot->awaited = 0;
    l->snapshot->biases = c.biases =
        rimf_heap_alloc(&l->heap, file->view.header->n_objects * sizeof *c.biases);
    if (!c.biases || !may_map(l) || !all_the_same(&c))
        return;
    if (manifest_map_early(file, l->sys, c.biases, &why))
        rimf_log(&l->log, MVLD_LOG_FILES, "snapshot: symbols are looked up: %s", why);
    else
        map_texts(l, file);
    if (!file->early.entries && !file->early.moved)
        return;
    l->snapshot->state = FOUND_RELOCATED;
    rimf_log(&l->log, MVLD_LOG_FILES, "snapshot: %u symbols are not looked up",
                 file->early.entries);
}
