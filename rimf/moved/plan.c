/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/plan.c: decides which code moves, and its new address (moved/moved.h has the picture).
 */
#include "rimf/moved/moved.h"

#include "rimf/base/base.h"
#include "rimf/image/private.h"
#include "rimf/x86/decode.h"

#include "mvld/descriptor.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

#define LIST_AT_FIRST 16u

/* The end of the last movable unit, as linked; 0: there is none. */
static uint32_t movable_end(const struct analysis *s)
{
    size_t n = s->n_units;

    while (n && s->units[n - 1].reason != ANALYSIS_PROVEN)
        n--;
    return n ? s->units[n - 1].start + s->units[n - 1].size : 0;
}

/* Why an object with this analysis stays, or NULL. */
static const char *stays_as_analysed(const struct rimf_object *object, const struct analysis *s)
{
    if (object->public.flags & (MVLD_OBJECT_VDSO | MVLD_OBJECT_LOADER))
        return "it is the host loader, or of the kernel";
    if (object->public.flags & MVLD_OBJECT_UNPLACED)
        return "it lies elsewhere each time, and is not for a snapshot";
    if (s->header->flags & ANALYSIS_FIXED)
        return "it is linked at a fixed address";
    if (s->header->flags & ANALYSIS_TEXTREL || object->view.text_relocations)
        return "relocations change its code";
    if (s->header->flags & ANALYSIS_RESTARTS)
        return "it has restartable sequences";
    if (s->header->flags & ANALYSIS_PROFILED)
        return "it, a profiler or a sanitizer may identify its code by address";
    if (s->header->flags & ANALYSIS_LOOKED_UP)
        return "tables hold return addresses of its code";
    if (s->header->flags & ANALYSIS_MAPS)
        return "it reads /proc/self/maps, perhaps to find its own file";
    return NULL;
}

static struct moved_fragment *next_fragment(struct mvld_image *image)
{
    struct moved_code *moved = image->moved;

    if (moved->n_planned == moved->room) {
        size_t room = moved->room ? 2 * moved->room : LIST_AT_FIRST;
        struct moved_fragment *list = rimf_heap_alloc(&image->heap, room * sizeof *list);

        if (!list)
            return NULL;
        /* The old list is not released: a signal handler may be reading it.  All old ones together are
         * smaller than the new one. */
        if (moved->n_planned)
            memcpy(list, moved->list, moved->n_planned * sizeof *list);
        __atomic_store_n(&moved->list, list, __ATOMIC_RELEASE);
        moved->room = room;
    }
    return &moved->list[moved->n_planned];
}

/* Returns 1 if four bytes hold every distance between the fragment and the rest of its object. */
static int reaches(const struct moved_fragment *fragment)
{
    const struct mvld_object *public = &fragment->object->public;

    return fragment->at < public->start ? public->end - fragment->at <= INT32_MAX
                                    : fragment->at + fragment->size - public->start <= INT32_MAX;
}

/* The size of the jump tables behind the first movable code. */
static size_t tables_size(const struct analysis *s)
{
    size_t size = 0;

    for (size_t i = 0; i < s->n_jump_tables; i++)
        size += s->jump_tables[i].count * sizeof(int32_t);
    return size;
}

/* A planned move: code of an object, all that can move or a fragment. */
struct wanted {
    struct mvld_image *image;
    struct rimf_object *object;
    uint32_t start;  /* as linked */
    size_t code, tables; /* bytes of code; bytes of jump tables behind it */
    uintptr_t gap;   /* from what was planned before */
    unsigned in_line; /* offset in a cache line of its start */
    int is_hot;
    const char *why;
};

/* The address behind all present and planned code. */
static uintptr_t place(const struct wanted *w)
{
    const struct moved_code *moved = w->image->moved;
    const struct moved_fragment *last = moved->n_planned ? &moved->list[moved->n_planned - 1] : NULL;
    uintptr_t at = moved->code_end > moved->first ? moved->code_end : moved->first;

    at = (moved->n_planned > moved->n ? last->at + last->size : at) + w->gap;
    if (rimf_image_learns(w->image) && !w->object->moved)
        at = rimf_page_up(at); /* no other code's page */
    return at + (w->in_line - at) % RIMF_MOVED_LINE;
}

static int refuse(struct wanted *w, int error, const char *why)
{
    w->why = why;
    return error;
}

/* The sentence that names another pass that moved it. */
static const char *has_moved(const struct wanted *w)
{
    const struct mvld_context *by = w->image->moved->list[w->object->moved - 1].mover;

    if (!by || by == w->image->moved->mover)
        return "it has moved";
    rimf_format(w->image->error, sizeof w->image->error, "the pass '%s' moves it", by->pass);
    return w->image->error;
}

static int plan(struct wanted *w)
{
    struct moved_code *moved = w->image->moved;
    struct moved_fragment *fragment = next_fragment(w->image);
    uintptr_t at = fragment ? place(w) : 0;

    if (!fragment)
        return refuse(w, -ENOMEM, "memory is short");
    *fragment = (struct moved_fragment){.object = w->object, .mover = moved->mover,
                                        .original = w->object->view.bias + w->start,
                                        .at = at, .code = w->code, .size = w->code + 1};
    if (w->tables)
        fragment->size = moved_tables_at(fragment) - fragment->at + w->tables;
    if (at < moved->region.code || at - moved->region.code > moved->region.code_size ||
        fragment->size > moved->region.code_size - (at - moved->region.code))
        return refuse(w, -ENOSPC, "the region is full");
    if (!reaches(fragment))
        return refuse(w, -ERANGE, "it is farther than 2 GiB from the region");
    if (moved_note(w->image, w->object, moved->n_planned))
        return refuse(w, -ENOMEM, "memory is short");
    moved->n_planned++;
    if (w->is_hot && moved->hot_wanted)
        moved->hot_end = at + fragment->size;
    return 0;
}

/* Without a pass that knows about moved code, libmultiverse patches: only the originals. */
static const char *is_patched(struct mvld_image *image, const struct rimf_object *object)
{
    int noted;

    if (image->feeder.planned && image->feeder.planned(image->feeder.pipeline, MVLD_PASS_VARIANTS))
        return NULL;
    noted = rimf_note_each(&object->public, MULTIVERSE_NOTE_NAME, MULTIVERSE_NOTE_TABLES, NULL, NULL);
    return noted > 0   ? "its code is patched at run time, by no pass (multiverse)"
           : noted < 0 ? "its notes do not say whether its code is patched at run time (multiverse)"
                       : NULL;
}

static const char *stays(struct mvld_image *image, const struct rimf_object *object)
{
    const struct moved_code *moved = image->moved;

    if (object->public.why)
        return object->public.why;
    if (moved && rimf_object_find(image, moved->region.code) == &object->public)
        return "it is where moved code goes";
    if (object->code.patched) {
        rimf_format(image->error, sizeof image->error, "the pass '%s' changed its code", object->code.patched_by->pass);
        return image->error;
    }
    return is_patched(image, object);
}

/* A function that a pass removed (code/remove.c): its code begins with a trap, or with a call and ud2.  Others that
 * look like that are few. */
static int begins_with_trap(const uint8_t *code, size_t size)
{
    size_t head = endbr64_size(code, size);

    return (head < size && code[head] == 0xcc) ||
           (size >= head + 7 && code[head] == 0xe8 && code[head + 5] == 0x0f && code[head + 6] == 0x0b);
}

/* Nothing in this process names the functions that a snapshot lacks, and what the analysis lists in them is not
 * there. */
static int lacks_functions(const struct rimf_object *object, const struct analysis *s)
{
    size_t i = object->number ? 0 : s->n_units;

    while (i < s->n_units &&
           (s->units[i].reason != ANALYSIS_PROVEN ||
            !begins_with_trap((const uint8_t *)object->view.bias + s->units[i].start, s->units[i].size)))
        i++;
    return i < s->n_units;
}

/* Checks for any object first, and the expensive ones for the first fragment only: returns its analysis, or
 * NULL with the sentence. */
static const struct analysis *movable(struct mvld_image *image, struct rimf_object *object,
                                     int in_fragments, const char **why)
{
    const struct analysis *s = NULL;

    *why = object->moved ? NULL : stays(image, object);
    if (!*why)
        s = in_fragments ? rimf_analysis_branches(image, object, why)
                         : rimf_analysis_whole(image, object, why);
    if (s)
        *why = stays_as_analysed(object, s);
    if (s && !*why && !object->moved && lacks_functions(object, s))
        *why = "functions of it were removed, in its snapshot";
    return *why ? NULL : s;
}

/* Plans one fragment, or neighbours. */
static int want_fragment(struct wanted *w, const struct mvld_fragment *fragment, uint32_t flags)
{
    const struct analysis *s = movable(w->image, w->object, 1, &w->why);

    w->start = (uint32_t)(fragment->original - w->object->view.bias);
    w->code = fragment->size;
    w->is_hot = flags & MVLD_MOVE_HOT;
    if (!s)
        return -ENODATA;
    if (w->object->moved && w->object->moved <= w->image->moved->n)
        return refuse(w, -ENOTSUP, has_moved(w));
    if (w->start != fragment->original - w->object->view.bias ||
        !moved_is_fragment(s, w->start, fragment->size))
        return refuse(w, -EINVAL, "it cannot be cut there");
    if (!elf_holds(&w->object->view, fragment->original, fragment->size, PROT_READ | PROT_EXEC))
        return refuse(w, -ENOTSUP, "its functions lie in several segments");
    w->tables = w->start == analysis_first_movable(s) ? tables_size(s) : 0;
    w->in_line = w->is_hot ? moved_in_line(w->object, fragment->original, fragment->size)
                           : fragment->original % RIMF_MOVED_LINE;
    return 0;
}

/* Plans all code that can move, as one block. */
static int want_all(struct wanted *w)
{
    const struct analysis *s = movable(w->image, w->object, 0, &w->why);
    uint32_t end = s ? movable_end(s) : 0;

    if (!s)
        return -ENODATA;
    if (!end || w->object->moved)
        return refuse(w, -ENOTSUP, end ? has_moved(w) : "no function of it can be moved");
    w->start = analysis_first_movable(s);
    w->code = end - w->start;
    if (!elf_holds(&w->object->view, w->object->view.bias + w->start, w->code, PROT_READ | PROT_EXEC))
        return refuse(w, -ENOTSUP, "its functions lie in several segments");
    /* Rounded down it may be before the segment (lld's begin at any address), in the same page. */
    w->code += w->start % RIMF_MOVED_LINE;
    w->start -= w->start % RIMF_MOVED_LINE;
    w->tables = tables_size(s);
    w->in_line = (w->object->view.bias + w->start) % RIMF_MOVED_LINE;
    return 0;
}

int rimf_fragment_move(struct mvld_image *image, const struct mvld_object *public,
                       const struct mvld_fragment *fragment, size_t gap, uint32_t flags,
                       const char **why)
{
    struct wanted w = {.image = image, .object = (struct rimf_object *)rimf_object_of(public),
                       .gap = gap};
    int error = -EINVAL;

    if (!image || !rimf_is_mapped(public) || !why)
        return -EINVAL;
    if (!image->moved || !image->moved->mover || flags & ~MVLD_MOVE_HOT || gap > MVLD_SECTION_MAX)
        w.why = "no region is open for it";
    else
        error = fragment ? want_fragment(&w, fragment, flags) : want_all(&w);
    error = error ? error : plan(&w);
    *why = w.why;
    return error;
}

size_t rimf_fragments(struct mvld_image *image, const struct mvld_object *public,
                      struct mvld_fragment *fragments, size_t room, const char **why)
{
    struct rimf_object *object = (struct rimf_object *)rimf_object_of(public);
    const struct analysis *s;

    if (!image || !rimf_is_mapped(public) || !why || (room && !fragments))
        return 0;
    s = movable(image, object, 1, why);
    return s ? moved_cut(object, s, fragments, room, why) : 0;
}
