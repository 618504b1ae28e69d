/* SPDX-License-Identifier: MIT
 *
 * analyze/explain.c: prints the results of an analysis for people.
 */
#include "tools/analyze/analyze.h"
#include "tools/show/disassemble.h"
#include "tools/common/tools.h"

#include "rimf/analyze/analyser.h"

#include <inttypes.h>

#define AROUND 32u /* bytes printed before and behind a place */

void print_reasons(const uint64_t units[ANALYSIS_REASONS], const uint64_t bytes[ANALYSIS_REASONS])
{
    uint64_t all = 0;

    for (int i = 0; i < ANALYSIS_REASONS; i++)
        all += bytes[i];
    printf("  %9s %12s\n", "functions", "bytes");
    for (int i = 0; i < ANALYSIS_REASONS; i++)
        if (units[i])
            printf("  %9" PRIu64 " %12" PRIu64 " %8.4f %%  %s\n", units[i], bytes[i],
                   100.0 * (double)bytes[i] / (double)all, analysis_reason_words((enum analysis_reason)i));
}

struct entered count_entered(const struct analyser *a)
{
    const struct unit *units = units_of(a);
    struct entered n = {0, 0};

    for (size_t i = 0; i < a->units.n && !a->object.flags; i++) {
        n.reached += units[i].reached;
        n.heads += units[i].head;
    }
    return n;
}

void print_entered(const struct entered *n)
{
    printf("  %" PRIu64 " movable functions are entered by others; at %" PRIu64
           " of them no jump can be written\n",
           n->reached, n->reached - n->heads);
}

static void print_place(const struct elf_file *f, uint64_t address)
{
    const struct elf_symbol *s = elf_function_at(f, address);

    printf("0x%" PRIx64, address);
    if (!s)
        return;
    fputs(" <", stdout);
    print_name(stdout, s->name);
    if (address != s->address)
        printf("+0x%" PRIx64, address - s->address);
    putchar('>');
}

/* Prints the instructions of `u` around the place that gave the reason, if it is in code. */
static void print_code(const struct analyser *a, const struct elf_file *f, uint32_t where)
{
    const struct unit *u = unit_at(a, where);
    uint32_t from, end;

    if (!u)
        return;
    from = where - u->start > AROUND ? where - AROUND : u->start;
    while (from < where && !is_start(a, from))
        from++;
    end = u->end - where > AROUND ? where + AROUND : u->end;
    disassemble_range(f, from, end - from);
}

static void print_unit(const struct analyser *a, const struct elf_file *f, const struct unit *u,
                       int disassemble)
{
    print_place(f, u->start);
    printf(", %u bytes: %s, at ", u->end - u->start, analysis_reason_words(u->reason));
    print_place(f, u->where);
    puts(unit_is_decoded(u) ? "; decoded, calls in it can be patched" : "");
    if (disassemble)
        print_code(a, f, u->where);
}

static void print_all(const struct analyser *a, const struct elf_file *f, int disassemble)
{
    const struct unit *units = units_of(a);
    uint64_t counts[ANALYSIS_REASONS] = {0}, bytes[ANALYSIS_REASONS] = {0};
    struct entered entered = count_entered(a);

    for (size_t i = 0; i < a->units.n; i++) {
        counts[units[i].reason]++;
        bytes[units[i].reason] += units[i].end - units[i].start;
    }
    print_name(stdout, f->path);
    printf(": %zu calls through PLT and GOT, %zu references, %zu jump tables\n", a->calls.n,
           a->references.n, a->jump_tables.n);
    if (!a->object.flags)
        print_entered(&entered);
    if (a->object.flags & ANALYSIS_FIXED)
        puts("  linked at a fixed address: nothing of it can move");
    if (a->object.flags & ANALYSIS_TEXTREL)
        puts("  relocations change its code: nothing of it can move");
    if (a->object.flags & ANALYSIS_RESTARTS)
        puts("  it has restartable sequences: nothing of it can move");
    if (a->object.flags & ANALYSIS_PROFILED)
        puts("  it, a profiler or a sanitizer may identify its code by address: nothing of it can move");
    if (a->object.flags & ANALYSIS_LOOKED_UP)
        puts("  tables hold return addresses of its code, which a run time looks up (a frame table of a "
             "garbage collector): nothing of it can move or be changed");
    if (a->object.flags & ANALYSIS_MAPS)
        puts("  it reads /proc/self/maps, perhaps to find its own file: nothing of it can move or be changed");
    print_reasons(counts, bytes);
    for (size_t i = 0; i < a->units.n; i++)
        if (units[i].reason)
            print_unit(a, f, &units[i], disassemble);
}

int explain(const char *path, int disassemble)
{
    struct analyser a;
    struct elf_file f = {0};
    int failed = analyser_run(&a, path);

    if (failed)
        complain("analyze", "%s: %s", path, a.object.error);
    if (!failed && elf_file_open(&f, path)) {
        complain("analyze", "%s: %s", path, f.error);
        failed = -1;
    }
    if (!failed)
        print_all(&a, &f, disassemble);
    elf_file_close(&f);
    analyser_free(&a);
    return failed;
}
