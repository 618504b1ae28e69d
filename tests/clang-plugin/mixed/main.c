/* SPDX-License-Identifier: MIT
 *
 * main.c: calls all points for all values of the switches: directly, through pointers and from other
 * units; before a commit, after it, after it with other values in the switches, and after a revert.  A
 * line a state.  With -DMULTIVERSE=0 the program prints what has to come out.  With 1 it also looks at
 * the bytes of each entry, with 2 at the calls that GCC recorded.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mixed.h"
#if MULTIVERSE
#include "../../gcc-plugin/descriptors.h"
#include <multiverse.h>
#endif

struct values {
    bool verbose;
    enum mode mode;
    int level;
    uint64_t chosen;
};

static const struct {
    const char *name;
    int (*call)(int);
    bool is_point;
} table[] = {
    {"here", here, true}, {"here_ranges", here_ranges, true}, {"here_calls", here_calls, true},
    {"there", there, true}, {"there_ranges", there_ranges, true}, {"there_calls", there_calls, true},
    {"library", library, true}, {"library_ranges", library_ranges, true},
    {"library_chosen", library_chosen, true}, {"call_here", call_here, false},
    {"call_there", call_there, false}, {"call_library", call_library, false},
};
static const unsigned n = sizeof table / sizeof *table;

static void put(struct values v)
{
    verbose = v.verbose, mode = v.mode, level = v.level, chosen = v.chosen;
}

static void print(const char *phase)
{
    printf("%s", phase);
    for (unsigned i = 0; i < n; i++)
        printf(" %d", table[i].call(21 + (int)i));
    putchar('\n');
}

static void need(bool good, const char *what, const char *whose)
{
    if (good)
        return;
    printf("%s: %s\n", whose, what);
    exit(1);
}

/* Each point's entry: bound to the variant for the values of now, or as the compiler left it. */
static void check_entries(bool committed)
{
#if MULTIVERSE
    static const unsigned char nop[5] = {0x0f, 0x1f, 0x44, 0x00, 0x00};
    for (unsigned i = 0; i < n; i++) {
        if (!table[i].is_point)
            continue;
        const struct found_function *f = find_named(table[i].name);
        int distance;
        need(f, "no record", table[i].name);
        for (unsigned k = 0; k < f->n_variants; k++)
            need(variant_at(f, k).size > 0, "variant without a size", table[i].name);
        if (!committed) {
            need(!memcmp(f->pad, nop, 5), "entry is no NOP", table[i].name);
            continue;
        }
        need(*(unsigned char *)f->pad == 0xe9, "entry is no jump", table[i].name);
        memcpy(&distance, (char *)f->pad + 1, 4);
        need((char *)f->pad + 5 + distance == variant_of(f->body), "another variant", table[i].name);
        need(variant_of(f->body) != f->body, "no variant", table[i].name);
        need(multiverse_is_committed(f->body) == 1, "not committed", table[i].name);
    }
#else
    (void)committed;
#endif
}

static void commit(void)
{
#if MULTIVERSE
    need(multiverse_commit() >= 0, multiverse_error(), "commit");
    need(multiverse_status()->n_refused == 0 && multiverse_status()->n_generic == 0, "not all bound", "commit");
#endif
}

static void revert(void)
{
#if MULTIVERSE
    need(multiverse_revert() > 0, multiverse_error(), "revert");
#endif
}

static void each(struct values now, struct values later)
{
    put(now);
    print("before");
    commit();
    check_entries(true);
    print("after");
    put(later);
#if MULTIVERSE
    print("stale");
#else
    put(now);
    print("stale");
    put(later);
#endif
    revert();
    check_entries(false);
    print("reverted");
}

/* Calls in GCC's units, of points of both compilers. */
static void check_sites(void)
{
#if MULTIVERSE == 2
    unsigned sites = 0;
    for (unsigned i = 0; i < n; i++)
        if (table[i].is_point)
            sites += (unsigned)multiverse_info_fn(find_named(table[i].name)->body)->n_callsites;
    need(sites >= 5, "no recorded calls", "sites");
#endif
}

int main(void)
{
    static const enum mode modes[] = {FAST, PLAIN, SLOW};
    static const int levels[] = {-2147483647 - 1, -2, -1, 3, 4, 9, 10, 2147483647};
    struct values last = {true, SLOW, 9, 1};

#if MULTIVERSE
    descriptors_read();
#endif
    check_entries(false);
    for (unsigned i = 0; i < 2 * 3 * 8 * 2; i++) {
        struct values v = {i & 1, modes[i / 2 % 3], levels[i / 6 % 8], i / 48 ? 3 : 1};
        each(v, last);
        last = v;
    }
    check_sites();
    return 0;
}
