/* SPDX-License-Identifier: MIT
 *
 * copied.c: which objects of a process were copied, and from where to where (copied.h).
 */
#include "copied.h"

#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

void wrong(struct process *p, const struct copied *o, uint64_t linked, const char *format, ...)
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

struct copied *object_at_home(const struct process *p, uintptr_t address)
{
    for (size_t i = 0; i < p->n; i++)
        if (address >= p->objects[i].low && address < p->objects[i].high)
            return &p->objects[i];
    return NULL;
}

uintptr_t copy_of(const struct process *p, uintptr_t home)
{
    const struct copied *o = object_at_home(p, home);
    const struct unit *u;

    if (!o || home - o->home >= o->code)
        return 0;
    u = unit_at(&o->analysis, home - o->bias);
    return u && !u->reason ? o->at + (home - o->home) : 0;
}

uintptr_t home_of(const struct process *p, uintptr_t address)
{
    for (size_t i = 0; i < p->n; i++)
        if (address - p->objects[i].at < p->objects[i].code)
            return p->objects[i].home + (address - p->objects[i].at);
    return address;
}

/* ---- the log ------------------------------------------------------------------------ */

/* How far its code was moved when it was mapped: the first movable unit, at a multiple of
 * 64, is where the copy begins. */
static void find_home(struct copied *o)
{
    const struct unit *units = units_of(&o->analysis);
    size_t first = 0;

    while (first < o->analysis.units.n && units[first].reason)
        first++;
    CHECK(first < o->analysis.units.n, "(%s has nothing to copy)", o->path);
    o->bias = o->home - (units[first].start & ~63u);
    CHECK(o->bias % 4096 == 0, "(%s lies at 0x%lx)", o->path, (unsigned long)o->bias);
    o->low = o->bias + o->analysis.object.low;
    o->high = o->bias + o->analysis.object.high;
}

static void check_place(struct process *p, const struct copied *o)
{
    uint8_t magic[4];

    process_read(p, o->low, magic, sizeof magic);
    CHECK(memcmp(magic, ELFMAG, SELFMAG) == 0, "(%s is not at 0x%lx)", o->path,
          (unsigned long)o->low);
    CHECK((o->at - o->home) % 64 == 0, "(%s)", o->path);
    for (size_t i = 0; i < p->n; i++)
        CHECK(o == &p->objects[i] || o->at >= p->objects[i].at + p->objects[i].code ||
                  p->objects[i].at >= o->at + o->code,
              "(the copies of %s and %s overlap)", o->path, p->objects[i].path);
}

static void add_object(struct process *p, const char *path, uintptr_t home, uintptr_t at,
                       size_t code)
{
    struct copied *o;

    if (p->n == p->room) {
        p->room = p->room ? 2 * p->room : 64;
        p->objects = realloc(p->objects, p->room * sizeof *p->objects);
        CHECK(p->objects);
    }
    o = &p->objects[p->n];
    *o = (struct copied){.path = strdup(path), .home = home, .at = at, .code = code};
    CHECK(analysis_run(&o->analysis, path) == 0, "%s: %s", path, o->analysis.object.error);
    find_home(o);
    o->copy = malloc(code);
    o->tables = calloc(o->analysis.jump_tables.n + 1, sizeof *o->tables);
    CHECK(o->copy && o->tables);
    process_read(p, at, o->copy, code);
    p->n++;
}

/* "PID:\tNAME: N bytes at 0xHOME are copied to 0xAT" */
static void read_log(struct process *p, const char *log)
{
    FILE *file = fopen(log, "r");
    char line[8192];

    CHECK(file, "(%s)", log);
    while (fgets(line, sizeof line, file)) {
        char *name = strchr(line, '\t'), *colon = strstr(line, ": ");
        unsigned long home, at;
        size_t code;

        while (name && colon && colon < name)
            colon = strstr(colon + 2, ": ");
        if (!name || !colon ||
            sscanf(colon, ": %zu bytes at %lx are copied to %lx", &code, &home, &at) != 3)
            continue;
        *colon = '\0';
        add_object(p, name + 1, home, at, code);
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
    CHECK(p->n, "(%s names no object that is copied)", log);
    for (size_t i = 0; i < p->n; i++)
        check_place(p, &p->objects[i]);
    find_frames(p, pid);
}
