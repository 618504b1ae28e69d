/* SPDX-License-Identifier: MIT
 *
 * rimf/image_ready_write.c: ready code of an object on its way into a file (ready.h).
 *
 * The segments of code are read from the object's file, its calls are made direct there, and the
 * file is written with these in their places, as for a frozen image (image_freeze_files.c); then the
 * tables behind it.  Displacements are the same wherever the code lies, so it is treated as if it were an
 * object that is mapped where it happens to lie.  Only what a PLT entry does is looked up in
 * the process.
 *
 * The file is complete before it gets its name.
 */
#include "image_changes.h"

#include "base.h"
#include "cache.h"
#include "freeze.h"

#include <errno.h>    /* numbers only */
#include <fcntl.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

#define PATH_SIZE 1024u
/* To map such a file costs a process some 15 us.  It spares 2 for each page of code that it would have to
 * itself, and 0.03 for each call. */
#define CALLS_A_PAGE 64u
#define CALLS_AT_LEAST 512u

struct writing {
    struct mvld_image *image;
    struct changing *c;
    const struct rimf_object *object;
    uint32_t start, end; /* of the code, as linked; whole pages */
    uint8_t *code;
    uintptr_t bias;      /* of an object whose code lies there */
    uint8_t *tables;
    struct ready_header *header;
    struct frozen_text *texts;
    struct sidecar_call *rest;
    uint32_t *direct;    /* calls, by way */
    const struct sidecar_place *place;
    char path[PATH_SIZE], name[READY_NAME_MAX + 1]; /* of the file, and until it is complete */
    const char *why;
};

static int refuse(struct writing *w, int error, const char *why)
{
    w->why = why;
    return error;
}

/* ---- the code ---------------------------------------------------------------------- */

static int is_code(const Elf64_Phdr *ph)
{
    return ph->p_type == PT_LOAD && ph->p_flags & PF_X && ph->p_memsz;
}

static int measure(struct writing *w)
{
    const Elf64_Phdr *ph = w->object->public.phdr;
    uint64_t start = UINT32_MAX, end = 0;

    for (size_t i = 0; i < w->object->public.phnum; i++) {
        if (!is_code(&ph[i]))
            continue;
        if (ph[i].p_flags != (PF_R | PF_X) || ph[i].p_filesz != ph[i].p_memsz)
            return refuse(w, -ENOTSUP, "its code can be written, or is not all in the file");
        if (ph[i].p_vaddr + ph[i].p_memsz > end)
            end = ph[i].p_vaddr + ph[i].p_memsz;
        if (ph[i].p_vaddr < start)
            start = ph[i].p_vaddr;
    }
    if (start >= end || end > UINT32_MAX - RIMF_PAGE)
        return refuse(w, -ENOTSUP, "it has no code, or too much");
    w->start = (uint32_t)rimf_page_down(start);
    w->end = (uint32_t)rimf_page_up(end);
    return 0;
}

/* As the file says: all of each page, as it is mapped. */
static int read_segment(struct writing *w, int fd, const Elf64_Phdr *ph)
{
    uint64_t linked = rimf_page_down(ph->p_vaddr), at = rimf_page_down(ph->p_offset);
    uint64_t left = rimf_page_up(ph->p_vaddr + ph->p_memsz) - linked;
    uint8_t *to = w->code + (linked - w->start);

    while (left) {
        long got = sys_pread(w->image->sys, fd, to, left, at);

        if (got == -EINTR)
            continue;
        if (got < 0)
            return refuse(w, (int)got, "its file cannot be read");
        if (!got)
            break; /* the last page has zeros behind the file's end */
        to += got;
        at += (uint64_t)got;
        left -= (uint64_t)got;
    }
    return left < RIMF_PAGE ? 0 : refuse(w, -ENOEXEC, "its file is too short");
}

static int read_code(struct writing *w)
{
    const struct rimf_sys *sys = w->image->sys;
    const Elf64_Phdr *ph = w->object->public.phdr;
    size_t size = w->end - w->start;
    long fd, got = sys_mmap(sys, 0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int error = 0;

    if (sys_failed(got))
        return refuse(w, (int)got, "out of memory");
    w->code = (uint8_t *)got;
    w->bias = (uintptr_t)got - w->start;
    fd = sys_openat(sys, w->object->public.name, O_RDONLY | O_CLOEXEC, 0);
    if (sys_failed(fd))
        return refuse(w, (int)fd, "its file cannot be opened");
    if (!freeze_is_file(sys, (int)fd, &w->object->identity))
        error = refuse(w, -ESTALE, "the file there is not the one that was mapped");
    for (size_t i = 0; i < w->object->public.phnum && !error; i++)
        if (is_code(&ph[i]))
            error = read_segment(w, (int)fd, &ph[i]);
    sys_close(sys, (int)fd);
    return error;
}

/* ---- the calls ----------------------------------------------------------------------- */

static int is_inner(const struct writing *w, uintptr_t target)
{
    return elf_holds(&w->object->view, target, 1, PROT_READ | PROT_EXEC);
}

/* So many bytes of code lie at that place of the copy. */
static size_t room_at(const struct writing *w, uintptr_t address)
{
    return site_room(&w->object->public, address - w->bias + w->object->view.bias);
}

/* 1: it is direct now. */
static int make(struct writing *w, const struct sidecar_call *call)
{
    enum mvld_reference_kind kind = (enum mvld_reference_kind)sidecar_call_kind(call);
    uintptr_t home = w->object->view.bias, at = w->bias + call->address;
    struct way *way = way_of(w->c, call);
    struct site site;

    if (!way->target || (sidecar_slot(call) && !is_inner(w, way->target)) ||
        !site_read(&site, kind, at, room_at(w, at)))
        return 0;
    if (kind == MVLD_REFERENCE_CALL_SINGLE) {
        if (!site_inline(&site, room_at(w, site.leads)))
            return 0;
    } else if (!goes_through(w->c, &site, site.leads - w->bias + home, way,
                             home + sidecar_slot(call)) ||
               !site_make(&site, way->target - home + w->bias)) {
        return 0;
    }
    memcpy((void *)at, &site.made, site.length);
    return 1;
}

static int make_all(struct writing *w)
{
    uint32_t page = 0, whole = 0, made = 0; /* `whole`: pages that nobody else changes */
    int changed = 0, stays = 0;             /* in the page under way */

    for (size_t i = 0; i < w->c->n_calls; i++) {
        const struct sidecar_call *call = &w->c->calls[i];
        struct way *way = way_of(w->c, call);
        int done = make(w, call);

        if (call->address / RIMF_PAGE != page) {
            whole += changed && !stays;
            changed = stays = 0;
            page = call->address / RIMF_PAGE;
        }
        changed |= done;
        stays |= !done && way->target;
        made += (uint32_t)done;
        if (done)
            w->direct[way - w->c->ways]++;
        else
            w->rest[w->header->n_rest++] = *call;
    }
    whole += changed && !stays;
    return made + whole * CALLS_A_PAGE < CALLS_AT_LEAST ? refuse(w, -ENODATA, "it is not worth a file")
                                                        : 0;
}

/* ---- the tables ------------------------------------------------------------------------ */

/* Room for all, at most. */
static int make_room(struct writing *w)
{
    size_t texts = w->object->public.phnum, name = rimf_strlen(w->object->public.name) + 1;

    w->tables = rimf_heap_alloc(&w->image->heap,
                                sizeof *w->header + texts * sizeof *w->texts +
                                    w->c->n_calls * sizeof *w->rest +
                                    w->c->n_ways * sizeof(struct ready_slot) + name);
    w->direct = rimf_heap_alloc(&w->image->heap, w->c->n_ways * sizeof *w->direct);
    if (!w->tables || !w->direct)
        return refuse(w, -ENOMEM, "out of memory");
    w->header = (struct ready_header *)w->tables;
    w->texts = (struct frozen_text *)(w->header + 1);
    w->rest = (struct sidecar_call *)(w->texts + texts);
    *w->header = (struct ready_header){
        .magic = READY_MAGIC,
        .version = READY_VERSION,
        .header_size = sizeof *w->header,
        .made_by = w->image->ready.made_by,
        .build_id = frozen_build_id(&w->object->public),
        .file = w->object->identity,
        .name_size = (uint32_t)name,
    };
    return 0;
}

static void fill_slots(struct writing *w, struct ready_slot *out)
{
    for (size_t i = 1; i < w->c->n_ways; i++)
        if (w->direct[i])
            out[w->header->n_slots++] = (struct ready_slot){
                .slot = w->c->first + 8 * (uint32_t)(i - 1),
                .target = (uint32_t)(w->c->ways[i].target - w->object->view.bias),
                .calls = w->direct[i],
            };
    w->header->singles = w->direct[0];
}

/* Its file as it is written, with the texts' table; `self` is what it will be. */
static void finish_tables(struct writing *w, const struct sidecar_identity *self)
{
    struct ready_header *h = w->header;
    uint8_t *end = (uint8_t *)(w->texts + h->n_texts);
    struct ready_slot *slots;

    end = freeze_pack(end, w->rest, h->n_rest * sizeof *w->rest);
    slots = (struct ready_slot *)end;
    fill_slots(w, slots);
    end = (uint8_t *)(slots + h->n_slots);
    end = freeze_pack(end, w->object->public.name, h->name_size);
    h->size = (uint64_t)(end - w->tables);
    h->self = *self;
    h->self.size = rimf_page_up(h->file.size) + h->size;
    h->self.changed = 0;
    h->checksum = frozen_checksum(w->tables, h->size);
}

/* ---- the file -------------------------------------------------------------------------- */

static const void *code_of(void *cookie, const Elf64_Phdr *ph)
{
    const struct writing *w = cookie;

    return w->code + (rimf_page_down(ph->p_vaddr) - w->start);
}

/* The changed file, as if it were the only object of an image. */
static int write_file(struct writing *w, int folder, struct sidecar_identity *self)
{
    struct rimf_object *object = w->c->object;
    struct rimf_table alone = {.n_objects = 1, .objects = &object};
    struct frozen_header header = {.n_texts = 0};
    struct frozen_object as = {.copy_name = 0};
    struct freeze f = {.image = w->image, .table = &alone, .folder = folder, .header = &header,
                       .objects = &as, .texts = w->texts, .names = w->name,
                       .code_of = code_of, .cookie = w};
    int error = freeze_file(&f, 0);

    if (error)
        return refuse(w, error, "its file cannot be written");
    w->header->n_texts = header.n_texts;
    *self = as.copy;
    return 0;
}

/* Behind it, and the time that they say it has. */
static int write_tables(struct writing *w, int folder)
{
    const struct rimf_sys *sys = w->image->sys;
    const struct ready_header *h = w->header;
    int64_t second = 1000000000;
    const int64_t times[4] = {h->self.modified / second, h->self.modified % second,
                              h->self.modified / second, h->self.modified % second};
    long fd = SYS6(sys, SYS_openat, folder, w->name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0, 0, 0);
    int error;

    if (sys_failed(fd))
        return refuse(w, (int)fd, "its file cannot be written");
    error = freeze_write(sys, (int)fd, w->tables, h->size, rimf_page_up(h->file.size));
    if (!error)
        error = (int)SYS3(sys, SYS_fsync, fd, 0, 0);
    if (!error)
        error = (int)SYS6(sys, SYS_utimensat, fd, 0, times, 0, 0, 0);
    if (!error && !freeze_is_file(sys, (int)fd, &h->self))
        error = -EIO; /* times of this file system are too coarse */
    sys_close(sys, (int)fd);
    return error ? refuse(w, error, "its tables cannot be written") : 0;
}

static int write_in(struct writing *w, int folder)
{
    const struct rimf_sys *sys = w->image->sys;
    const char *name = rimf_strrchr(w->path, '/') + 1;
    struct sidecar_identity self;
    int error;

    if (!freeze_may_run(sys, folder))
        return refuse(w, -EACCES, "no code may be mapped from there (noexec)");
    rimf_format(w->name, sizeof w->name, ".%s.%ld", name, SYS3(sys, SYS_getpid, 0, 0, 0));
    SYS3(sys, SYS_unlinkat, folder, w->name, 0); /* of one that stopped in between */
    error = write_file(w, folder, &self);
    if (!error) {
        finish_tables(w, &self);
        error = write_tables(w, folder);
    }
    if (!error && SYS6(sys, SYS_renameat, folder, w->name, folder, name, 0, 0))
        error = refuse(w, -EACCES, "its file cannot be put there");
    if (error)
        SYS3(sys, SYS_unlinkat, folder, w->name, 0);
    return error;
}

/* Where folders may not be made, nothing is written (a filter of system calls). */
static int write_all(struct writing *w)
{
    const struct rimf_sys *sys = w->image->sys;
    const char *why;
    struct stat st;
    long folder;
    int error;

    w->place = &w->image->ready.written;
    if (!ready_path(w->path, sizeof w->path, w->place->folder, &w->object->identity,
                    rimf_ready_key(w->object), w->object->public.name))
        return refuse(w, -ENAMETOOLONG, "the name of its file is too long");
    if (cache_make_folders(sys, w->path))
        return refuse(w, -EACCES, "its folder cannot be made");
    folder = cache_open(sys, AT_FDCWD, w->place->folder, S_IFDIR, w->place->user, &st, &why);
    if (sys_failed(folder))
        return refuse(w, (int)folder, why);
    error = write_in(w, (int)folder);
    sys_close(sys, (int)folder);
    return error;
}

static int prepare(struct writing *w)
{
    int error;

    if (!w->object->identified || w->object->view.text_relocations || w->object->public.why)
        return refuse(w, -ENOTSUP, "its code is not that of a file");
    error = measure(w);
    if (!error)
        error = make_room(w);
    return error ? error : read_code(w);
}

/* One call, at least, may stay in the object. */
static int has_inner(const struct writing *w)
{
    for (size_t i = 0; i < w->c->n_ways; i++)
        if (w->c->ways[i].target && (!i || is_inner(w, w->c->ways[i].target)))
            return 1;
    return 0;
}

void rimf_ready_write(struct mvld_image *image, struct changing *c)
{
    struct writing *w;
    int error;

    if (!image->ready.written.folder || rimf_image_is_traced(image))
        return;
    w = rimf_heap_alloc(&image->heap, sizeof *w);
    if (!w)
        return;
    *w = (struct writing){.image = image, .c = c, .object = c->object};
    if (has_inner(w)) {
        error = prepare(w);
        if (!error)
            error = make_all(w);
        if (!error)
            error = write_all(w);
        rimf_log(image->log, MVLD_LOG_PASSES, "ready code of %s: %s%s", c->object->public.name,
                 error ? "not written: " : "written: ", error ? w->why : w->path);
    }
    if (w->code)
        sys_munmap(image->sys, (uintptr_t)w->code, w->end - w->start);
    rimf_heap_release(&image->heap, w->tables);
    rimf_heap_release(&image->heap, w->direct);
    rimf_heap_release(&image->heap, w);
}
