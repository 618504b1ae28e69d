/* SPDX-License-Identifier: MIT
 *
 * patch/write.c: writes jumps, or the bytes that they replaced, while all threads are stopped and none of them is
 * inside these bytes.
 */
#include "tools/patch/patch.h"
#include "tools/common/tools.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STAND_MS 3000 /* until no thread stands in what is written */
#define STOP_MS 1000

/* Adds code that changes code: a thread in it may hold a copy of bytes that we write.  Our loader may have the name of
 * the machine's, over which it is mounted. */
static size_t add_writers(const struct attach *a, struct attach_range *ranges, size_t room)
{
    static const char *const names[] = {"/libmultiverse.so", "/multiverse.so"};
    uint64_t loader = moved_loader(a);
    char *maps = attach_file(a, "maps", NULL);
    size_t n = 0;

    for (const char *line = maps; line && *line; line = strchr(line, '\n'), line += line != NULL) {
        const char *end = strchr(line, '\n');
        char protection[8], path[4200] = "";
        uint64_t start, stop;

        if (!end || sscanf(line, "%lx-%lx %7s %*s %*s %*s %4199[^\n]", &start, &stop, protection, path) < 4 ||
            protection[2] != 'x')
            continue;
        int writes = start == loader;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            writes |= strstr(path, names[i]) != NULL;
        if (writes && n < room)
            ranges[n++] = (struct attach_range){start, stop - start, 0};
    }
    free(maps);
    return n;
}

struct writing {
    struct patch_place *places; /* with `now` to be written; `was` to be there */
    size_t n;
    struct attach_range *ranges;
    size_t n_ranges;
};

static int write_places(struct attach *a, const struct writing *w)
{
    uint8_t bytes[PATCH_JUMP];
    size_t done = 0;

    for (size_t i = 0; i < w->n; i++)
        if (attach_read(a, w->places[i].at, bytes, PATCH_JUMP) || memcmp(bytes, w->places[i].was, PATCH_JUMP) != 0)
            return attach_fail(a, "process %d: somebody else has changed the code meanwhile", a->pid);
    while (done < w->n && !attach_write(a, w->places[done].at, w->places[done].now, PATCH_JUMP))
        done++;
    if (done == w->n)
        return 0;
    attach_fail(a, "process %d: its code cannot be written: %s", a->pid, strerror(errno));
    while (done-- > 0)
        attach_write(a, w->places[done].at, w->places[done].was, PATCH_JUMP);
    return -1;
}

/* Tries until no thread is inside the bytes. */
static int write_standing(struct attach *a, const struct writing *w)
{
    uint64_t until = clock_ns() + STAND_MS * UINT64_C(1000000);
    pid_t thread;
    int err;

    do {
        if (attach_stop_others(a, STOP_MS))
            return -1;
        attach_step_out(a, w->ranges, w->n_ranges);
        if (attach_stop_others(a, STOP_MS)) /* a thread that ran may have created others */
            return -1;
        thread = attach_stands_in(a, w->ranges, w->n_ranges);
        err = thread ? 0 : write_places(a, w);
        attach_let_go(a);
        if (!thread)
            return err;
        usleep(1000);
    } while (clock_ns() < until);
    return attach_fail(a, "process %d: thread %d stands where code is to be written, and does not go on", a->pid, thread);
}

int write_all(struct attach *a, struct patch_place *places, size_t n, const uint64_t *pages, size_t n_pages)
{
    struct writing w = {.places = places, .n = n, .ranges = must_alloc(n + n_pages + 32, sizeof *w.ranges)};
    int err;

    w.n_ranges = add_writers(a, w.ranges, 32);
    for (size_t i = 0; i < n; i++) /* at its first byte anybody may stand */
        w.ranges[w.n_ranges++] = (struct attach_range){places[i].at + 1, PATCH_JUMP - 1, 1};
    for (size_t i = 0; i < n_pages; i++)
        w.ranges[w.n_ranges++] = (struct attach_range){pages[i], PATCH_PAGE, 1};
    err = write_standing(a, &w);
    free(w.ranges);
    return err;
}
