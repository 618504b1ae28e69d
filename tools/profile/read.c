/* SPDX-License-Identifier: MIT
 *
 * profile/read.c: reads perf's output for a recording (profile.h).
 *
 * perf prints mappings and samples:
 *
 *     7740 PERF_RECORD_MMAP2 7740/7740: [0x7fc90e115000(0x156000) @ 0x26000 …]: r-xp /…/libc.so.6
 *     7740     7fc90e18710d _int_malloc (/…/libc.so.6)
 *
 * Both give the offset in the file, and its .eh_frame gives the function, with or without a name.
 * For samples in moved code, perf knows only the name, from /tmp/perf-PID.map or a snapshot's
 * concat.so: it is looked up in the files that the process had mapped.
 */
#include "tools/profile/profile.h"
#include "rimf/base/base.h"
#include "tools/common/tools.h"

#include <stdlib.h>
#include <string.h>

/* ---- files ----------------------------------------------------------------------------- */

static char *name_of(const struct file *f)
{
    uint64_t name = object_tag(&f->object, DT_SONAME), strings = object_tag(&f->object, DT_STRTAB);
    size_t room = name && strings ? object_room(&f->object, strings + name) : 0;
    const char *text = room ? (const char *)object_at(&f->object, strings + name, 1) : NULL;
    const char *slash = strrchr(f->path, '/');

    if (text && memchr(text, 0, room) && !strchr(text, '/'))
        return must_print("%s", text);
    slash = slash ? slash + 1 : f->path;
    if (strstr(f->path, "/mvld/snapshots/")) { /* 0-bash */
        size_t number = strspn(slash, "0123456789");

        slash += slash[number] == '-' ? number + 1 : 0;
    }
    return must_print("%s", slash);
}

/* The file to which the last one's samples are added: it may be an overlay of a file, in a
 * snapshot. */
static size_t same_object(const struct recording *r)
{
    const struct file *f = r->files[r->n_files - 1];

    for (size_t i = 0; f->is_elf && f->object.build_id_size && i + 1 < r->n_files; i++) {
        const struct file *other = r->files[i];

        if (other->is_elf && other->frames.n == f->frames.n &&
            other->object.build_id_size == f->object.build_id_size &&
            !memcmp(other->object.build_id, f->object.build_id, f->object.build_id_size) &&
            !strcmp(other->name, f->name))
            return i;
    }
    return r->n_files - 1;
}

static size_t file_at(struct recording *r, const char *path)
{
    struct file *f;
    uint64_t list;

    for (size_t i = 0; i < r->n_files; i++)
        if (!strcmp(r->files[i]->path, path))
            return i;
    f = must_alloc(1, sizeof *f);
    f->path = must_print("%s", path);
    f->is_elf = *path == '/' && object_open(&f->object, path) == 0 &&
                frames_read(&f->object, &f->frames, &list) == 0;
    f->name = f->is_elf ? name_of(f) : NULL;
    f->samples = must_alloc(f->frames.n + 1, sizeof *f->samples);
    f->called = must_alloc(f->frames.n + 1, sizeof *f->called);
    r->files = must_grow(r->files, r->n_files + 1, sizeof *r->files);
    r->files[r->n_files++] = f;
    f->counted = same_object(r);
    return r->n_files - 1;
}

/* The function that contains the address as linked; -1: none. */
static long frame_at(const struct file *f, uint64_t linked)
{
    const struct frame *frames = f->frames.at;
    long last = (long)RIMF_BISECT(i, f->frames.n, frames[i].start <= linked) - 1;

    return last >= 0 && linked < frames[last].end ? last : -1;
}

static void count(struct recording *r, size_t file, uint64_t linked, const char *called)
{
    struct file *f = r->files[r->files[file]->counted];
    long i = frame_at(f, linked);

    if (i < 0)
        return;
    if (!f->called[i] && *called && strcmp(called, "[unknown]"))
        f->called[i] = must_print("%s", called);
    f->samples[i]++;
    r->n_known++;
}

/* ---- what perf says ----------------------------------------------------------------------- */

/* "… PERF_RECORD_MMAP2 PID/TID: [0xSTART(0xSIZE) @ OFFSET …]: PROT PATH" */
static void take_mapping(struct recording *r, const char *said)
{
    unsigned long pid, start, size, offset;
    const char *end = strstr(said, "]: ");
    struct mapping *map;

    said = strchr(said, ' ');
    if (!said || !end || sscanf(said, " %lu/%*d: [%li(%li) @ %li", &pid, (long *)&start,
                                (long *)&size, (long *)&offset) != 4)
        return;
    end = strchr(end + 3, ' ');
    if (!end || strchr(end + 1, '\n'))
        return;
    r->maps = must_grow(r->maps, r->n_maps + 1, sizeof *r->maps);
    map = &r->maps[r->n_maps++];
    *map = (struct mapping){pid, start, size, offset, file_at(r, end + 1)};
}

/* The last mapping that contains the address, of this process, or of one that it may be forked
 * from. */
static const struct mapping *mapping_at(const struct recording *r, unsigned long pid,
                                        uint64_t address)
{
    const struct mapping *found = NULL;

    for (size_t i = r->n_maps; i-- > 0;) {
        const struct mapping *m = &r->maps[i];

        if (address - m->start >= m->size)
            continue;
        if (m->pid == pid)
            return m;
        found = found ? found : m;
    }
    return found;
}

static void take_place(struct recording *r, const struct mapping *m, uint64_t address,
                       const char *called)
{
    const struct file *f = r->files[m->file];
    uint64_t offset = m->offset + (address - m->start);
    const Elf64_Phdr *p;

    for (size_t i = 0; f->is_elf && (p = object_phdr(&f->object, PT_LOAD, i)); i++)
        if (offset - p->p_offset < p->p_filesz) {
            count(r, m->file, p->p_vaddr + (offset - p->p_offset), called);
            return;
        }
}

static int is_overlay(const char *file)
{
    size_t length = strlen(file);

    return !strncmp(file, "/tmp/perf-", 10) ||
           (length > 10 && !strcmp(file + length - 10, "/concat.so"));
}

/* "malloc", or "libfoo.so.1+0x1234", the pass's form for functions without a name. */
static void take_name(struct recording *r, const char *called)
{
    const char *plus = strstr(called, "+0x");

    for (size_t i = 0; i < r->n_files; i++) {
        struct file *f = r->files[i];

        if (!f->is_elf || is_overlay(f->path))
            continue;
        if (plus && strlen(f->name) == (size_t)(plus - called) &&
            !strncmp(f->name, called, (size_t)(plus - called))) {
            count(r, i, strtoull(plus + 3, NULL, 16), "");
            return;
        }
        if (!f->asked)
            f->asked = elf_file_open(&f->elf, f->path) ? -1 : 1;
        for (size_t k = 0; f->asked > 0 && k < f->elf.n_functions; k++)
            if (!strcmp(f->elf.functions[k].name, called)) {
                count(r, i, f->elf.functions[k].address, called);
                return;
            }
    }
}

/* "PID ADDRESS NAME (FILE)", perhaps without the name. */
static void take_sample(struct recording *r, char *line)
{
    char *file = strrchr(line, '('), *end = strrchr(line, ')'), *name;
    unsigned long pid, address;
    const struct mapping *m;
    int n = 0;

    if (!file || !end || end < file || sscanf(line, " %lu %lx%n", &pid, &address, &n) != 2 ||
        line + n >= file)
        return;
    r->n_samples++;
    *end = file[-1] = '\0';
    name = line + n + strspn(line + n, " ");
    if (is_overlay(file + 1)) {
        take_name(r, name);
        return;
    }
    m = mapping_at(r, pid, address);
    if (m)
        take_place(r, m, address, name);
}

void recording_read(struct recording *r, FILE *from)
{
    char *line = NULL;
    size_t room = 0;

    while (getline(&line, &room, from) > 0) {
        char *record = strstr(line, "PERF_RECORD_");

        line[strcspn(line, "\n")] = '\0';
        if (!record)
            take_sample(r, line);
        else if (!strncmp(record, "PERF_RECORD_MMAP", 16))
            take_mapping(r, record);
    }
    free(line);
}

void recording_forget(struct recording *r)
{
    for (size_t i = 0; i < r->n_files; i++) {
        struct file *f = r->files[i];

        for (size_t k = 0; k < f->frames.n; k++)
            free(f->called[k]);
        if (f->asked > 0)
            elf_file_close(&f->elf);
        object_close(&f->object);
        vector_free(&f->frames);
        free(f->samples);
        free(f->called);
        free(f->name);
        free(f->path);
        free(f);
    }
    free(r->files);
    free(r->maps);
}
