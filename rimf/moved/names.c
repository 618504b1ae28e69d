/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/names.c: names of moved functions, from the analyses of their objects.
 *
 * perf reads these names from a text that it looks for if samples are in anonymous memory:
 *
 *     /tmp/perf-PID.map:     address size name       hexadecimal, a line a function
 *
 * Whoever can write to /tmp may have put another file, or a link, under that name: the file is used only if
 * it is created here, and later if it is still ours.  With raised rights no code moves, so there is no file.
 */
#include "rimf/moved/moved.h"

#include "rimf/base/base.h"
#include "rimf/image/private.h"
#include "rimf/moved/symfile.h"

#include <errno.h>    /* numbers only */
#include <fcntl.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */
#include <sys/stat.h> /* numbers only */

#define MAP_BUFFER 8192u
#define MAP_NAME_MAX 1024u
#define MAP_SIZE_MAX (1ul << 30) /* clang's has 20 MB */

/* One object's. */
struct naming {
    const struct moved_code *moved;
    struct rimf_object *object;
    const struct analysis *analysis;
    uint8_t *is_named; /* for each unit; or NULL */
    moved_names_visitor *visit;
    void *cookie;
};

/* Code that has not moved is skipped, and so is the part of a size in other fragments. */
static void say(const struct naming *n, const char *name, uintptr_t original, size_t size)
{
    const struct moved_fragment *fragment = moved_fragment_at(n->moved, n->object, original);
    size_t room = fragment ? fragment->code - (original - fragment->original) : 0;
    struct mvld_symbol symbol = {
        .name = name,
        .size = size < room ? size : room,
        .type = STT_FUNC,
        .binding = STB_GLOBAL,
        .object = &n->object->public,
    };

    if (!fragment)
        return;
    symbol.address = fragment->at + (original - fragment->original);
    n->visit(n->cookie, &symbol);
}

/* Symbols ascend, as units do: nearly always it is the unit of the last one, or the next.  NULL: none. */
static const struct analysis_unit *unit_near(const struct analysis *s, const struct analysis_unit *last, uint64_t linked)
{
    for (int i = 0; last && i < 2 && last < s->units + s->n_units; i++, last++)
        if (linked - last->start < last->size)
            return last;
    return linked <= UINT32_MAX ? analysis_unit_at(s, (uint32_t)linked) : NULL;
}

/* Entries of the analysis are unchecked. */
static void name_symbols(const struct naming *n)
{
    const struct analysis_unit *unit = NULL;
    struct analysis_symbols in;

    if (!analysis_symbols(n->analysis, &in))
        return;
    for (size_t i = 1; i < in.n; i++) {
        uint64_t linked = in.first + in.list[i].st_value;
        const char *name = in.list[i].st_name < in.names_size ? in.names + in.list[i].st_name : "";

        unit = unit_near(n->analysis, unit, linked);
        if (!*name || !unit || unit->reason != ANALYSIS_PROVEN)
            continue;
        say(n, name, n->object->view.bias + linked, in.list[i].st_size);
        if (n->is_named && linked == unit->start)
            n->is_named[unit - n->analysis->units] = 1;
    }
}

static void name_rest(const struct naming *n)
{
    const struct analysis *s = n->analysis;

    for (size_t i = 0; i < s->n_units; i++)
        if (s->units[i].reason == ANALYSIS_PROVEN && !n->is_named[i])
            say(n, NULL, n->object->view.bias + s->units[i].start, s->units[i].size);
}

int moved_names_of(struct mvld_image *image, const struct rimf_object *object, int unnamed,
                   moved_names_visitor *visit, void *cookie)
{
    struct naming n = {.moved = image->moved, .object = (struct rimf_object *)object,
                       .visit = visit, .cookie = cookie};
    const char *why;

    n.analysis = rimf_analysis_whole(image, n.object, &why);
    if (!n.analysis)
        return rimf_fail(image, ENODATA, "%s: its moved code has no names: %s", object->public.name, why);
    n.is_named = unnamed ? rimf_heap_alloc(&image->heap, n.analysis->n_units) : NULL;
    if (unnamed && !n.is_named)
        return rimf_fail(image, ENOMEM, "there is no memory to name moved code");
    name_symbols(&n);
    if (unnamed)
        name_rest(&n);
    rimf_heap_release(&image->heap, n.is_named);
    return 0;
}

void moved_names_added(const struct mvld_image *image, const struct rimf_described *list, size_t n,
                       moved_names_visitor *visit, void *cookie)
{
    const struct mvld_object *owner = n ? rimf_object_find(image, list->start) : NULL;

    for (size_t i = 0; i < n; i++)
        visit(cookie, &(struct mvld_symbol){.name = list[i].name, .address = list[i].start, .size = list[i].size,
                                            .type = STT_FUNC, .binding = STB_GLOBAL, .object = owner});
}

/* ---- perf -------------------------------------------------------------------------------- */

struct map {
    const struct mvld_image *image;
    int fd, error;
    size_t n;
    char text[MAP_BUFFER];
};

static void flush(struct map *map)
{
    for (size_t done = 0; done < map->n && !map->error;) {
        long n = sys_write(map->image->sys, map->fd, map->text + done, map->n - done);

        if (n > 0)
            done += (size_t)n;
        else if (n != -EINTR)
            map->error = n ? (int)n : -EIO;
    }
    map->n = 0;
}

static void add_line(void *cookie, const struct mvld_symbol *s)
{
    struct map *map = cookie;
    const char *name = s->name ? s->name : rimf_file_name(s->object->name);

    if (map->error || rimf_strlen(name) > MAP_NAME_MAX)
        return;
    if (map->n + MAP_NAME_MAX + 64 > sizeof map->text)
        flush(map);
    map->n += rimf_format(map->text + map->n, sizeof map->text - map->n, "%lx %lx %s", s->address,
                          s->size, name);
    if (!s->name) /* as tools without symbols do */
        map->n += rimf_format(map->text + map->n, sizeof map->text - map->n, "+0x%lx",
                              rimf_original_of(map->image, s->address) - s->object->bias);
    map->text[map->n++] = '\n';
}

/* Creates the file, or opens the one that we made before. */
static long open_map(const struct rimf_sys *sys, int is_first)
{
    char path[40];
    struct stat st;
    long fd;

    if (!sys_file_may_reach(sys, MAP_SIZE_MAX))
        return -EFBIG;
    rimf_format(path, sizeof path, "/tmp/perf-%ld.map", SYS3(sys, SYS_getpid, 0, 0, 0));
    fd = sys_openat(sys, path,
                    O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY |
                        (is_first ? O_CREAT | O_EXCL : 0),
                    0600);
    if (sys_failed(fd) || is_first)
        return fd;
    if (SYS3(sys, SYS_fstat, fd, &st, 0) || !S_ISREG(st.st_mode) || st.st_nlink != 1 ||
        (long)st.st_uid != SYS3(sys, SYS_geteuid, 0, 0, 0)) {
        sys_close(sys, (int)fd);
        return -EPERM;
    }
    return fd;
}

/* Adds all fragments without names. */
static int add_all(struct mvld_image *image, struct map *map)
{
    struct moved_code *moved = image->moved;
    int error = 0;

    for (; moved->n_perf < moved->n && !error; moved->n_perf++) {
        if (moved_is_first(moved, moved->n_perf))
            error = moved_names_of(image, moved->list[moved->n_perf].object, 1, add_line, map);
    }
    return error;
}

int moved_names_perf(struct mvld_image *image, const struct rimf_described *functions, size_t n)
{
    struct map *map = rimf_heap_alloc(&image->heap, sizeof *map);
    long fd = map ? open_map(image->sys, !image->moved->has_perf) : -ENOMEM;
    int error = 0;

    if (sys_failed(fd)) {
        rimf_heap_release(&image->heap, map);
        return rimf_fail(image, (int)-fd,
                         "the map of moved code for perf cannot be made in /tmp (error %ld)", -fd);
    }
    map->image = image;
    map->fd = (int)fd;
    image->moved->has_perf = 1;
    if (n)
        moved_names_added(image, functions, n, add_line, map);
    else
        error = add_all(image, map);
    flush(map);
    if (!error && map->error)
        error = rimf_fail(image, -map->error,
                          "the map of moved code for perf cannot be written (error %d)", -map->error);
    sys_close(image->sys, map->fd);
    rimf_heap_release(&image->heap, map);
    return error;
}

/* ---- debuggers ---------------------------------------------------------------------------------
 *
 * Tells debuggers about moved code, by GDB's JIT interface: a list of ELF files in memory
 * (symfile.h).
 *
 *     frames:          table →        ← symbols, names | symbols, names | .eh_frame of moved code →
 *
 * A batch has one file.  Code without space for its names has none.
 */

struct jit_entry {
    struct jit_entry *next, *before;
    const void *file;
    uint64_t size;
};

struct jit_descriptor {
    uint32_t version, action; /* 1; 1: an entry was added, 2: it is removed */
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

/* Makes the file in front of the earlier ones.  0, or negative errno. */
static int make(struct mvld_image *image, struct symfile *file, uintptr_t *at)
{
    struct moved_code *moved = image->moved;
    uintptr_t end = moved->names;
    int error;

    symfile_measure(image, file);
    if (end < lowest(moved) || symfile_size(file) > end - lowest(moved))
        return rimf_fail(image, ENOSPC, "the region has no room for the names of moved code");
    *at = rimf_page_down(end - symfile_size(file));
    file->frames_offset = file->frames - *at;
    if (sys_failed(moved_pages_small(image, *at, end, PROT_READ | PROT_WRITE)))
        return no_memory(image);
    error = symfile_write(image, file, (void *)*at);
    sys_mprotect(image->sys, *at, end - *at, PROT_READ);
    return error;
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

/* A file that describes one batch only is removed with that batch. */
static void note_named(struct moved_code *moved, const struct symfile *file, struct jit_entry *entry)
{
    struct moved_batch *batch = file->first < file->end ? moved->list[file->first].batch : NULL;

    if (!batch || moved->list[file->end - 1].batch != batch)
        return;
    batch->named = entry;
    batch->names = (uintptr_t)entry->file;
    batch->names_end = moved->names;
}

void moved_names_forget(struct mvld_image *image, const struct moved_batch *batch)
{
    struct jit_entry *entry = batch->named;
    struct debugger d = {.image = image};

    if (!entry || find_descriptor(image, &d))
        return;
    *(entry->before ? &entry->before->next : &d.descriptor->first) = entry->next;
    if (entry->next)
        entry->next->before = entry->before;
    d.descriptor->at_hand = entry;
    d.descriptor->action = 2;
    d.changed();
    moved_pages_small(image, batch->names, batch->names_end, PROT_READ);
    rimf_heap_release(&image->heap, entry);
}

int moved_names_debug(struct mvld_image *image, const struct rimf_described *functions, size_t n)
{
    struct moved_code *moved = image->moved;
    struct debugger d = {.image = image};
    struct symfile file = {.first = moved->n_named, .end = n ? moved->n_named : moved->n,
                           .functions = functions, .n_functions = n,
                           .frames = moved->frames_named,
                           .frames_size = moved->frames_end - moved->frames_named};
    struct jit_entry *entry;
    uintptr_t at = 0;
    int error;

    if (file.first == file.end && !n)
        return 0;
    error = find_descriptor(image, &d);
    if (error)
        return error;
    entry = rimf_heap_alloc(&image->heap, sizeof *entry);
    error = entry ? make(image, &file, &at) : no_memory(image);
    if (error) {
        rimf_heap_release(&image->heap, entry);
        return error;
    }
    moved->n_named = file.end;
    moved->frames_named = moved->frames_end;
    announce(&d, entry, at);
    note_named(moved, &file, entry);
    moved->names = at;
    return 0;
}
