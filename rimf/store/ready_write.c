/* SPDX-License-Identifier: MIT
 *
 * rimf/store/ready_write.c: ready code of an object on its way into a file (ready.h).
 *
 * The segments of code are read from the object's file, its calls are made direct there
 * (store/ready_code.c), and the file is written with these in their places, as for a frozen image
 * (store/freeze_files.c); then the tables behind it.
 *
 * The file is complete before it gets its name.
 */
#include "rimf/store/ready_write.h"

#include "rimf/base/base.h"
#include "rimf/base/cache.h"
#include "rimf/store/freeze.h"

#include <errno.h>    /* numbers only */
#include <fcntl.h>    /* numbers only */

/* ---- the tables ------------------------------------------------------------------------ */

static const char *program_name(const struct writing *w)
{
    return w->program ? w->program->public.name : "";
}

static size_t names_size(const struct writing *w)
{
    return rimf_strlen(w->object->public.name) + 1 + rimf_strlen(program_name(w)) + 1;
}

/* Room for all, at most. */
static int make_room(struct writing *w)
{
    size_t texts = w->object->public.phnum, name = names_size(w);

    w->tables = rimf_heap_alloc(&w->image->heap,
                                sizeof *w->header + texts * sizeof *w->texts +
                                    w->c->n_calls * sizeof *w->rest +
                                    w->c->n_ways * sizeof(struct ready_slot) + name);
    w->counts = rimf_heap_alloc(&w->image->heap, w->c->n_ways * sizeof *w->counts);
    if (!w->tables || !w->counts)
        return ready_refuse(w, -ENOMEM, "out of memory");
    w->header = (struct ready_header *)w->tables;
    w->texts = (struct frozen_text *)(w->header + 1);
    w->rest = (struct analysis_call *)(w->texts + texts);
    *w->header = (struct ready_header){
        .magic = READY_MAGIC,
        .version = READY_VERSION,
        .header_size = sizeof *w->header,
        .made_by = w->image->ready.made_by,
        .build_id = frozen_build_id(&w->object->public),
        .file = w->object->identity,
        .name_size = (uint32_t)name,
        .reach = w->reach,
    };
    if (w->program)
        w->header->program = w->program->identity;
    return 0;
}

static void fill_slots(struct writing *w, struct ready_slot *out)
{
    uintptr_t bias = w->object->view.bias;

    for (size_t i = 1; i < w->c->n_ways; i++) {
        uint32_t slot = w->c->first + 8 * (uint32_t)(i - 1);
        uintptr_t target = w->c->ways[i].target;

        if (!w->counts[i])
            continue;
        out[w->header->n_slots++] = (struct ready_slot){
            .slot = slot,
            .calls = target ? w->counts[i] : w->counts[i] | READY_LEFT,
            .leads = rimf_ready_distance(w->image, w->object,
                                         target ? target : *(const uintptr_t *)(bias + slot)),
        };
    }
    w->header->singles = w->counts[0];
}

/* Its file as it is written, with the texts' table; `self` is what it will be. */
static void finish_tables(struct writing *w, const struct file_id *self)
{
    struct ready_header *h = w->header;
    uint8_t *end = (uint8_t *)(w->texts + h->n_texts);
    struct ready_slot *slots;

    end = freeze_pack(end, w->rest, h->n_rest * sizeof *w->rest);
    slots = (struct ready_slot *)end;
    fill_slots(w, slots);
    end = (uint8_t *)(slots + h->n_slots);
    end = freeze_pack(end, w->object->public.name, rimf_strlen(w->object->public.name) + 1);
    end = freeze_pack(end, program_name(w), rimf_strlen(program_name(w)) + 1);
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
static int write_file(struct writing *w, int folder, struct file_id *self)
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
        return ready_refuse(w, error, "its file cannot be written");
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
    struct stat st;
    int error;

    if (sys_failed(fd))
        return ready_refuse(w, (int)fd, "its file cannot be written");
    error = freeze_write(sys, (int)fd, w->tables, h->size, rimf_page_up(h->file.size));
    if (!error)
        error = (int)SYS3(sys, SYS_fsync, fd, 0, 0);
    if (!error)
        error = (int)SYS6(sys, SYS_utimensat, fd, 0, times, 0, 0, 0);
    if (!error && (SYS3(sys, SYS_fstat, fd, &st, 0) || !file_id_is_own(&h->self, &st)))
        error = -EIO; /* times of this file system are too coarse */
    sys_close(sys, (int)fd);
    return error ? ready_refuse(w, error, "its tables cannot be written") : 0;
}

static int write_in(struct writing *w, int folder)
{
    const struct rimf_sys *sys = w->image->sys;
    const char *name = rimf_strrchr(w->path, '/') + 1;
    struct file_id self;
    int error;

    if (!freeze_may_run(sys, folder))
        return ready_refuse(w, -EACCES, "no code may be mapped from there (noexec)");
    SYS3(sys, SYS_unlinkat, folder, w->name, 0); /* of one that was killed */
    error = write_file(w, folder, &self);
    if (!error) {
        finish_tables(w, &self);
        error = write_tables(w, folder);
    }
    if (!error && SYS6(sys, SYS_renameat, folder, w->name, folder, name, 0, 0))
        error = ready_refuse(w, -EACCES, "its file cannot be put there");
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
    if (!ready_path(w->path, sizeof w->path, w->place->folder, &w->object->identity, w->key,
                    w->object->public.name))
        return ready_refuse(w, -ENAMETOOLONG, "the name of its file is too long");
    if (cache_make_folders(sys, w->path, 3))
        return ready_refuse(w, -EACCES, "its folder cannot be made");
    folder = cache_open(sys, AT_FDCWD, w->place->folder, S_IFDIR, w->place->user, &st, &why);
    if (sys_failed(folder))
        return ready_refuse(w, (int)folder, why);
    error = write_in(w, (int)folder);
    sys_close(sys, (int)folder);
    return error;
}

/* One call, at least, may be direct. */
static int has_calls(const struct writing *w)
{
    const struct changing *c = w->c;

    for (size_t i = 0; i < c->n_ways; i++)
        if (c->ways[i].target && (!i || ready_may_hold(w, c->ways[i].target)))
            return 1;
    return 0;
}

static int make_file(struct writing *w)
{
    const char *why;
    int error;

    if (!w->object->identified || w->object->view.text_relocations || w->object->public.why)
        return ready_refuse(w, -ENOTSUP, "its code is not that of a file");
    why = file_id_unsettled(w->image->sys, &w->object->identity, w->object->public.name);
    if (!why && w->program)
        why = file_id_unsettled(w->image->sys, &w->program->identity, w->program->public.name);
    if (why)
        return ready_refuse(w, -EAGAIN, why);
    error = make_room(w);
    if (!error)
        error = ready_code_read(w);
    if (!error)
        error = ready_code_make(w);
    return error ? error : write_all(w);
}

static void write_one(struct mvld_image *image, struct changing *c, enum ready_reach reach, uint64_t key)
{
    struct writing *w = rimf_heap_alloc(&image->heap, sizeof *w);

    if (!w)
        return;
    *w = (struct writing){.name = CACHE_UNFINISHED, .image = image, .c = c, .object = c->object, .reach = reach, .key = key,
                          .program = reach == READY_ALL ? rimf_ready_program(image) : NULL};
    if (has_calls(w)) {
        int error = make_file(w);

        rimf_log(image->log, MVLD_LOG_PASSES, "ready code of %s: %swritten (%s): %s", c->object->public.name,
                 error ? "not " : "", ready_reach_name(reach), error ? w->why : w->path);
        image->ready_made.written += !error;
        image->ready_made.refused += error && error != -ENOTSUP && error != -ENODATA; /* not worth one */
    }
    ready_code_forget(w);
    rimf_heap_release(&image->heap, w->tables);
    rimf_heap_release(&image->heap, w->counts);
    rimf_heap_release(&image->heap, w);
}

void rimf_ready_write(struct mvld_image *image, struct changing *c)
{
    if (!image->writes || !image->ready.written.folder || rimf_image_is_traced(image))
        return;
    for (unsigned reach = 0; reach < READY_REACHES; reach++) {
        uint64_t key = rimf_ready_key(image, c->object, (enum ready_reach)reach);

        if (key == READY_NO_KEY)
            continue;
        if (rimf_ready_exists(image, c->object, (enum ready_reach)reach, key))
            image->ready_made.there++;
        else
            write_one(image, c, (enum ready_reach)reach, key);
    }
}

struct rimf_ready_made rimf_image_ready_made(const struct mvld_image *image)
{
    struct rimf_ready_made made = image->ready_made;

    made.folder = image->ready.written.folder;
    return made;
}
