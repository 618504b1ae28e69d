/* SPDX-License-Identifier: MIT
 *
 * enable/process.c: `mvld status -p PID`: reports mvld's work in a process, by its mappings.
 * Nothing is stopped.
 */
#include "tools/attach/attach.h"
#include "tools/cache/state.h"
#include "tools/enable/enable.h"
#include "tools/patch/patch.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct seen {
    uint64_t loader_at;      /* where ours is mapped, whatever its file is called there; or 0 */
    char *snapshot;          /* the folder from which code is mapped, or NULL */
    char *loader;            /* our loader's file, or NULL */
    char **passes;           /* mapped files that are not in the host loader's lists */
    size_t n_passes;
    uint64_t overlays;       /* bytes of code from the snapshot */
    uint64_t made;           /* of code that is in no file: moved or added by passes */
    uint64_t private_code;   /* of all code: private to this process */
    uint64_t private_all;
};

/* Is this one of the objects that the host loader lists, or the host loader, or a program that runs? */
static int is_listed(const struct attach *a, const char *path)
{
    const char *base = strrchr(path, '/') + 1;

    for (size_t i = 0; i < a->n_objects; i++) {
        const char *slash = strrchr(a->objects[i].name, '/');

        if (!strcmp(a->objects[i].name, path) || (slash && !strcmp(slash + 1, base)))
            return 1;
        char *real = realpath(a->objects[i].name, NULL);
        int same = real && !strcmp(real, path);

        free(real);
        if (same)
            return 1;
    }
    return !strncmp(base, "ld-", 3);
}

/* FOLDER of FOLDER/FILE, if it is a snapshot's. */
static char *snapshot_of(const char *path)
{
    char *folder = must_print("%.*s", (int)(strrchr(path, '/') - path), path), *name = strrchr(folder, '/');

    if (name && cached_is_folder(name + 1) && strstr(folder, "/snapshots/"))
        return folder;
    free(folder);
    return NULL;
}

char *snapshot_of_process(pid_t pid)
{
    char *maps = must_print("/proc/%d/maps", pid), line[4400], protection[8], path[4300] = "/", *found = NULL;
    FILE *lines = fopen(maps, "re");

    while (lines && !found && fgets(line, sizeof line, lines))
        if (sscanf(line, "%*x-%*x %7s %*s %*s %*s /%4298[^\n]", protection, path + 1) == 2 && protection[2] == 'x')
            found = snapshot_of(path);
    if (lines)
        fclose(lines);
    free(maps);
    return found;
}

static void see_code(struct seen *s, const struct attach *a, const char *path, uint64_t start, uint64_t size)
{
    char *folder;

    if (s->loader_at && start == s->loader_at) {
        s->loader = must_print("%s", path);
        return;
    }
    if (*path != '/') {
        s->made += strncmp(path, "[v", 2) ? size : 0; /* vdso, vsyscall */
        return;
    }
    folder = snapshot_of(path);
    if (folder)
        s->overlays += size;
    if (folder && !s->snapshot) {
        s->snapshot = folder;
        return;
    }
    free(folder);
    if (folder)
        return;
    if (!is_listed(a, path) && strcmp(path, a->objects[0].name)) {
        s->passes = must_grow(s->passes, s->n_passes + 1, sizeof *s->passes);
        s->passes[s->n_passes++] = must_print("%s", path);
    }
}

static int see(struct seen *s, const struct attach *a)
{
    int fd = openat(a->folder, "smaps", O_RDONLY | O_CLOEXEC);
    FILE *smaps = fd < 0 ? NULL : fdopen(fd, "r");
    char line[4400], protection[8] = "", path[4300];
    uint64_t start, end, kilobytes;

    if (!smaps)
        return -1;
    while (fgets(line, sizeof line, smaps)) {
        *path = 0;
        if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %4299[^\n]", &start, &end, protection, path) >= 3) {
            if (protection[2] == 'x')
                see_code(s, a, path, start, end - start);
        } else if (sscanf(line, "Private_Dirty: %lu", &kilobytes) == 1) {
            s->private_all += kilobytes << 10;
            s->private_code += protection[2] == 'x' ? kilobytes << 10 : 0;
        }
    }
    fclose(smaps);
    return 0;
}

static void print_text(const struct seen *s, const struct attach *a)
{
    printf("process %d (", a->pid);
    print_name(stdout, a->objects[0].name);
    printf("): ");
    if (!s->loader) {
        puts("without mvld");
        return;
    }
    printf("under %s\n  snapshot: ", s->loader);
    if (s->snapshot)
        printf("%s, %.1f MiB of code\n", s->snapshot, (double)s->overlays / (1 << 20));
    else
        printf("none is applied; mvld doctor %s says why\n", a->objects[0].name);
    printf("  passes that ran here:");
    for (size_t i = 0; i < s->n_passes; i++)
        printf(" %s", s->passes[i]);
    printf("%s\n  code of no file: %lu KiB; private: %lu KiB, of these code %lu KiB\n", s->n_passes ? "" : " none",
           s->made >> 10, s->private_all >> 10, s->private_code >> 10);
}

static void print_json(struct json *j, const struct seen *s, const struct attach *a)
{
    json_begin(j, NULL, '{');
    json_signed(j, "pid", a->pid);
    json_string(j, "program", a->objects[0].name);
    json_string(j, "loader", s->loader);
    json_string(j, "snapshot", s->snapshot);
    json_unsigned(j, "code", s->overlays);
    json_begin(j, "passes", '[');
    for (size_t i = 0; i < s->n_passes; i++)
        json_string(j, NULL, s->passes[i]);
    json_end(j, ']');
    json_unsigned(j, "made", s->made);
    json_unsigned(j, "private", s->private_all);
    json_unsigned(j, "private_code", s->private_code);
    json_end(j, '}');
}

int status_of_process(pid_t pid, struct json *j)
{
    struct attach *a = attach_open(pid);
    struct seen s = {0};
    struct moved m;
    int status = TOOL_OK;

    if (!a->why[0]) {
        moved_find_loader(a, &m);
        s.loader_at = m.base;
        a->why[0] = 0;
    }
    if (a->why[0] || attach_objects(a)) {
        complain("status", "%s", a->why);
        status = TOOL_FAILED;
    } else if (see(&s, a)) {
        complain("status", "process %d has ended", pid);
        status = TOOL_FAILED;
    } else if (j) {
        print_json(j, &s, a);
    } else {
        print_text(&s, a);
    }
    for (size_t i = 0; i < s.n_passes; i++)
        free(s.passes[i]);
    free(s.passes);
    free(s.snapshot);
    free(s.loader);
    attach_close(a);
    return status;
}
