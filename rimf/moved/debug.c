/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/debug.c: tells debuggers about moved code, by GDB's JIT interface: a list of ELF files in memory
 * (symfile.h).
 *
 *     names ready         each object's analysis has its symbol table: a file for each, of which only
 *                         the head is written here.  The analysis' pages with the table are moved
 *                         behind it, and never touched unless somebody looks.
 *     else                one file for all objects of the batch, made here
 *
 *     frames:          table →      ← heads | symbols, names | symbols, names | .eh_frame of moved code →
 *
 * Names are ready for objects in one fragment, if no pass has such names: it may be looking up functions, and
 * meanwhile need what earlier passes want.  Code without space for its names has none.
 */
#include "rimf/moved/symfile.h"

#include "rimf/base/base.h"
#include "rimf/moved/moved.h"
#include "rimf/image/private.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

struct jit_entry {
    struct jit_entry *next, *before;
    const void *file;
    uint64_t size;
};

struct jit_descriptor {
    uint32_t version, action; /* 1; 1: an entry was added */
    struct jit_entry *at_hand, *first;
};

/* A debugger that attaches walks the list; an attached one has a breakpoint in a function that we call after
 * each change. */
struct debugger {
    struct mvld_image *image;
    struct jit_descriptor *descriptor;
    void (*changed)(void);
};

static void announce(const struct debugger *d, struct jit_entry *entry, uintptr_t file)
{
    struct jit_descriptor *descriptor = d->descriptor;

    *entry = (struct jit_entry){.next = descriptor->first, .file = (const void *)file,
                                .size = d->image->moved->frames_end - file};
    if (entry->next)
        entry->next->before = entry;
    descriptor->first = descriptor->at_hand = entry;
    descriptor->action = 1;
    d->changed();
}

/* The lowest address of files.  Half of the space is reserved for the table that unwinders search: code can
 * do without names, but not without that. */
static uintptr_t lowest(const struct moved_code *moved)
{
    size_t table = moved_frames_searched(moved->n_frames);
    size_t half = rimf_page_up(moved_frames_table(&moved->region) / 2);

    return moved->region.frames + (table > half ? table : half);
}

static int no_memory(struct mvld_image *image)
{
    return rimf_fail(image, ENOMEM, "there is no memory for the names of moved code");
}

/* Opens memory from there to the earlier files.  0, or negative errno. */
static int open_room(struct mvld_image *image, uintptr_t at, uintptr_t end)
{
    long error = moved_pages_small(image, at, end, PROT_READ | PROT_WRITE);

    return sys_failed(error) ? no_memory(image) : 0;
}

static int no_room(struct mvld_image *image)
{
    return rimf_fail(image, ENOSPC, "the region has no room for the names of moved code");
}

/* ---- tables of the analyses --------------------------------------------------------------------------- */

/* State for the first fragment without names and those after it. */
struct ready {
    const struct debugger *d;
    struct jit_entry *entries;
    uintptr_t at, names, end; /* the next head; its symbols; the end of all */
    size_t without;
};

static struct rimf_object *object_at(const struct moved_code *moved, size_t i)
{
    return moved_is_first(moved, i) ? (struct rimf_object *)moved->list[i].object : NULL;
}

/* The number of objects, and bytes of pages; 0: one has no ready symbols. */
static size_t count_ready(struct mvld_image *image, size_t *size)
{
    const struct moved_code *moved = image->moved;
    struct analysis_names names;
    size_t n = 0;

    *size = 0;
    for (size_t i = moved->n_named; i < moved->n; i++) {
        struct rimf_object *object = object_at(moved, i);

        if (!object)
            continue;
        if (object->n_fragments != 1 || object->names_lent || !rimf_analysis_names(image, object, &names))
            return 0;
        *size += names.size;
        n++;
    }
    return n;
}

/* Its symbols are at `names` now. */
static void write_head(const struct ready *r, const struct rimf_object *object,
                       const struct analysis_names *names)
{
    const struct moved_code *moved = r->d->image->moved;
    const struct moved_fragment *fragment = &moved->list[object->moved - 1];
    uintptr_t code = object->view.bias + names->first + (fragment->at - fragment->original);
    /* Includes frames that no object describes, which precede the first one's. */
    uintptr_t frames = object->moved - 1 == moved->n_named ? moved->frames_named : object->frames;

    symfile_head((void *)r->at, &(struct symfile_parts){
        .type = ET_REL,
        .code = code,
        .code_size = fragment->at + fragment->code - code,
        .frames = frames,
        .frames_size = object->frames + object->frames_size - frames,
        .frames_offset = frames - r->at,
        .symbols_offset = r->names - r->at,
        .symbols_size = names->symbols_size,
        .names_offset = r->names + names->names - r->at,
        .names_size = names->names_size,
        .sections_offset = SYMFILE_HEAD - SYMFILE_SECTIONS,
    });
}

static void add_ready(struct ready *r, struct rimf_object *object)
{
    struct mvld_image *image = r->d->image;
    struct analysis_names names;
    long error;

    if (!rimf_analysis_names(image, object, &names) || names.size > r->end - r->names) {
        r->without++;
        return;
    }
    error = SYS6(image->sys, SYS_mremap, names.pages, names.size, names.size,
                 MREMAP_MAYMOVE | MREMAP_FIXED, r->names, 0);
    if (sys_failed(error)) { /* the addresses belong to the region, whatever is mapped there now */
        moved_pages_small(image, r->names, r->names + names.size, PROT_READ);
        r->without++;
        return;
    }
    rimf_analysis_without_names(object);
    write_head(r, object, &names);
    announce(r->d, r->entries++, r->at);
    r->at += SYMFILE_HEAD;
    r->names += names.size;
}

/* 1: done, or failed, with the error in *error; 0: names are not ready. */
static int report_ready(const struct debugger *d, int *error)
{
    struct mvld_image *image = d->image;
    struct moved_code *moved = image->moved;
    size_t size, n = count_ready(image, &size), heads = rimf_page_up(n * SYMFILE_HEAD);
    struct ready r = {.d = d, .end = moved->names};

    if (!n)
        return 0;
    if (r.end <= lowest(moved) + heads)
        return *error = no_room(image), 1;
    if (size > r.end - lowest(moved) - heads)
        size = r.end - lowest(moved) - heads;
    r.names = r.end - size;
    r.at = r.names - heads;
    r.entries = rimf_heap_alloc(&image->heap, n * sizeof *r.entries);
    *error = r.entries ? open_room(image, r.at, r.names) : no_memory(image);
    if (*error)
        return 1;
    moved->names = r.at;
    for (size_t i = moved->n_named; i < moved->n; i++)
        if (object_at(moved, i))
            add_ready(&r, object_at(moved, i));
    sys_mprotect(image->sys, moved->names, heads, PROT_READ);
    if (r.without)
        rimf_log(image->log, MVLD_LOG_PASSES, "the moved code of %zu objects has no names: the region "
                 "has no room for them", r.without);
    return 1;
}

/* ---- made here ------------------------------------------------------------------------ */

/* 0, or negative errno. */
static int make(struct mvld_image *image, struct symfile *file, uintptr_t *at)
{
    struct moved_code *moved = image->moved;
    uintptr_t end = moved->names;
    int error;

    if (end < lowest(moved) || symfile_size(file) > end - lowest(moved))
        return no_room(image);
    *at = rimf_page_down(end - symfile_size(file));
    file->frames_offset = file->frames - *at;
    error = open_room(image, *at, end);
    if (error)
        return error;
    error = symfile_write(image, file, (void *)*at);
    sys_mprotect(image->sys, *at, end - *at, PROT_READ);
    return error;
}

static int report_made(const struct debugger *d, const struct rimf_described *functions, size_t n)
{
    struct mvld_image *image = d->image;
    struct moved_code *moved = image->moved;
    struct jit_entry *entry = rimf_heap_alloc(&image->heap, sizeof *entry);
    struct symfile file = {.first = moved->n_named, .end = n ? moved->n_named : moved->n,
                           .functions = functions, .n_functions = n,
                           .frames = moved->frames_named,
                           .frames_size = moved->frames_end - moved->frames_named};
    uintptr_t at = 0;
    int error = entry ? symfile_open(image, &file) : no_memory(image);

    if (!error)
        error = make(image, &file, &at);
    symfile_close(image, &file);
    if (error) {
        rimf_heap_release(&image->heap, entry);
        return error;
    }
    moved->names = at;
    announce(d, entry, at);
    return 0;
}

/* The library of the region has the descriptor. */
static int find_descriptor(struct mvld_image *image, struct debugger *d)
{
    const struct mvld_object *owner = rimf_object_find(image, image->moved->region.code);
    struct mvld_symbol descriptor, changed;

    if (!owner || rimf_symbol_find(owner, MOVED_JIT, NULL, &descriptor) ||
        rimf_symbol_find(owner, MOVED_JIT_CHANGED, NULL, &changed) ||
        !rimf_object_holds(owner, descriptor.address, sizeof *d->descriptor, PROT_READ | PROT_WRITE) ||
        !rimf_object_holds(owner, changed.address, 1, PROT_READ | PROT_EXEC))
        return rimf_fail(image, ENOENT, "the library to which code moves has no descriptor for debuggers");
    d->descriptor = (struct jit_descriptor *)descriptor.address;
    d->changed = (void (*)(void))changed.address;
    return 0;
}

int moved_names_debug(struct mvld_image *image, const struct rimf_described *functions, size_t n)
{
    struct moved_code *moved = image->moved;
    struct debugger d = {.image = image};
    int error;

    if (moved->n == moved->n_named && !n)
        return 0;
    error = find_descriptor(image, &d);
    if (!error && (n || image->filtered || !report_ready(&d, &error))) /* which uses mremap */
        error = report_made(&d, functions, n);
    if (error)
        return error;
    moved->n_named = n ? moved->n_named : moved->n;
    moved->frames_named = moved->frames_end;
    return 0;
}
