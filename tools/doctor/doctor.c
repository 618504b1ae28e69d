/* SPDX-License-Identifier: MIT
 *
 * doctor.c: `mvld doctor`: reports what this machine and kernel allow, problems, and how a program
 * starts.
 *
 * Whatever can be tried is not derived from version numbers: a method of patching is tried on a
 * real page of code, in a child that may die of it.
 */
#include "tools/doctor/doctor.h"
#include "tools/common/paths.h"

#include <fcntl.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "Usage: mvld doctor [--all | --json] [--host-loader FILE] [--passes FOLDER]\n"
    "       mvld doctor [--json] PROGRAM...\n"
    "\n"
    "Says what keeps mvld from doing what it should, and how to mend it.  Methods of\n"
    "patching code are tried for real, in child processes.  Of a PROGRAM it says whether\n"
    "it starts under mvld, with which passes, and whether a snapshot fits.\n"
    "\n"
    "  --all               all findings: what this machine, its kernel and its host\n"
    "                      loader allow\n"
    "  --json              all findings as JSON\n"
    "  --host-loader FILE  look at this host loader\n"
    "  --passes FOLDER     look for passes here\n"
    "  --help              this text\n"
    "\n"
    "In the list, `ok' is there, `-' is not and mvld works without it, `!!' keeps\n"
    "mvld from doing something that it should.\n"
    "Exit code: 0, 1 when there is a `!!' or a PROGRAM is not found, 2 for wrong usage.\n";

#define MOST_LINES 15u /* lines of the brief report */

static const char *const marks[] = {"ok", "-", "!!"};

int read_line(const char *path, char *to, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, to, size - 1);
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return -1;
    to[n] = 0;
    to[strcspn(to, "\n")] = 0;
    return 0;
}

void report_heading(struct report *r, const char *title)
{
    r->heading = title;
    if (!r->json && !r->brief)
        printf("%s\n", title);
}

void report_finding(struct report *r, const char *name, enum finding_state state,
                    const char *remedy, const char *format, ...)
{
    static const char *const words[] = {"ok", "absent", "problem"};
    char *text;
    va_list args;

    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        exit(TOOL_FAILED);
    va_end(args);
    r->problems += state == FINDING_PROBLEM;
    if (r->brief) {
        r->kept = must_grow(r->kept, r->n + 1, sizeof *r->kept);
        r->kept[r->n++] = (struct finding){state, must_print("%s", r->heading), must_print("%s", name),
                                           must_print("%s", text), remedy ? must_print("%s", remedy) : NULL, 0};
    } else if (r->json) {
        json_begin(r->json, NULL, '{');
        json_string(r->json, "part", r->heading);
        json_string(r->json, "name", name);
        json_string(r->json, "state", words[state]);
        json_string(r->json, "text", text);
        json_string(r->json, "remedy", remedy);
        json_end(r->json, '}');
    } else {
        printf("  %-2s  %-24s ", marks[state], name);
        print_name(stdout, text);
        putchar('\n');
        if (remedy)
            printf("      %-24s -> %s\n", "", remedy);
    }
    free(text);
}

/* Whether a finding is shown that the same command mends. */
static int is_mended(const struct report *r, const char *remedy)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->kept[i].shown && r->kept[i].remedy && !strcmp(r->kept[i].remedy, remedy))
            return 1;
    return 0;
}

/* Shows findings of one state, from the first one on; absent ones only if something can be done, and a remedy once.
 * Returns the number of those not shown. */
static unsigned show(const struct report *r, enum finding_state state, size_t first, unsigned *lines)
{
    unsigned more = 0;

    for (size_t i = first; i < r->n; i++) {
        struct finding *f = &r->kept[i];
        unsigned needs = f->remedy ? 2 : 1;
        if (f->state != state || (state == FINDING_ABSENT && (!f->remedy || is_mended(r, f->remedy))))
            continue;
        if (more || *lines + needs >= MOST_LINES) { /* the last line is the summary */
            more++;
            continue;
        }
        *lines += needs;
        f->shown = 1;
        printf("  %-2s  %s, %s: ", marks[state], f->heading, f->name);
        print_name(stdout, f->text);
        putchar('\n');
        if (f->remedy)
            printf("      -> %s\n", f->remedy);
    }
    return more;
}

void report_brief(const struct report *r)
{
    unsigned lines = 0, more;

    if (!r->problems) {
        puts("Nothing is wrong.");
        lines++;
    }
    more = show(r, FINDING_PROBLEM, 0, &lines);
    more += show(r, FINDING_ABSENT, r->n_machine, &lines);
    printf("%zu findings, %u wrong", r->n, r->problems);
    if (more)
        printf(", %u more to mend", more);
    puts("; `mvld doctor --all' lists them");
}

/* Examines this machine and this mvld. */
static void examine(struct report *r, const char *host, const char *passes)
{
    doctor_patching(r);
    doctor_processor(r);
    doctor_memory(r);
    doctor_host_loader(r, host);
    r->n_machine = r->n;
    doctor_built_beside(r, host);
    doctor_configuration(r);
    doctor_caches(r);
    doctor_programs(r);
    doctor_passes(r, passes);
    doctor_compiler(r);
}

int tool_doctor(int argc, char **argv)
{
    static const struct option options[] = {{"all", no_argument, NULL, 'a'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"host-loader", required_argument, NULL, 'l'},
                                            {"passes", required_argument, NULL, 'p'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct json j = {.to = stdout};
    struct report r = {.brief = 1};
    const char *host = path_host_loader(), *passes = path_passes();
    int c, status = TOOL_OK;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (c) {
        case 'a': r.brief = 0; break;
        case 'j': r.json = &j; r.brief = 0; break;
        case 'l': host = optarg; break;
        case 'p': passes = optarg; break;
        case 'h': fputs(usage, stdout); return TOOL_OK;
        default: return TOOL_USAGE;
        }
    }
    if (r.json)
        json_begin(&j, NULL, '[');
    if (optind < argc)
        r.brief = 0;
    else
        examine(&r, host, passes);
    for (; optind < argc; optind++)
        status |= doctor_program(&r, argv[optind]);
    if (r.json)
        json_end(&j, ']');
    else if (r.brief)
        report_brief(&r);
    return r.problems ? TOOL_FAILED : status;
}
