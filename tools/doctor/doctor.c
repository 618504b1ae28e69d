/* SPDX-License-Identifier: MIT
 *
 * doctor.c: `mvld doctor`: what this machine and kernel allow.
 *
 * Nothing is guessed from version numbers where it can be tried: a method of
 * patching is tried on a real page of code, in a child that may die of it.
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
    "Usage: mvld doctor [--json] [--host-loader FILE] [--passes FOLDER]\n"
    "\n"
    "Says what this machine, its kernel and its host loader allow mvld to do, what\n"
    "is missing, and how to get it.  Methods of patching code are tried for real,\n"
    "in child processes.\n"
    "\n"
    "  --json              findings as JSON\n"
    "  --host-loader FILE  look at this host loader\n"
    "  --passes FOLDER     look for passes here\n"
    "  --help              this text\n"
    "\n"
    "In the list, `ok' is there, `-' is not and mvld works without it, `!!' keeps\n"
    "mvld from doing something that it should.\n"
    "Exit code: 0, 1 when there is a `!!', 2 for wrong usage.\n";

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
    if (!r->json)
        printf("%s\n", title);
}

void report_finding(struct report *r, const char *name, enum finding_state state,
                    const char *remedy, const char *format, ...)
{
    static const char *const marks[] = {"ok", "-", "!!"};
    static const char *const words[] = {"ok", "absent", "problem"};
    char *text;
    va_list args;

    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        exit(TOOL_FAILED);
    va_end(args);
    r->problems += state == FINDING_PROBLEM;
    if (r->json) {
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

int tool_doctor(int argc, char **argv)
{
    static const struct option options[] = {{"json", no_argument, NULL, 'j'},
                                            {"host-loader", required_argument, NULL, 'l'},
                                            {"passes", required_argument, NULL, 'p'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct json j = {.to = stdout};
    struct report r = {0};
    const char *host = path_host_loader(), *passes = path_passes();
    int c;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (c) {
        case 'j': r.json = &j; break;
        case 'l': host = optarg; break;
        case 'p': passes = optarg; break;
        case 'h': fputs(usage, stdout); return TOOL_OK;
        default: return TOOL_USAGE;
        }
    }
    if (optind != argc) {
        fputs(usage, stderr);
        return TOOL_USAGE;
    }
    if (r.json)
        json_begin(&j, NULL, '[');
    doctor_patching(&r);
    doctor_processor(&r);
    doctor_memory(&r);
    doctor_host_loader(&r, host);
    doctor_configuration(&r);
    doctor_caches(&r);
    doctor_programs(&r);
    doctor_passes(&r, passes);
    doctor_compiler(&r);
    if (r.json)
        json_end(&j, ']');
    return r.problems ? TOOL_FAILED : TOOL_OK;
}
