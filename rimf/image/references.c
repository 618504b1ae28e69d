/* SPDX-License-Identifier: MIT
 *
 * rimf/image/references.c: finds the analyses of objects, which have their references
 * (image/reference_tables.c).
 *
 * An analysis is of one file, byte for byte.  Whether that is the mapped file is decided so:
 *
 *     the feeder saw from which file the object was mapped, and that file
 *     was analysed (file_id.h)                                             yes; if code is to
 *     move, only if none of its pages was written since
 *     else: the hashes of the segments in memory that nobody writes are those
 *     of the analysis                                                      yes
 *     else                                                                 no
 *
 * The path does not matter: another file may have it now.  The hash is of memory before any patch, so the
 * first query should be for all objects: if a pass or a debugger changed code before, a copied file looks
 * like another one.
 */
#include "rimf/image/private.h"

#include "rimf/base/base.h"
#include "rimf/image/original.h"
#include "rimf/patch/patch.h"
#include "rimf/base/status.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

struct opened_analysis {
    struct analysis_file file;
    const char *why; /* why there is none, or NULL */
    uint32_t key;    /* rimf_analysis_key */
};

/* Leaves out a last folder whose path somebody else can change. */
static void ask_of_places(struct rimf_feeder *feeder)
{
    if (feeder->is_steered && feeder->n_analyses &&
        feeder->is_steered(feeder->cookie, feeder->analyses[feeder->n_analyses - 1].folder))
        feeder->n_analyses--;
    feeder->is_steered = NULL;
}

/* Each analysed executable segment is one of the object's, and the object has no other. */
static int same_segments(const struct rimf_object *object, const struct analysis *s)
{
    const struct elf_view *view = &object->view;
    size_t n = 0;

    for (size_t i = 0; i < view->phnum; i++) {
        const Elf64_Phdr *phdr = &view->phdr[i];

        if (phdr->p_type != PT_LOAD || !(phdr->p_flags & PF_X) || !phdr->p_filesz)
            continue;
        if (n >= s->n_segments || s->segments[n].start != phdr->p_vaddr ||
            s->segments[n].size != phdr->p_filesz)
            return 0;
        n++;
    }
    return n == s->n_segments;
}

static int same_constants(const struct elf_view *view, uint64_t expected)
{
    uint64_t hash = 0;

    for (size_t i = 0; i < view->phnum; i++) {
        const Elf64_Phdr *ph = &view->phdr[i];
        uintptr_t at = view->bias + ph->p_vaddr;

        if (!analysis_is_constants(ph))
            continue;
        if (!elf_holds(view, at, ph->p_filesz, PROT_READ))
            return 0;
        hash = rimf_mix(hash, rimf_hash((const void *)at, ph->p_filesz));
    }
    return hash == expected;
}

static int same_bytes(const struct rimf_object *object, const struct analysis *s)
{
    for (size_t i = 0; i < s->n_segments; i++) {
        uintptr_t at = object->view.bias + s->segments[i].start;

        if (!elf_holds(&object->view, at, s->segments[i].size, PROT_READ | PROT_EXEC) ||
            rimf_hash((const void *)at, s->segments[i].size) != s->segments[i].hash)
            return 0;
    }
    return same_constants(&object->view, s->header->constants_hash);
}

static int is_unwritten(const struct mvld_image *image, const struct rimf_object *object,
                        const struct analysis *s)
{
    for (size_t i = 0; i < s->n_segments; i++)
        if (!status_is_unwritten(image->sys, object->view.bias + s->segments[i].start,
                                 s->segments[i].size))
            return 0;
    return 1;
}

/* If code may move, knowing the file is not enough: a probe of the kernel, or of a debugger that has gone,
 * would move with it.  The kernel tells for each page whether it was written, thirty times faster than a
 * hash. */
static int is_other_code(const struct mvld_image *image, struct rimf_object *object,
                         const struct analysis *s)
{
    int same_file = object->file.known && file_id_same(&s->header->identity, &object->file.id);

    if (same_file && (!image->feeder.caller_hooks || object->code.known))
        return 0;
    if (object->code.analysis == analysis_key(s->header)) /* passes may have changed the bytes since */
        return 0;
    if (!(same_file && is_unwritten(image, object, s)) && !same_bytes(object, s))
        return 1;
    object->code.known = 1;
    object->code.analysis = analysis_key(s->header);
    return 0;
}

static const char *open_analysis(struct mvld_image *image, struct rimf_object *object,
                                 struct analysis_file *file)
{
    const char *why = NULL;

    if (object->public.flags & MVLD_OBJECT_OPAQUE)
        return object->public.why;
    if (!object->public.build_id)
        return "it has no build-id";
    ask_of_places(&image->feeder);
    if (analysis_find(file, image->sys, image->feeder.analyses, image->feeder.n_analyses,
                     object->public.build_id, object->public.build_id_size,
                     ANALYSIS_WANT(ANALYSIS_CALLS), &why))
        return why;
    why = NULL;
    if (!same_segments(object, &file->view))
        why = "it is of an object with other segments";
    else if (is_other_code(image, object, &file->view))
        why = "it is of an object with other code or constants";
    if (why)
        analysis_unmap(file, image->sys);
    return why;
}

/* Whoever asks may have no use for the reason: the log has it. */
static void note_why(const struct mvld_image *image, struct rimf_object *object, const char *why)
{
    object->analysis->why = why;
    if (why)
        rimf_log(image->log, MVLD_LOG_FILES, "%s: no analysis: %s", object->public.name, why);
}

static struct opened_analysis *analysis_of(struct mvld_image *image, struct rimf_object *object)
{
    if (object->analysis)
        return object->analysis;
    object->analysis = rimf_heap_alloc(&image->heap, sizeof *object->analysis);
    if (object->analysis)
        note_why(image, object, open_analysis(image, object, &object->analysis->file));
    if (object->analysis && object->public.build_id && !(object->public.flags & MVLD_OBJECT_OPAQUE))
        object->analysis->key = object->analysis->why ? ANALYSIS_LACKS
                                                      : analysis_key(object->analysis->file.view.header);
    return object->analysis;
}

uint32_t rimf_analysis_key(const struct mvld_object *object)
{
    const struct rimf_object *own = rimf_object_of(object);

    return own->analysis ? own->analysis->key : 0;
}

void rimf_image_close_analyses(struct mvld_image *image)
{
    const struct rimf_table *table = rimf_table_enter(image);

    for (size_t i = 0; i < table->n_objects; i++) {
        struct rimf_object *object = table->objects[i];

        rimf_heap_release(&image->heap, object->words);
        object->words = NULL;
        rimf_heap_release(&image->heap, object->named);
        object->named = NULL;
        if (!object->analysis)
            continue;
        analysis_unmap(&object->analysis->file, image->sys);
        rimf_heap_release(&image->heap, object->analysis);
        object->analysis = NULL;
    }
    rimf_table_leave(image);
    if (!image->removals.list && !image->bound.set.n)
        return;
    rimf_heap_release(&image->heap, image->removals.list);
    rimf_address_set_clear(&image->removals.entries, &image->heap);
    image->removals = (struct rimf_removals){.n = 0};
    rimf_address_set_clear(&image->bound.set, &image->heap);
}

const struct analysis *rimf_analysis_calls(struct mvld_image *image, struct rimf_object *object,
                                          const char **why)
{
    struct opened_analysis *analysis = analysis_of(image, object);
    const char *own = analysis ? analysis->why : "out of memory";

    if (why)
        *why = own;
    return own ? NULL : &analysis->file.view;
}

/* Opens other tables of the same file.  Whether the analysis fits was checked when it was opened, and cannot
 * be checked again: passes may have changed the code since.  If one of them is damaged, the others stay open:
 * a caller may be walking them. */
static const struct analysis *open_more(struct mvld_image *image, struct rimf_object *object,
                                       uint32_t wanted, const char **why)
{
    const struct analysis *s = rimf_analysis_calls(image, object, why);
    struct analysis more;
    const char *damage;

    if (!s || !(wanted & ~s->opened))
        return s;
    more = *s;
    if (analysis_open_more(&more, wanted, &damage)) {
        object->analysis->key = ANALYSIS_LACKS;
        note_why(image, object, damage);
        return rimf_analysis_calls(image, object, why);
    }
    object->analysis->file.view = more;
    return s;
}

const struct analysis *rimf_analysis_whole(struct mvld_image *image, struct rimf_object *object,
                                          const char **why)
{
    return open_more(image, object, ANALYSIS_WANT_ALL & ~ANALYSIS_WANT(ANALYSIS_BRANCHES), why);
}

const struct analysis *rimf_analysis_branches(struct mvld_image *image, struct rimf_object *object,
                                             const char **why)
{
    return open_more(image, object, ANALYSIS_WANT_ALL, why);
}
