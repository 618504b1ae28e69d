/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/write.c: writes the results, in memory and as a file.
 */
#include "rimf/analyze/analyser.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct part {
    uint32_t kind, entry_size;
    const void *entries;
    size_t n;
};

static int take_segments(const struct analyser *a, struct vector *to)
{
    for (size_t i = 0; i < a->n_code; i++) {
        const struct code *c = &a->code[i];

        VECTOR_ADD(to, struct analysis_segment, c->start, c->end - c->start,
                   rimf_hash(c->bytes, c->end - c->start));
    }
    return to->failed;
}

static uint64_t hash_constants(const struct object *o)
{
    const Elf64_Phdr *p;
    uint64_t hash = 0;

    for (size_t i = 0; (p = object_phdr(o, PT_LOAD, i)); i++)
        if (analysis_is_constants(p))
            hash = rimf_mix(hash, rimf_hash(o->file + p->p_offset, p->p_filesz));
    return hash;
}

static uint8_t flags_of(const struct unit *u)
{
    return (uint8_t)((unit_is_decoded(u) ? ANALYSIS_DECODED : 0) |
                     (u->reached ? ANALYSIS_REACHED : 0) | (u->head ? ANALYSIS_HEAD : 0) |
                     (u->joined ? ANALYSIS_JOINED : 0) | (u->held ? ANALYSIS_HELD : 0));
}

static int take_units(const struct analyser *a, struct vector *to)
{
    const struct unit *units = units_of(a);

    for (size_t i = 0; i < a->units.n; i++)
        VECTOR_ADD(to, struct analysis_unit, units[i].start, units[i].end - units[i].start,
                   units[i].reason, flags_of(&units[i]), 0);
    return to->failed;
}

static size_t padded(size_t size)
{
    return (size + 7) & ~(size_t)7;
}

/* The bytes that describe moved units; none if no unit moves. */
static void take_list(const struct analyser *a, struct analysis_header *h)
{
    if (a->object.flags || !a->list.size)
        return;
    h->frames_start = a->list.start;
    h->frames_size = a->list.size;
}

static void *assemble(const struct analyser *a, const struct part *parts, size_t n_parts,
                      size_t *size)
{
    size_t at = sizeof(struct analysis_header) + n_parts * sizeof(struct analysis_table);
    const struct object *o = &a->object;
    struct analysis_table *tables;
    struct analysis_header *h;

    *size = at;
    for (size_t i = 0; i < n_parts; i++)
        *size += padded(parts[i].n * parts[i].entry_size);
    h = calloc(1, *size);
    if (!h)
        return NULL;
    *h = (struct analysis_header){
        .version = ANALYSIS_VERSION, .header_size = (uint32_t)at, .size = *size,
        .analyser = ANALYSER_VERSION, .flags = o->flags, .build_id_size = o->build_id_size,
        .n_tables = (uint32_t)n_parts, .identity = o->identity,
        .constants_hash = hash_constants(o)};
    memcpy(h->magic, ANALYSIS_MAGIC, sizeof h->magic);
    memcpy(h->build_id, o->build_id, sizeof h->build_id);
    take_list(a, h);
    tables = (struct analysis_table *)(h + 1);
    for (size_t i = 0; i < n_parts; i++) {
        const struct part *p = &parts[i];
        size_t bytes = padded(p->n * p->entry_size);
        uint8_t *to = (uint8_t *)h + at;

        if (p->n)
            memcpy(to, p->entries, p->n * p->entry_size);
        tables[i] = (struct analysis_table){p->kind, p->entry_size, at, p->n,
                                           rimf_hash(to, bytes)};
        at += bytes;
    }
    h->checksum = analysis_header_checksum(h);
    return h;
}

void *analysis_make(struct analyser *a, size_t *size)
{
    struct vector segments = {0}, units = {0};
    void *bytes = NULL;

    if (!a->object.build_id_size) {
        object_fail(&a->object, "it has no build-id");
        return NULL;
    }
    if (!take_segments(a, &segments) && !take_units(a, &units)) {
        const struct part parts[] = {
            {ANALYSIS_SEGMENTS, sizeof(struct analysis_segment), segments.at, segments.n},
            {ANALYSIS_UNITS, sizeof(struct analysis_unit), units.at, units.n},
            {ANALYSIS_CALLS, sizeof(struct analysis_call), a->calls.at, a->calls.n},
            {ANALYSIS_REFERENCES, sizeof(struct analysis_reference), a->references.at,
             a->references.n},
            {ANALYSIS_JUMP_TABLES, sizeof(struct analysis_jump_table), a->jump_tables.at,
             a->jump_tables.n},
            {ANALYSIS_FRAMES, sizeof(struct analysis_frame), a->moved_frames.at, a->moved_frames.n},
            {ANALYSIS_FRAME_FIXES, sizeof(struct analysis_frame_fix), a->frame_fixes.at,
             a->frame_fixes.n},
            {ANALYSIS_BRANCHES, sizeof(struct analysis_branch), a->branches.at, a->branches.n},
            {ANALYSIS_FIXED_CODE, sizeof(struct analysis_fixed), a->fixed.at, a->fixed.n},
            {ANALYSIS_PATH, 1, a->object.path, a->object.path ? strlen(a->object.path) + 1 : 0},
            {ANALYSIS_SYMBOLS, sizeof(Elf64_Sym), a->symbols.at, a->symbols.n},
            {ANALYSIS_NAMES, 1, a->names.at, a->names.n},
        };
        bytes = assemble(a, parts, RIMF_COUNT(parts) - (a->symbols.n ? 0 : 2), size);
    }
    vector_free(&segments);
    vector_free(&units);
    if (!bytes)
        object_fail(&a->object, "there is no memory for its analysis");
    return bytes;
}

/* ---- the file ---------------------------------------------------------------------- */

/* Creates the folders above `path`, not writable by others, whatever the umask. */
static int make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        int failed;

        *slash = '\0';
        failed = mkdir(path, 0755) && errno != EEXIST;
        *slash = '/';
        if (failed)
            return -1;
    }
    return 0;
}

static int write_all(int fd, const uint8_t *at, size_t size)
{
    while (size) {
        ssize_t n = write(fd, at, size);

        if (n < 0 && errno != EINTR)
            return -1;
        at += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* Readers see the old file or the whole new one. */
static int put_file(const char *path, const void *bytes, size_t size)
{
    char aside[PATH_MAX + 16];
    int fd, failed, error;

    snprintf(aside, sizeof aside, "%s.XXXXXX", path);
    fd = mkostemp(aside, O_CLOEXEC);
    if (fd < 0)
        return -1;
    failed = write_all(fd, bytes, size) || fchmod(fd, 0644) || rename(aside, path);
    error = errno;
    if (failed)
        unlink(aside);
    close(fd);
    errno = error;
    return failed ? -1 : 0;
}

int analysis_write(struct analyser *a, const char *folder)
{
    char path[PATH_MAX];
    size_t size;
    void *bytes = analysis_make(a, &size);
    int failed;

    if (!bytes)
        return -1;
    if (!analysis_path(path, sizeof path, folder, a->object.build_id, a->object.build_id_size)) {
        free(bytes);
        return object_fail(&a->object, "%s: the name is too long", folder);
    }
    failed = make_folders(path) || put_file(path, bytes, size);
    if (failed)
        object_fail(&a->object, "%s cannot be written: %s", path, strerror(errno));
    free(bytes);
    return failed ? -1 : 0;
}
