/* SPDX-License-Identifier: MIT
 *
 * rimf/image/table.c: all objects, in the order of the link map, by address, and by domain; and as the lines of
 * MVLD_DEBUG=image.
 *
 * The index by address has an object twice if it has a hole between two segments: another one may be in it.
 */
#include "rimf/image/private.h"

#include "rimf/base/base.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

const struct rimf_table *rimf_table_enter(const struct mvld_image *image)
{
    static const struct rimf_table nothing;
    struct mvld_image *counted = (struct mvld_image *)image;

    if (!image) /* called by a pass */
        return &nothing;
    __atomic_add_fetch(&counted->readers, 1, __ATOMIC_SEQ_CST);
    return __atomic_load_n(&counted->table, __ATOMIC_SEQ_CST);
}

void rimf_table_leave(const struct mvld_image *image)
{
    struct mvld_image *counted = (struct mvld_image *)image;

    if (image)
        __atomic_sub_fetch(&counted->readers, 1, __ATOMIC_SEQ_CST);
}

struct rimf_table *rimf_table_create(struct mvld_image *image, size_t n, size_t places)
{
    struct rimf_table *table =
        rimf_heap_take(&image->heap, sizeof *table + n * sizeof *table->objects +
                                          places * sizeof *table->places);

    if (!table)
        return NULL;
    table->objects = (struct rimf_object **)(table + 1);
    table->places = (struct rimf_place *)(table->objects + n);
    return table;
}

/* The object's places.  Segments that adjoin, page by page, share one: no other object lies between them. */
static size_t places_of(struct rimf_object *object, struct rimf_place *places)
{
    const struct elf_view *view = &object->view;
    size_t n = 0;

    for (size_t i = 0; i < view->n_segments; i++) {
        const struct mvld_segment *segment = &view->segments[i];

        if (n && rimf_page_down(segment->start) <= rimf_page_up(places[n - 1].end))
            places[n - 1].end = segment->end;
        else
            places[n++] = (struct rimf_place){segment->start, segment->end, object};
    }
    return n;
}

/* The new places are sorted behind where the old ones can reach, and merged from there to the beginning of the array:
 * a merged place never overtakes a new one that is still unread. */
void rimf_table_index(struct rimf_table *table, const struct rimf_table *old, uint64_t update,
                      struct rimf_object *const *added, size_t n_added)
{
    struct rimf_place *fresh = table->places + old->n_places;
    size_t n_new = 0, from = 0, to = 0;

    for (size_t i = 0; i < n_added; i++)
        n_new += places_of(added[i], fresh + n_new);
    rimf_sort(fresh, n_new, sizeof *fresh);
    for (size_t i = 0; i < old->n_places; i++) {
        if (old->places[i].object->seen != update)
            continue;
        while (from < n_new && fresh[from].start < old->places[i].start)
            table->places[to++] = fresh[from++];
        table->places[to++] = old->places[i];
    }
    while (from < n_new)
        table->places[to++] = fresh[from++];
    table->n_places = to;
}

struct rimf_object *rimf_table_find(const struct rimf_table *table, uintptr_t address)
{
    size_t begun = RIMF_BISECT(i, table->n_places, table->places[i].start <= address);
    struct rimf_object *object = begun ? table->places[begun - 1].object : NULL;

    return object && elf_segment_at(&object->view, address) ? object : NULL;
}

const struct mvld_object *const *rimf_image_objects(const struct mvld_image *image, size_t *n)
{
    const struct rimf_table *table = rimf_table_enter(image);
    const struct mvld_object *const *objects = (const struct mvld_object *const *)table->objects;

    *n = table->n_objects;
    rimf_table_leave(image); /* the updater itself reads */
    return objects;
}

void rimf_table_publish(struct mvld_image *image, struct rimf_table *table)
{
    struct rimf_table *old = image->table;

    __atomic_store_n(&image->table, table, __ATOMIC_SEQ_CST);
    old->next_retired = image->retired;
    image->retired = old;
    /* Later readers find the new table. */
    if (__atomic_load_n(&image->readers, __ATOMIC_SEQ_CST))
        return;
    while (image->retired) {
        struct rimf_table *next = image->retired->next_retired;

        rimf_heap_give(&image->heap, image->retired);
        image->retired = next;
    }
}

/* ---- one object --------------------------------------------------------------------------------
 *
 * Describes an object from its program headers.
 */

/* Why passes must not change the object, or NULL. */
static const char *untouchable(const struct rimf_object *object)
{
    if (object->public.flags & MVLD_OBJECT_VDSO)
        return "it belongs to the kernel";
    if (object->public.flags & MVLD_OBJECT_LOADER)
        return "it is the host loader";
    if (object->view.text_relocations)
        return "it has text relocations";
    for (size_t i = 0; i < object->view.n_segments; i++)
        if ((object->view.segments[i].prot & (PROT_WRITE | PROT_EXEC)) == (PROT_WRITE | PROT_EXEC))
            return "it has a segment that is writable and executable";
    return NULL;
}

static void describe(struct rimf_object *object)
{
    const struct elf_view *view = &object->view;
    struct mvld_object *public = &object->public;
    size_t id_size;
    const uint8_t *id = elf_build_id(view, &id_size);

    public->start = view->segments[0].start;
    public->end = view->segments[view->n_segments - 1].end;
    public->segments = view->segments;
    public->n_segments = view->n_segments;
    public->dynamic = view->dynamic;
    public->phdr = view->phdr;
    public->phnum = view->phnum;
    if (id && id_size <= RIMF_BUILD_ID_MAX) {
        memcpy(object->build_id, id, id_size);
        public->build_id = object->build_id;
        public->build_id_size = id_size;
    }
    public->why = untouchable(object);
}

static void make_opaque(struct rimf_object *object, const char *why)
{
    memset(&object->view, 0, sizeof object->view);
    object->view.bias = object->public.bias;
    object->public.flags |= MVLD_OBJECT_OPAQUE;
    object->public.why = why;
}

struct rimf_object *rimf_object_create(struct mvld_image *image, const struct rimf_source *source)
{
    struct elf_view view;
    const char *why = NULL, *name = source->name && *source->name ? source->name : "(no name)";
    long probed = elf_view_probe(&view, image->sys, source, &why);
    size_t n_segments = probed > 0 ? (size_t)probed : 0;
    size_t n_sections = n_segments + 2, name_size = rimf_strlen(name) + 1;
    struct mvld_segment *segments;
    struct rimf_object *object =
        rimf_heap_take(&image->heap, sizeof *object + n_segments * sizeof *segments +
                                          n_sections * sizeof(struct mvld_section) + name_size);

    if (!object)
        return NULL;
    segments = (struct mvld_segment *)(object + 1);
    object->sections = (struct mvld_section *)(segments + n_segments);
    object->view = view;
    object->dynamic = source->dynamic;
    object->public = (struct mvld_object){
        .flags = source->flags & ~MVLD_OBJECT_OPAQUE,
        .name = memcpy(object->sections + n_sections, name, name_size),
        .bias = source->bias,
        .link_map = source->link_map,
    };
    if (source->file) {
        object->file.id = *source->file;
        object->file.known = 1;
    }
    if (probed < 0 || elf_view_open(&object->view, source, segments, n_segments, &why)) {
        make_opaque(object, why);
        return object;
    }
    describe(object);
    rimf_sections_fill(object);
    return object;
}

/* ---- domains -----------------------------------------------------------------------------------
 *
 * An object has the number of its domain.  The image has their names, but for that of domain 0.
 */

long rimf_domain_add(struct mvld_image *image, const char *name)
{
    int error = rimf_only_in(image, RIMF_STAGE_RUN, "domain_add");
    char *own;

    if (error)
        return error;
    if (!name)
        return rimf_fail(image, EINVAL, "a domain has no name");
    if (image->n_domains + 1 == MVLD_DOMAINS_MAX)
        return rimf_fail(image, E2BIG, "the domain %s: there are %u already", name, MVLD_DOMAINS_MAX);
    own = rimf_heap_copy(&image->heap, name);
    if (!own || !RIMF_ONE_MORE(&image->heap, image->domains, image->n_domains, image->domains_room, 4)) {
        rimf_heap_release(&image->heap, own);
        return -ENOMEM;
    }
    image->domains[image->n_domains++] = own;
    return (long)image->n_domains;
}

size_t rimf_domain_of(const struct mvld_object *object)
{
    return rimf_is_object(object) ? rimf_object_of(object)->domain.now : 0;
}

int rimf_domain_move(struct mvld_image *image, const struct mvld_object *object, size_t domain)
{
    struct rimf_object *private = (struct rimf_object *)rimf_object_of(object);
    int error = rimf_only_in(image, RIMF_STAGE_RUN, "domain_move");

    if (error)
        return error;
    if (!rimf_is_object(object))
        return rimf_fail(image, EINVAL, "no object moves to domain %zu", domain);
    if (domain > image->n_domains)
        return rimf_fail(image, EINVAL, "%s: there is no domain %zu", object->name, domain);
    if (private->gone)
        return -ENOENT;
    if (private->domain.by != image->running)
        private->domain.found = private->domain.now;
    private->domain.by = image->running;
    private->domain.now = domain;
    return 0;
}

void rimf_domain_take_back(struct rimf_object *object, const struct mvld_context *ctx)
{
    if (object->domain.by != ctx)
        return;
    object->domain.by = NULL;
    object->domain.now = object->domain.found;
}

/* ---- printing ------------------------------------------------------------------------------- */

static const char *const kinds[] = {
    [MVLD_SECTION_CODE] = "code",
    [MVLD_SECTION_DATA] = "data",
    [MVLD_SECTION_RODATA] = "rodata",
    [MVLD_SECTION_RELRO] = "relro",
};

static void print_build_id(const struct rimf_log *log, const struct mvld_object *object)
{
    char text[2 * RIMF_BUILD_ID_MAX + 1];

    if (!object->build_id)
        return;
    for (size_t i = 0; i < object->build_id_size; i++)
        rimf_format(text + 2 * i, 3, "%02x", object->build_id[i]);
    rimf_log(log, MVLD_LOG_IMAGE, "    build-id %s", text);
}

static void print_object(const struct rimf_log *log, const struct rimf_object *object)
{
    const struct mvld_object *public = &object->public;
    uint32_t flags = public->flags;

    rimf_log(log, MVLD_LOG_IMAGE, "  object %s, bias 0x%lx%s%s%s%s%s", public->name,
             (unsigned long)public->bias, flags & MVLD_OBJECT_MAIN ? ", executable" : "",
             flags & MVLD_OBJECT_VDSO ? ", vdso" : "",
             flags & MVLD_OBJECT_LOADER ? ", host loader" : "",
             flags & MVLD_OBJECT_OPAQUE ? ", opaque" : "",
             flags & MVLD_OBJECT_UNPLACED ? ", unplaced" : "");
    if (public->why)
        rimf_log(log, MVLD_LOG_IMAGE, "    not transformed: %s", public->why);
    print_build_id(log, public);
    for (size_t i = 0; i < object->n_sections; i++) {
        const struct mvld_section *section = &object->sections[i];

        rimf_log(log, MVLD_LOG_IMAGE, "    %016lx-%016lx %c%c%c %s",
                 (unsigned long)section->address,
                 (unsigned long)(section->address + section->size),
                 section->prot & PROT_READ ? 'r' : '-', section->prot & PROT_WRITE ? 'w' : '-',
                 section->prot & PROT_EXEC ? 'x' : '-', kinds[section->kind]);
    }
}

void rimf_image_print(const struct mvld_image *image)
{
    const struct rimf_table *table;

    if (!rimf_log_enabled(image->log, MVLD_LOG_IMAGE))
        return;
    table = rimf_table_enter(image);
    for (size_t d = 0; d <= image->n_domains; d++) {
        rimf_log(image->log, MVLD_LOG_IMAGE, "domain %zu %s", d, d ? image->domains[d - 1] : "process");
        for (size_t i = 0; i < table->n_objects; i++)
            if (table->objects[i]->domain.now == d)
                print_object(image->log, table->objects[i]);
    }
    rimf_table_leave(image);
}
