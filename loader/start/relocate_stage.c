/* SPDX-License-Identifier: MIT
 *
 * loader/start/relocate_stage.c: the stage `relocate`: objects are mapped, and nothing is relocated.
 *
 * The host loader maps an object segment by segment, first those of a file (place.c answers these calls).
 * After the last of them, passes are told about the object.  The host loader relocates when it has mapped
 * all objects of the start, or of a dlopen.
 *
 *     first mapping     the program headers are read from it: how many mappings are to come
 *     last mapping      the objects so far are told to an image of this stage; passes are asked
 *     link map          what it lacks is gone: passes forget it.  Compared before each object, since the host loader
 *                       announces neither an object of LD_PRELOAD that it mapped in vain, nor (some versions) a
 *                       dlopen before its first object; and at RT_CONSISTENT, behind a dlclose, or a dlopen that
 *                       failed half-way
 *
 * The image of the other stages has only relocated objects; this one also has the others, but neither the
 * vDSO nor the host loader.  Neither has objects of other namespaces (dlmopen, LD_AUDIT).
 */
#include "loader/loader.h"

#include "loader/host/host.h"
#include "loader/place/place.h"
#include "loader/process/process.h"
#include "loader/start/start.h"
#include "rimf/elf/headers.h"
#include "rimf/image/image.h"
#include "loader/manager/pipeline.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */


/* ---- objects -------------------------------------------------------------------------- */

static struct rimf_source *room_for_one(struct loader *l)
{
    struct relocatestage *r = l->relocatestage;

    if (!RIMF_ONE_MORE(&l->heap, r->sources, r->n, r->room, 32))
        return NULL;
    memset(&r->sources[r->n], 0, sizeof *r->sources);
    return &r->sources[r->n++];
}

static const void *dynamic_of(const Elf64_Phdr *ph, size_t n, uintptr_t bias)
{
    const Elf64_Phdr *dynamic = elf_phdr_last(ph, n, PT_DYNAMIC);

    return dynamic ? (const void *)(bias + dynamic->p_vaddr) : NULL;
}

static void add_executable(struct loader *l)
{
    struct executable e = block_executable(l->block);
    struct rimf_source *source = room_for_one(l);

    if (!source)
        return;
    *source = (struct rimf_source){.name = l->program ? l->program : "main", .bias = e.bias,
                                   .dynamic = dynamic_of(e.ph, e.n, e.bias), .phdr = e.ph, .phnum = e.n,
                                   .flags = MVLD_OBJECT_MAIN};
}

static int update(struct loader *l, struct rimf_change *change)
{
    struct relocatestage *r = l->relocatestage;
    int error = rimf_image_update(r->image, r->sources, r->n, change);

    if (!error && change->n_removed)
        pipeline_removed(l->pipeline, r->image, RIMF_STAGE_RELOCATE, change->removed, change->n_removed);
    return error;
}

/* ---- the start, and a dlopen --------------------------------------------------------------- */

void relocatestage_start(struct loader *l)
{
    struct relocatestage *r = l->relocatestage;
    struct rimf_change change;

    if (l->host->musl || objects_create_image(l, &r->image)) {
        rimf_log(&l->log, MVLD_LOG_WARNING, "mvld: no symbol is changed: %s",
                 l->host->musl ? "of musl's objects nobody knows when they are mapped" : "out of memory");
        return;
    }
    r->wanted = 1;
    if (l->direct || !l->block->phdr || !l->block->phnum)
        return;
    add_executable(l);
    if (!update(l, &change) && change.n_added)
        pipeline_relocate(l->pipeline, r->image, change.added, change.n_added, 0);
}

static int is_listed(const struct loader *l, const struct rimf_source *source)
{
    const struct link_map *map = l->debug->r_map;

    while (map && (map->l_addr != source->bias || map->l_ld != source->dynamic))
        map = map->l_next;
    return map != NULL;
}

/* No object is being mapped: every object that belongs into the image is in the link map. */
void relocatestage_compare(struct loader *l)
{
    struct relocatestage *r = l->relocatestage;
    struct rimf_change change;
    size_t kept = 0;

    if (!l->debug || !l->debug->r_map)
        return;
    for (size_t i = 0; i < r->n; i++)
        if (is_listed(l, &r->sources[i]))
            r->sources[kept++] = r->sources[i];
    if (kept == r->n)
        return;
    r->n = kept;
    update(l, &change);
}

/* ---- mappings ---------------------------------------------------------------------------------- */

static int has_mapping(const Elf64_Phdr *ph)
{
    return ph->p_type == PT_LOAD &&
           rimf_page_up(ph->p_vaddr + ph->p_filesz) > rimf_page_down(ph->p_vaddr);
}

static void begin(struct loader *l, uintptr_t at, const struct mmap_call *c)
{
    struct relocatestage *r = l->relocatestage;
    int has_head = !c->offset && c->length && c->prot & PROT_READ;
    size_t n; /* headers lie at the start of the first segment, in its first page */
    const Elf64_Phdr *ph = elf_headers((const void *)at, has_head ? RIMF_PAGE : 0, &n);
    const Elf64_Phdr *first = NULL;

    r->left = 0;
    for (size_t i = 0; i < n; i++) {
        first = !first && ph[i].p_type == PT_LOAD ? &ph[i] : first;
        r->left += has_mapping(&ph[i]);
    }
    if (!first || !r->left)
        return;
    relocatestage_compare(l);
    r->bias = at - rimf_page_down(first->p_vaddr);
    r->phdr = ph;
    r->phnum = n;
}

/* Called when a segment of an object's file is mapped at `at`; `first`: it is the first one. */
void relocatestage_mapped(struct loader *l, uintptr_t at, const struct mmap_call *c, int first)
{
    struct relocatestage *r = l->relocatestage;
    struct rimf_source *source;
    struct rimf_change change;
    int is_apart;
    char *name;

    if (first || !r->left)
        begin(l, at, c);
    if (!r->left || --r->left)
        return;
    name = mapped_name(l, c, &is_apart);
    source = name && !is_apart ? room_for_one(l) : NULL;
    if (!source) {
        rimf_heap_release(&l->heap, name);
        return;
    }
    *source = (struct rimf_source){.name = name, .bias = r->bias, .phdr = r->phdr, .phnum = r->phnum,
                                   .dynamic = dynamic_of(r->phdr, r->phnum, r->bias),
                                   .flags = r->n == 1 ? MVLD_OBJECT_MAIN : 0};
    if (update(l, &change) || change.n_added != 1) {
        r->n--;
    } else {
        source->name = change.added[0]->name; /* owned by the image, as long as it has the object */
        pipeline_relocate(l->pipeline, r->image, change.added, 1, l->started);
    }
    rimf_heap_release(&l->heap, name);
}
