/* SPDX-License-Identifier: MIT
 *
 * profile.c: `mvld profile`: prints the hot functions of a perf recording in concat's format (order
 * = profile).
 */
#include "tools/profile/profile.h"
#include "tools/common/tools.h"

#include <errno.h>
#include <getopt.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static const char usage[] =
    "Usage: mvld profile [OPTION...] [FILE]\n"
    "\n"
    "Prints which functions are hot, hottest first, for the pass concat with order =\n"
    "profile.  FILE is a recording of perf (perf.data, unless another one is named), or\n"
    "what this prints of one; - reads that from standard input:\n"
    "  perf script -G --show-mmap-events -F pid,ip,sym,dso\n"
    "Best recorded without moved code, at a high rate, of the program doing its real work:\n"
    "  MVLD=off perf record -N -F 5000 PROGRAM; mvld profile >program.order\n"
    "\n"
    "  --least N            leave out functions with fewer than N samples (1)\n"
    "  --json               as JSON, which concat does not read\n"
    "  --help               this text\n"
    "\n"
    "Exit code: 0, 1 when there are no samples in files that can be read, 2 for wrong\n"
    "usage.\n";

/* ---- perf ------------------------------------------------------------------------------------ */

static int run_perf(struct recording *r, const char *path)
{
    char *argv[] = {"perf", "script", "-G", "--show-mmap-events", "-F", "pid,ip,sym,dso", "-i",
                    (char *)path, NULL};
    posix_spawn_file_actions_t actions;
    int ends[2], status = 0, error;
    FILE *from;
    pid_t pid;

    if (pipe(ends)) {
        complain("profile", "a pipe cannot be made: %s", strerror(errno));
        return TOOL_FAILED;
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    error = posix_spawnp(&pid, "perf", &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    from = error ? NULL : fdopen(ends[0], "r");
    if (!from) {
        close(ends[0]);
        complain("profile", "perf cannot be run: %s", strerror(error ? error : errno));
        return TOOL_FAILED;
    }
    recording_read(r, from);
    fclose(from);
    if (waitpid(pid, &status, 0) != pid || status) {
        complain("profile", "perf cannot read %s", path);
        return TOOL_FAILED;
    }
    return TOOL_OK;
}

static int read_recording(struct recording *r, const char *path)
{
    static const char magic[] = "PERFILE2";
    FILE *from = strcmp(path, "-") ? fopen(path, "r") : stdin;
    char begin[sizeof magic] = "";

    if (!from) {
        complain("profile", "%s: %s", path, strerror(errno));
        return TOOL_FAILED;
    }
    if (from != stdin && fread(begin, 1, sizeof magic - 1, from) == sizeof magic - 1 &&
        !strcmp(begin, magic)) {
        fclose(from);
        return run_perf(r, path);
    }
    if (from != stdin)
        rewind(from);
    recording_read(r, from);
    if (from != stdin)
        fclose(from);
    return TOOL_OK;
}

/* ---- what is printed ----------------------------------------------------------------------------- */

struct hot {
    const struct file *file;
    size_t frame, samples;
};

static int hotter(const void *a, const void *b)
{
    const struct hot *x = a, *y = b;

    if (x->samples != y->samples)
        return x->samples > y->samples ? -1 : 1;
    if (x->file != y->file)
        return strcmp(x->file->name, y->file->name);
    return x->frame < y->frame ? -1 : x->frame > y->frame;
}

static void print_json(const struct recording *r, const struct hot *hot, size_t n)
{
    struct json j = {.to = stdout};

    json_begin(&j, NULL, '{');
    json_unsigned(&j, "samples", r->n_samples);
    json_unsigned(&j, "known", r->n_known);
    json_begin(&j, "functions", '[');
    for (size_t i = 0; i < n; i++) {
        const struct frame *frames = hot[i].file->frames.at;

        json_begin(&j, NULL, '{');
        json_string(&j, "file", hot[i].file->name);
        json_hex(&j, "offset", frames[hot[i].frame].start);
        json_string(&j, "function", hot[i].file->called[hot[i].frame]);
        json_unsigned(&j, "samples", hot[i].samples);
        json_end(&j, '}');
    }
    json_end(&j, ']');
    json_end(&j, '}');
}

static void print_text(const struct recording *r, const struct hot *hot, size_t n)
{
    printf("# %zu functions; %zu of %zu samples are in functions of files\n", n, r->n_known,
           r->n_samples);
    for (size_t i = 0; i < n; i++) {
        const struct frame *frames = hot[i].file->frames.at;
        const char *called = hot[i].file->called[hot[i].frame];

        print_name(stdout, hot[i].file->name);
        printf(" +0x%x # %zu ", frames[hot[i].frame].start, hot[i].samples);
        print_name(stdout, called ? called : "");
        putchar('\n');
    }
}

static int print(const struct recording *r, const char *file, size_t least, int json)
{
    struct hot *hot = NULL;
    size_t n = 0;

    for (size_t i = 0; i < r->n_files; i++)
        for (size_t k = 0; k < r->files[i]->frames.n; k++) {
            if (!r->files[i]->samples[k] || r->files[i]->samples[k] < least)
                continue;
            hot = must_grow(hot, n + 1, sizeof *hot);
            hot[n++] = (struct hot){r->files[i], k, r->files[i]->samples[k]};
        }
    if (!n) {
        complain("profile", "%s: none of its %zu samples is in a function of a file that can be read", file, r->n_samples);
        return TOOL_FAILED;
    }
    qsort(hot, n, sizeof *hot, hotter);
    if (json)
        print_json(r, hot, n);
    else
        print_text(r, hot, n);
    free(hot);
    return TOOL_OK;
}

int tool_profile(int argc, char **argv)
{
    static const struct option options[] = {{"least", required_argument, NULL, 'l'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct recording r = {0};
    size_t least = 1;
    int json = 0, c, status;
    char *end;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (c) {
        case 'l':
            least = strtoul(optarg, &end, 10);
            if (!*optarg || *end || *optarg == '-') {
                complain("profile", "--least %s: no number", optarg);
                return TOOL_USAGE;
            }
            break;
        case 'j': json = 1; break;
        case 'h': fputs(usage, stdout); return TOOL_OK;
        default: return TOOL_USAGE;
        }
    }
    if (argc - optind > 1) {
        fputs(usage, stderr);
        return TOOL_USAGE;
    }
    const char *file = argc > optind ? argv[optind] : "perf.data";
    status = read_recording(&r, file);
    if (!status)
        status = print(&r, file, least, json);
    recording_forget(&r);
    return status;
}
