/* SPDX-License-Identifier: MIT
 *
 * analyze.c: `mvld analyze`: makes analyses (rimf/analysis/analysis.h) of files.
 */
#include "tools/analyze/analyze.h"
#include "rimf/analyze/analyser.h"
#include "rimf/base/cache.h"
#include "tools/common/paths.h"
#include "tools/common/tools.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char usage[] =
    "Usage: mvld analyze [OPTION...] FILE...\n"
    "       mvld analyze [OPTION...] --program PROGRAM | --all\n"
    "       mvld analyze --explain [--disassemble] FILE...\n"
    "\n"
    "Analyses the code of ELF files and leaves what is proven in analysis files, which\n"
    "passes that change code read.  Files that have not changed since are passed over.\n"
    "\n"
    "  --program PROGRAM  PROGRAM, found as a shell finds it, and every library that it\n"
    "                     is linked with; not what it loads later (dlopen)\n"
    "  --all              every program and library in the folders of packages\n"
    "  --output DIR       where analyses go, DIR/ab/cdef….mvld for build-id abcdef…;\n"
    "                     else $XDG_CACHE_HOME/mvld/analysis; without XDG_CACHE_HOME for root\n"
    "                     /var/cache/mvld/analysis, for others ~/.cache/mvld/analysis\n"
    "  --again            also files that have not changed\n"
    "  --json             what became of each file, as JSON\n"
    "  --jobs N           so many files at once (the number of processors)\n"
    "  --explain          write nothing; say what stays, and why\n"
    "  --disassemble      the same, with the code at hand\n"
    "  --help             this text\n"
    "\n"
    "Exit code: 0; 1 when a file could not be analysed, or one that was named has no\n"
    "build-id or no code; 2 for wrong usage.\n";

struct wish {
    struct paths paths;
    const char *folder;
    unsigned jobs;
    int again, all, explain, disassemble, json, help;
};

/* ---- results ------------------------------------------------------------------------ */

struct tally {
    const struct wish *wish;
    struct json *json;
    size_t done, outcomes[4];
    uint64_t code;
    uint64_t units[ANALYSIS_REASONS], bytes[ANALYSIS_REASONS], calls, references, jump_tables, size;
    struct entered entered;
};

static void add(struct tally *t, const struct result *r)
{
    t->done++;
    t->outcomes[r->outcome]++;
    t->code += r->code;
    t->size += r->analysis;
    t->calls += r->calls;
    t->references += r->references;
    t->jump_tables += r->jump_tables;
    t->entered.reached += r->entered.reached;
    t->entered.heads += r->entered.heads;
    for (int i = 0; i < ANALYSIS_REASONS; i++) {
        t->units[i] += r->units[i];
        t->bytes[i] += r->bytes[i];
    }
}

static void print_line(const struct result *r)
{
    uint64_t units = 0, bytes = 0;

    for (int i = 0; i < ANALYSIS_REASONS; i++) {
        units += r->units[i];
        bytes += r->bytes[i];
    }
    printf("%" PRIu64 " functions, %" PRIu64 " stay; %" PRIu64 " of %" PRIu64
           " bytes proven; %" PRIu64 " calls\n",
           units, units - r->units[ANALYSIS_PROVEN], r->bytes[ANALYSIS_PROVEN], bytes, r->calls);
}

static void json_result(struct json *j, const char *path, const struct result *r)
{
    static const char *const outcomes[] = {
        [OUTCOME_WRITTEN] = "written", [OUTCOME_UP_TO_DATE] = "up to date", [OUTCOME_REFUSED] = "refused",
        [OUTCOME_FAILED] = "failed"};

    json_begin(j, NULL, '{');
    json_string(j, "file", path);
    json_string(j, "outcome", outcomes[r->outcome]);
    json_string(j, "why", *r->why ? r->why : NULL);
    json_begin(j, "functions", '{'); /* of written analyses; by the reason why functions stay */
    for (int i = 0; i < ANALYSIS_REASONS; i++)
        if (r->units[i])
            json_unsigned(j, analysis_reason_words((enum analysis_reason)i), r->units[i]);
    json_end(j, '}');
    json_unsigned(j, "calls", r->calls);
    json_unsigned(j, "references", r->references);
    json_unsigned(j, "jump_tables", r->jump_tables);
    json_end(j, '}');
}

static void done(void *cookie, const struct result *r)
{
    struct tally *t = cookie;
    const char *path = t->wish->paths.at[r->index];

    add(t, r);
    progress(NULL);
    if (t->json)
        json_result(t->json, path, r);
    if (r->outcome == OUTCOME_FAILED || (r->outcome == OUTCOME_REFUSED && !t->wish->all)) {
        complain("analyze", "%s: %s", path, r->why);
    } else if (!t->wish->all && !t->json) {
        print_name(stdout, path);
        fputs(": ", stdout);
        if (r->outcome == OUTCOME_UP_TO_DATE)
            puts("up to date");
        else
            print_line(r);
    }
    progress("[%zu/%zu] %.60s", t->done, t->wish->paths.n, path);
}

static void print_tally(const struct tally *t, double seconds)
{
    printf("%zu analysed, %zu up to date, %zu left out (no build-id, no code), %zu failed\n",
           t->outcomes[OUTCOME_WRITTEN], t->outcomes[OUTCOME_UP_TO_DATE],
           t->outcomes[OUTCOME_REFUSED], t->outcomes[OUTCOME_FAILED]);
    if (!t->outcomes[OUTCOME_WRITTEN])
        return;
    printf("%.1f MB of executable segments in %.1f s\n", (double)t->code / 1e6, seconds);
    print_entered(&t->entered);
    print_reasons(t->units, t->bytes);
    printf("%" PRIu64 " calls through PLT and GOT, %" PRIu64 " references, %" PRIu64
           " jump tables\n",
           t->calls, t->references, t->jump_tables);
}

/* ---- the command line --------------------------------------------------------------------- */

static const char *default_folder(void)
{
    static char folder[4096];
    const char *wrong;

    if (!cache_is_own(geteuid(), getenv("XDG_CACHE_HOME")))
        return ANALYSIS_SYSTEM_FOLDER;
    if (path_users_cache(folder, sizeof folder, "analysis", &wrong))
        return folder;
    complain("analyze", "%s", wrong ? wrong : "there is no HOME");
    return NULL;
}

static int parse_jobs(const char *text, unsigned *jobs)
{
    char *end;
    long n = strtol(text, &end, 10);

    if (!*text || *end || n < 1 || n > 256) {
        complain("analyze", "--jobs: `%s' is no number from 1 to 256", text);
        return -1;
    }
    *jobs = (unsigned)n;
    return 0;
}

static int parse(struct wish *wish, int argc, char **argv)
{
    static const struct option options[] = {
        {"program", required_argument, NULL, 'p'}, {"all", no_argument, NULL, 'a'},
        {"output", required_argument, NULL, 'o'},  {"again", no_argument, NULL, 'g'},
        {"jobs", required_argument, NULL, 'j'},    {"explain", no_argument, NULL, 'e'},
        {"disassemble", no_argument, NULL, 'd'},   {"json", no_argument, NULL, 'n'},
        {"help", no_argument, NULL, 'h'},
        {0}};
    int c;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (c) {
        case 'p':
            if (paths_of_program(&wish->paths, optarg))
                return TOOL_FAILED;
            break;
        case 'a': wish->all = 1; break;
        case 'o': wish->folder = optarg; break;
        case 'g': wish->again = 1; break;
        case 'j':
            if (parse_jobs(optarg, &wish->jobs))
                return TOOL_USAGE;
            break;
        case 'e': wish->explain = 1; break;
        case 'd': wish->explain = wish->disassemble = 1; break;
        case 'n': wish->json = 1; break;
        case 'h': wish->help = 1; return TOOL_OK;
        default: return TOOL_USAGE;
        }
    }
    for (int i = optind; i < argc; i++)
        paths_add(&wish->paths, argv[i]);
    if (wish->all)
        paths_of_system(&wish->paths);
    if (wish->json && wish->explain) {
        complain("analyze", "--json and --explain exclude each other; see mvld analyze --help");
        return TOOL_USAGE;
    }
    if (!wish->paths.n)
        fputs(usage, stderr);
    return wish->paths.n ? TOOL_OK : TOOL_USAGE;
}

static int explain_all(const struct wish *wish)
{
    int status = TOOL_OK;

    for (size_t i = 0; i < wish->paths.n; i++)
        if (explain(wish->paths.at[i], wish->disassemble))
            status = TOOL_FAILED;
    return status;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int analyse_all(const struct wish *wish)
{
    struct json json = {.to = stdout};
    struct tally tally = {.wish = wish, .json = wish->json ? &json : NULL};
    struct jobs jobs = {.paths = &wish->paths, .folder = wish->folder, .at_once = wish->jobs,
                        .again = wish->again, .done = done, .cookie = &tally};
    double start = now();

    if (wish->json)
        json_begin(&json, NULL, '[');
    progress("[0/%zu] %.60s", wish->paths.n, wish->paths.at[0]);
    jobs_run(&jobs);
    progress(NULL);
    if (wish->json)
        json_end(&json, ']');
    else if (wish->all)
        print_tally(&tally, now() - start);
    return tally.outcomes[OUTCOME_FAILED] || (!wish->all && tally.outcomes[OUTCOME_REFUSED])
               ? TOOL_FAILED
               : TOOL_OK;
}

int tool_analyze(int argc, char **argv)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    struct wish wish = {.jobs = processors > 0 ? (unsigned)processors : 1};
    int status = parse(&wish, argc, argv);

    if (wish.help) {
        fputs(usage, stdout);
    } else if (status == TOOL_OK && wish.explain) {
        status = explain_all(&wish);
    } else if (status == TOOL_OK && !wish.folder && !(wish.folder = default_folder())) {
        complain("analyze", "say where analyses go, with --output");
        status = TOOL_FAILED;
    } else if (status == TOOL_OK) {
        status = analyse_all(&wish);
    }
    paths_free(&wish.paths);
    return status;
}
