/* SPDX-License-Identifier: MIT
 *
 * moved.c: which objects of a process moved, and from where to where (moved.h).
 */
#include "moved.h"

#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

void wrong(struct process *p, const struct seen_object *o, uint64_t linked, const char *format, ...)
{
    va_list args;

    if (p->n_wrong++ >= REPORTED_MAX)
        return;
    fprintf(stderr, "%s: 0x%lx: ", o->path, (unsigned long)linked);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

void process_read(const struct process *p, uintptr_t at, void *to, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = pread(p->memory, (char *)to + done, size - done, (off_t)(at + done));

        CHECK(n > 0, "(%zu bytes at 0x%lx of the process)", size, (unsigned long)at);
        done += (size_t)n;
    }
}

struct seen_object *object_of(const struct process *p, uintptr_t address)
{
    for (size_t i = 0; i < p->n; i++)
        if (address >= p->objects[i].low && address < p->objects[i].high)
            return &p->objects[i];
    return NULL;
}

static const struct seen_fragment *fragment_of(const struct seen_object *o, uintptr_t original)
{
    size_t begun = RIMF_BISECT(i, o->n_fragments, o->fragments[i].original <= original);
    const struct seen_fragment *last = begun ? &o->fragments[begun - 1] : NULL;

    return last && original - last->original < last->code ? last : NULL;
}

uintptr_t place_of(const struct seen_object *o, uintptr_t original)
{
    const struct seen_fragment *fragment = fragment_of(o, original);

    return fragment ? fragment->at + (original - fragment->original) : 0;
}

const uint8_t *byte_of(const struct seen_object *o, uintptr_t original)
{
    const struct seen_fragment *fragment = fragment_of(o, original);

    CHECK(fragment, "(%s: 0x%lx)", o->path, (unsigned long)original);
    return fragment->bytes + (original - fragment->original);
}

uintptr_t moved_to(const struct process *p, uintptr_t original)
{
    const struct seen_object *o = object_of(p, original);
    const struct unit *u = o ? unit_at(&o->analysis, original - o->bias) : NULL;

    return u && !u->reason ? place_of(o, original) : 0;
}

uintptr_t original_of(const struct process *p, uintptr_t address)
{
    size_t begun = RIMF_BISECT(i, p->n_places, p->places[i]->at <= address);
    const struct seen_fragment *last = begun ? p->places[begun - 1] : NULL;

    return last && address - last->at < last->code ? last->original + (address - last->at) : address;
}

/* ---- the log ------------------------------------------------------------------------ */

static int by_original(const void *a, const void *b)
{
    const struct seen_fragment *x = a, *y = b;

    return x->original < y->original ? -1 : x->original > y->original;
}

static int by_place(const void *a, const void *b)
{
    const struct seen_fragment *const *x = a, *const *y = b;

    return (*x)->at < (*y)->at ? -1 : (*x)->at > (*y)->at;
}

/* How far its code was moved when it was mapped: the first movable unit is where the first
 * fragment begins, or at a multiple of 64 before it, where the only one does. */
static void find_original(struct seen_object *o)
{
    const struct unit *units = units_of(&o->analysis);
    size_t first = 0;

    while (first < o->analysis.units.n && units[first].reason)
        first++;
    CHECK(first < o->analysis.units.n, "(%s has nothing to move)", o->path);
    o->bias = o->fragments[0].original - (o->n_fragments == 1 ? units[first].start & ~63u
                                                    : units[first].start);
    CHECK(o->bias % 4096 == 0, "(%s lies at 0x%lx)", o->path, (unsigned long)o->bias);
    o->low = o->bias + o->analysis.object.low;
    o->high = o->bias + o->analysis.object.high;
}

static void open_object(struct process *p, struct seen_object *o)
{
    uint8_t magic[4];

    CHECK(analyser_run(&o->analysis, o->path) == 0, "%s: %s", o->path, o->analysis.object.error);
    qsort(o->fragments, o->n_fragments, sizeof *o->fragments, by_original);
    find_original(o);
    o->tables = calloc(o->analysis.jump_tables.n + 1, sizeof *o->tables);
    o->stay = calloc(o->analysis.jump_tables.n + 1, sizeof *o->stay);
    CHECK(o->tables && o->stay);
    process_read(p, o->low, magic, sizeof magic);
    CHECK(memcmp(magic, ELFMAG, SELFMAG) == 0, "(%s is not at 0x%lx)", o->path,
          (unsigned long)o->low);
    for (size_t i = 0; i < o->n_fragments; i++) {
        struct seen_fragment *fragment = &o->fragments[i];

        CHECK((fragment->at - fragment->original) % (o->n_fragments > 1 ? 16 : 64) == 0, "(%s)", o->path);
        CHECK(!i || fragment->original >= fragment[-1].original + fragment[-1].code, "(%s)", o->path);
        fragment->bytes = malloc(fragment->code);
        CHECK(fragment->bytes);
        process_read(p, fragment->at, fragment->bytes, fragment->code);
        p->places = realloc(p->places, (p->n_places + 1) * sizeof *p->places);
        CHECK(p->places);
        p->places[p->n_places++] = fragment;
    }
}

static void open_objects(struct process *p)
{
    for (size_t i = 0; i < p->n; i++)
        open_object(p, &p->objects[i]);
    qsort(p->places, p->n_places, sizeof *p->places, by_place);
    for (size_t i = 1; i < p->n_places; i++)
        CHECK(p->places[i]->at >= p->places[i - 1]->at + p->places[i - 1]->code,
              "(fragments overlap at 0x%lx)", (unsigned long)p->places[i]->at);
}

static struct seen_object *object_of_path(struct process *p, const char *path)
{
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->objects[i].path, path) == 0)
            return &p->objects[i];
    if (p->n == p->room) {
        p->room = p->room ? 2 * p->room : 64;
        p->objects = realloc(p->objects, p->room * sizeof *p->objects);
        CHECK(p->objects);
    }
    p->objects[p->n] = (struct seen_object){.path = strdup(path)};
    return &p->objects[p->n++];
}

static struct seen_object *add_fragment(struct process *p, const char *path, uintptr_t original, uintptr_t at,
                                size_t code)
{
    struct seen_object *o = object_of_path(p, path);

    if (o->n_fragments == o->room) {
        o->room = o->room ? 2 * o->room : 1;
        o->fragments = realloc(o->fragments, o->room * sizeof *o->fragments);
        CHECK(o->fragments);
    }
    o->fragments[o->n_fragments++] = (struct seen_fragment){original, at, code, NULL};
    return o;
}

/* "PID:\tlater: NAME: applied, the code of N segments" */
static void note_overlay(struct process *p, char *line)
{
    char *name = strstr(line, "\tlater: "), *end = strstr(line, ": applied, the code of");
    struct seen_object *o;

    if (!name || !end)
        return;
    *end = '\0';
    o = object_of_path(p, name + strlen("\tlater: "));
    o->snapshot = o->overlaid = 1;
}

/* "PID:\tNAME: N bytes at 0xORIGINAL moved to 0xAT" */
static void read_log(struct process *p, const char *log)
{
    FILE *file = fopen(log, "r");
    char line[8192];

    CHECK(file, "(%s)", log);
    while (fgets(line, sizeof line, file)) {
        char *name = strchr(line, '\t'), *colon = strstr(line, ": ");
        unsigned long original, at;
        size_t code;

        note_overlay(p, line);
        if (strstr(line, "pass concat: its work is in the snapshot"))
            for (size_t i = 0; i < p->n; i++)
                p->objects[i].snapshot = 1;
        while (name && colon && colon < name)
            colon = strstr(colon + 2, ": ");
        if (!name || !colon ||
            sscanf(colon, ": %zu bytes at %lx moved to %lx", &code, &original, &at) != 3)
            continue;
        *colon = '\0';
        add_fragment(p, name + 1, original, at, code)->moved =
            strstr(colon + 1, ", where their addresses lead") != NULL;
    }
    fclose(file);
}

/* ---- the region ------------------------------------------------------------------------- */

static void find_frames(struct process *p, const char *pid)
{
    char path[64], line[4096];
    unsigned long start = 0;
    Elf64_Ehdr header;
    FILE *maps;

    snprintf(path, sizeof path, "/proc/%s/maps", pid);
    maps = fopen(path, "r");
    CHECK(maps, "(%s)", path);
    while (!start && fgets(line, sizeof line, maps))
        if (strstr(line, "/libconcat.so.1"))
            start = strtoul(line, NULL, 16);
    fclose(maps);
    p->library = start;
    CHECK(start, "(the process has no libconcat.so.1)");
    process_read(p, start, &header, sizeof header);
    for (size_t i = 0; i < header.e_phnum; i++) {
        Elf64_Phdr phdr;

        process_read(p, start + header.e_phoff + i * sizeof phdr, &phdr, sizeof phdr);
        if (phdr.p_type == PT_GNU_EH_FRAME)
            p->frames = start + phdr.p_vaddr;
    }
    CHECK(p->frames, "(libconcat.so.1 has no PT_GNU_EH_FRAME)");
}

void process_open(struct process *p, const char *pid, const char *log)
{
    char path[64];

    *p = (struct process){0};
    snprintf(path, sizeof path, "/proc/%s/mem", pid);
    p->memory = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(p->memory >= 0, "(%s)", path);
    read_log(p, log);
    CHECK(p->n, "(%s names no object that moved)", log);
    open_objects(p);
    find_frames(p, pid);
}
