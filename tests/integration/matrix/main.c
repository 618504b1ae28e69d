/* SPDX-License-Identifier: MIT
 *
 * matrix [near|far]: drives what matrix.py linked.  For every object with call sites:
 * what each mode gives is recorded while nothing is committed.  Then, for each
 * mode: commit, change the switch: the old result stays (or, where something
 * without attributes is called, the new one comes); commit: the new one; revert:
 * it follows the switch.  After each commit every recorded site must be direct
 * to the variant in force, or hold its body; after a revert, the linker's bytes.
 *
 * With a word: mode 1 was committed before constructors.  "near": nothing is out of
 * reach, so that no site may be left.
 */
#define _GNU_SOURCE
#include "part.h"
#include "../named_by.h"

#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Not every object has call sites. */
#pragma weak call_E
#pragma weak call_A
#pragma weak call_B
#pragma weak sites_E
#pragma weak sites_A
#pragma weak sites_B

#define X 5
#define MODES 4 /* the last has no variant */
#define SITES 32

static int near, committed;
static const struct object {
    const char *name;
    int (*call)(int);
    struct part_range (*sites)(void);
} *object, objects[] = {{"E", call_E, sites_E}, {"A", call_A, sites_A}, {"B", call_B, sites_B}};

static struct site {
    const char *object;
    const unsigned char *at;
    unsigned char was[6];
    void *callee;
    const struct multiverse_info_fn *info;
    int is_ours; /* what it calls has attributes */
} site[SITES];
static size_t n_sites;

static void fail(const char *what, int got, int expected)
{
    printf("%s: %s: %d, expected %d, mode %d\n%s%s\n", object->name, what, got, expected, mode,
           multiverse_error(), multiverse_report());
    exit(1);
}

static void check(const char *what, int got, int expected)
{
    if (got != expected)
        fail(what, got, expected);
}

static void read_sites(void)
{
    struct part_range r = object->sites();

    for (const struct part_site *s = r.start; s < r.stop && n_sites < SITES; s++) {
        struct site *new = &site[n_sites++];

        new->object = object->name;
        new->at = (const unsigned char *)&s->site + s->site;
        memcpy(new->was, new->at, 6);
        new->callee = named_by(&s->slot);
        new->info = multiverse_info_fn(new->callee);
        new->is_ours = object->call(X) / 1000 != 7;
    }
    check("recorded calls, at least 3", r.stop - r.start >= 3, 1);
}

/* Where the 5- or 6-byte call or jump leads, or NULL: none. */
static const unsigned char *target(const unsigned char *at)
{
    int32_t distance;
    int prefix = *at == 0x67 || *at == 0x40;

    if (at[prefix] != 0xe8 && at[prefix] != 0xe9)
        return NULL;
    memcpy(&distance, at + prefix + 1, 4);
    return at + prefix + 5 + distance;
}

static int is_far(const struct site *s)
{
    intptr_t distance = (intptr_t)((uintptr_t)s->info->active - (uintptr_t)s->at);

    return distance > 0x7fff0000 || distance < -0x7fff0000;
}

static int check_sites(int mode_committed)
{
    int left = 0;

    for (struct site *s = site; s < site + n_sites; s++) {
        s->info = multiverse_info_fn(s->callee); /* as it is now */
        if (s->is_ours != (s->info != NULL) || (s->info && mode_committed != 3 && !s->info->active))
            fail("a site's function is not known, or not bound", !!s->info, s->is_ours);
        int same = !memcmp(s->at, s->was, 5);
        int length = s->was[0] == 0xe8 || s->was[0] == 0xe9 || s->was[0] == 0xeb ? 5 : 6;

        if (!s->info || !s->info->active) {
            if (memcmp(s->at, s->was, (size_t)length))
                fail("a site of nothing bound was changed", 0, 1);
        } else if (target(s->at) == s->info->active) {
        } else if (same && is_far(s)) {
            left++;
        } else if (same || target(s->at) || s->at[0] == 0xff) {
            printf("in %s, site %zu: %02x %02x %02x\n", s->object, (size_t)(s - site), s->at[0],
                   s->at[1], s->at[2]);
            fail("a site is not direct", 0, 1);
        }
    }
    return left;
}

/* The functions' own counts of sites are those that the tables hold. */
static void check_counts(void)
{
    for (struct site *s = site; s < site + n_sites; s++) {
        size_t n = 0;

        for (struct site *t = site; t < site + n_sites; t++)
            n += s->info && t->info && t->info->function == s->info->function;
        if (s->info)
            check("call sites of a function", (int)s->info->n_callsites, (int)n);
    }
}

int main(int argc, char **argv)
{
    int result[3][MODES], dynamic, bound = 0;

    committed = argc > 1;
    near = committed && !strcmp(argv[1], "near");
    object = objects;
    if (committed) { /* committed before constructors, with mode 1 */
        check("mode", mode, 1);
        mode = 0;
    }
    for (object = objects; object < objects + 3; object++)
        if (object->call) {
            int before = object->call(X);

            if (committed && before / 1000 != 7)
                check("before main", before % 1000, 3 * X);
        }
    object = objects;
    check("revert", multiverse_revert() >= 0, 1);
    for (object = objects; object < objects + 3; object++) {
        if (!object->call)
            continue;
        read_sites();
        for (mode = 0; mode < MODES; mode++)
            result[object - objects][mode] = object->call(X);
        for (mode = 0; mode < 3; mode++)
            if (result[object - objects][0] / 1000 != 7)
                check("the generic", object->call(X) % 1000, mode == 0 ? 0 : mode == 1 ? 3 * X : X);
    }
    for (int v = 0; v < 3 * MODES; v++) {
        int now = v % MODES, then = (v * 7 + 1) % 3;

        object = objects;
        mode = now;
        if (multiverse_commit() < 0)
            fail("commit", -1, 0);
        mode = then;
        for (object = objects; object < objects + 3; object++) {
            if (!object->call)
                continue;
            dynamic = result[object - objects][0] / 1000 == 7 || now == 3;
            check("committed", object->call(X), result[object - objects][dynamic ? then : now]);
            bound += !dynamic;
        }
        object = objects;
        if (check_sites(now) && near)
            fail("sites out of reach", 1, 0);
        check_counts();
        if (v % 2)
            continue; /* from variant to variant, too */
        check("revert", multiverse_revert() >= 0, 1);
        for (struct site *s = site; s < site + n_sites; s++)
            check("the linker's bytes", memcmp(s->at, s->was, 5), 0);
        for (object = objects; object < objects + 3; object++)
            if (object->call)
                check("reverted", object->call(X), result[object - objects][then]);
    }
    for (object = objects; object < objects + 3; object++)
        if (object->call)
            printf("%s%d ", object->name, result[object - objects][0] / 1000);
    check("objects with call sites", n_sites > 0, 1);
    printf("%zu sites, %d bound calls\n", n_sites, bound);
    return 0;
}
