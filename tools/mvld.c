/* SPDX-License-Identifier: MIT
 *
 * mvld.c: the `mvld` command: one subcommand a file, this table names them.
 */
#include "tools/common/tools.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What root makes serves everybody, whatever root's umask is; a program that is run has its user's own mask and descriptors. */
static void serve_all(const struct subcommand *s)
{
    if (s->run == tool_run || s->run == tool_build || s->run == tool_try)
        return;
    open_standard();
    if (!geteuid())
        umask(022);
}

static const struct subcommand subcommands[] = {
    {"try", tool_try, "whether a program gains by mvld"},
    {"enable", tool_enable, "start programs under mvld from now on"},
    {"disable", tool_disable, "take that back"},
    {"status", tool_status, "which programs are enabled, and what is wrong with them"},
    {"run", tool_run, "run a program under mvld"},
    {"switch", tool_switch, "list and change the switches of programs that run"},
    {"patch", tool_patch, "replace functions of libraries in processes that run"},
    {"pipeline", tool_pipeline, "which passes would run in a program, and why"},
    {"passes", tool_passes, "which passes there are, and their options"},
    {"set-interp", tool_set_interp, "make programs start under mvld, or as before"},
    {"config", tool_config, "make the configuration that programs read of its files"},
    {"doctor", tool_doctor, "what is wrong here, or with a program, and what to do"},
    {"analyze", tool_analyze, "prove code of programs and libraries, for passes that change it"},
    {"build", tool_build, "write the snapshot of a program"},
    {"cache", tool_cache, "list, verify and prune snapshots"},
    {"profile", tool_profile, "which functions are hot, from a recording of perf, for concat"},
    {"show", tool_show, "switches, variants and call sites of an ELF file"},
};

static void print_usage(FILE *to)
{
    fputs("Usage: mvld SUBCOMMAND [ARGUMENT...]\n\n", to);
    for (size_t i = 0; i < sizeof subcommands / sizeof *subcommands; i++)
        fprintf(to, "  %-12s %s\n", subcommands[i].name, subcommands[i].summary);
    fputs("\n`mvld SUBCOMMAND --help` says more; so does mvld(1).\n"
          "Exit code: 0 done, 1 failed, 2 wrong usage.\n",
          to);
}

/* Output that could not be written is a failure, too. */
static int flush_output(int status)
{
    int failed = ferror(stdout); /* an error of an earlier write */
    if (fflush(stdout) || failed) {
        fprintf(stderr, "mvld: writing the output: %s\n", strerror(errno));
        return TOOL_FAILED;
    }
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return TOOL_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        print_usage(stdout);
        return flush_output(TOOL_OK);
    }
    if (!strcmp(argv[1], "--version")) {
        puts("mvld " MVLD_VERSION);
        return flush_output(TOOL_OK);
    }
    for (size_t i = 0; i < sizeof subcommands / sizeof *subcommands; i++)
        if (!strcmp(argv[1], subcommands[i].name)) {
            serve_all(&subcommands[i]);
            char name[32]; /* as getopt says it */
            snprintf(name, sizeof name, "mvld %s", argv[1]);
            argv[1] = name;
            return flush_output(subcommands[i].run(argc - 1, argv + 1));
        }
    fprintf(stderr, "mvld: no subcommand `%s'; see mvld --help\n", argv[1]);
    return TOOL_USAGE;
}
