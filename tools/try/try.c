/* SPDX-License-Identifier: MIT
 *
 * try/try.c: `mvld try`: whether a program gains by mvld, on this machine and with these arguments.
 *
 * Analyses and snapshots go to a scratch folder, and into each method's XDG_CACHE_HOME.  For root,
 * the program's file is replaced in a mount namespace (prepare.c) by one with our interpreter, so
 * that everything is as after `mvld set-interp`.  Before that comes the wrapper that `mvld enable`
 * would make, if any (tools/enable/ways.c), or else `mvld run`.  A program that `enable` refuses is
 * only tried by `mvld run`.  A child does all this; the user's process only waits, and removes the scratch folder.
 */
#include "tools/common/tools.h"
#include "tools/try/try.h"
#include "tools/try/prepare.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const char usage[] =
    "Usage: mvld try [--seconds N] [--json] [--] PROGRAM [ARGUMENT...]\n"
    "\n"
    "Says whether PROGRAM with these arguments gains by mvld on this machine: time, CPU time and\n"
    "memory, plainly and in each way that mvld has, in turns, with intervals of 95 %.  It runs\n"
    "PROGRAM many times, without input and output.  Nothing of the machine is changed, and nothing is\n"
    "left behind, but by PROGRAM itself.\n"
    "\n"
    "  --seconds N  measure for N seconds (20); if six runs in each way take longer, for up to a minute\n"
    "  --json       as JSON\n"
    "  --help       this text\n"
    "\n"
    "Exit code: 0 when it gains, 3 when it does not, 1 when that cannot be said, 2 for wrong usage.\n";

enum { TRY_NO_GAIN = 3, MOST_ROUNDS = 2000 };

struct options {
    double seconds;
    int json;
};

/* ---- the report ---------------------------------------------------------------------- */

/* The first, and so simplest, method that certainly takes less time and is not certainly beaten by
 * a later one; 0: none takes less. */
static size_t best_way(const struct try_runs *r)
{
    size_t best = 0;
    for (size_t i = 2; i < r->n_ways; i++)
        if (!r->ways[i].wrong && try_ratio(r, i, TRY_WALL).high < (best ? try_ratio(r, best, TRY_WALL).low : 1))
            best = i;
    return best;
}

/* The kernel counts at least the parent's memory for a process. */
static int memory_is_known(const struct try_runs *r)
{
    struct rusage own;
    getrusage(RUSAGE_SELF, &own);
    return try_median(r, 0, TRY_MEMORY) > 1.1 * (double)own.ru_maxrss;
}

static void print_ratio(const struct try_runs *r, size_t way, int figure)
{
    struct ratio q = try_ratio(r, way, figure);
    printf("  %5.2f (%.2f to %.2f)", q.median, q.low, q.high);
}

static void print_table(const struct try_runs *r)
{
    int memory = memory_is_known(r);
    printf("%-34s %10s  %-21s  %-21s%s\n", "", "time", "of plain's", "CPU time of plain's", memory ? "  memory" : "");
    for (size_t i = 0; i < r->n_ways; i++) {
        const struct try_way *way = &r->ways[i];
        printf("%-34s ", way->name);
        if (way->wrong) {
            printf("not measured: %s\n", way->wrong);
            continue;
        }
        printf("%7.2f ms", 1e3 * try_median(r, i, TRY_WALL));
        if (i) {
            print_ratio(r, i, TRY_WALL);
            print_ratio(r, i, TRY_CPU);
        } else {
            printf("  %-21s  %-21s", "", "");
        }
        if (memory)
            printf("  %.1f MB", try_median(r, i, TRY_MEMORY) / 1024);
        putchar('\n');
    }
}

static void print_json(const struct try_runs *r, size_t best)
{
    static const char *const names[] = {"wall", "cpu", "memory"};
    struct json j = {.to = stdout};
    json_begin(&j, NULL, '{');
    json_unsigned(&j, "rounds", r->n_rounds);
    json_bool(&j, "gain", best != 0);
    json_string(&j, "best", best ? r->ways[best].name : NULL);
    json_string(&j, "remedy", best ? r->ways[best].remedy : NULL);
    json_begin(&j, "ways", '[');
    for (size_t i = 0; i < r->n_ways; i++) {
        json_begin(&j, NULL, '{');
        json_string(&j, "name", r->ways[i].name);
        json_string(&j, "wrong", r->ways[i].wrong);
        for (int f = 0; f < TRY_FIGURES && !r->ways[i].wrong; f++) {
            struct ratio q = try_ratio(r, i, f);
            json_begin(&j, names[f], '{'); /* nanoseconds, bytes; ratios in millionths */
            json_unsigned(&j, "median", (uint64_t)(try_median(r, i, f) * (f == TRY_MEMORY ? 1024 : 1e9)));
            json_unsigned(&j, "ratio_ppm", (uint64_t)(1e6 * q.median));
            json_unsigned(&j, "low_ppm", (uint64_t)(1e6 * q.low));
            json_unsigned(&j, "high_ppm", (uint64_t)(1e6 * q.high));
            json_end(&j, '}');
        }
        json_end(&j, '}');
    }
    json_end(&j, ']');
    json_end(&j, '}');
}

/* Whether something but the plain ways was measured. */
static int is_known(const struct try_runs *r)
{
    int known = 0;
    for (size_t i = 2; i < r->n_ways; i++)
        known |= !r->ways[i].wrong;
    return known;
}

static int report(const struct try_runs *r, const struct options *o, const char *name)
{
    size_t best = best_way(r);
    if (!is_known(r)) {
        if (o->json)
            print_json(r, 0);
        complain("try", "%s: nothing under mvld could be measured: %s", name, r->ways[2].wrong);
        return TOOL_FAILED;
    }
    if (o->json) {
        print_json(r, best);
        return best ? TOOL_OK : TRY_NO_GAIN;
    }
    print_table(r);
    printf("%zu rounds\n\n", r->n_rounds);
    print_name(stdout, name);
    if (!best) {
        puts(": no gain: leave it");
        return TRY_NO_GAIN;
    }
    struct ratio q = try_ratio(r, best, TRY_WALL);
    printf(" takes %.2f of the time with %s (%.2f to %.2f): worth it\n  ", q.median, r->ways[best].name, q.low, q.high);
    print_name(stdout, r->ways[best].remedy);
    putchar('\n');
    return TOOL_OK;
}

/* ---- the child that measures --------------------------------------------------------- */

static int measure(const struct options *o, const char *scratch, char **argv)
{
    struct try_runs runs = {0};
    const char *why = prepare_ways(&runs, scratch, argv);
    if (!why)
        why = try_measure(&runs, o->seconds, MOST_ROUNDS);
    if (why) {
        complain("try", "%s: %s", argv[0], why);
        return TOOL_FAILED;
    }
    int status = report(&runs, o, argv[0]);
    if (ferror(stdout) || fflush(stdout)) {
        complain("try", "the output cannot be written: %s", strerror(errno));
        return TOOL_FAILED;
    }
    return status;
}

static int measure_in_child(const struct options *o, char **argv)
{
    const char *folder = getenv("TMPDIR");
    char *scratch = must_print("%s/mvld-try-XXXXXX", folder && *folder ? folder : "/tmp");
    int status = 0;

    if (!mkdtemp(scratch)) {
        complain("try", "%s: %s", scratch, strerror(errno));
        return TOOL_FAILED;
    }
    fflush(stdout);
    pid_t pid = fork();
    if (!pid)
        _exit(measure(o, scratch, argv));
    signal(SIGINT, SIG_IGN); /* the child ends by it, and we clean up */
    signal(SIGTERM, SIG_IGN);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    remove_tree(scratch);
    free(scratch);
    return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : TOOL_FAILED;
}

int tool_try(int argc, char **argv)
{
    static const struct option options[] = {{"seconds", required_argument, NULL, 's'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct options o = {.seconds = 20};
    char *end;
    int c;

    while ((c = getopt_long(argc, argv, "+h", options, NULL)) != -1) {
        switch (c) {
        case 's':
            o.seconds = strtod(optarg, &end);
            if (*end || !(o.seconds > 0 && o.seconds <= 3600)) {
                complain("try", "--seconds %s: not a number above 0, up to 3600", optarg);
                return TOOL_USAGE;
            }
            break;
        case 'j': o.json = 1; break;
        case 'h': fputs(usage, stdout); return TOOL_OK;
        default: return TOOL_USAGE;
        }
    }
    if (optind == argc) {
        fputs(usage, stderr);
        return TOOL_USAGE;
    }
    return measure_in_child(&o, argv + optind);
}
