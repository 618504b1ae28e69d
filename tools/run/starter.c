/* SPDX-License-Identifier: MIT
 *
 * run/starter.c: mvld-run PROGRAM [ARGUMENT...]: what wrappers (wrapper.h) execute: the common case of `mvld run`.
 *
 * Static and small: as much of the time of `mvld run` is its own start.  Any other program starts plainly, and nothing
 * is said: who calls a wrapper asked for the program, not for mvld.
 */
#include "tools/common/paths.h"
#include "tools/common/tools.h"
#include "tools/run/itself.h"
#include "tools/run/program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns if PROGRAM is to be executed plainly. */
static void start(const char *loader, int argc, char **argv)
{
    struct program p;

    if (program_open_to_run(&p, argv[1]))
        return;
    if (p.kind == PROGRAM_PLAIN)
        execute_itself(loader, argv[1], argv + 1, 0, NULL);
    if (p.kind != PROGRAM_UNKNOWN)
        return;

    /* A text without #! is the shell's. */
    char **run = must_alloc((size_t)argc + 3, sizeof *run);
    run[0] = path_mvld();
    run[1] = "run";
    run[2] = "--";
    memcpy(run + 3, argv + 1, (size_t)argc * sizeof *argv);
    execv(run[0], run);
}

int main(int argc, char **argv)
{
    const char *off = getenv("MVLD"), *loader = path_loader();

    if (argc < 2) {
        fputs("Usage: mvld-run PROGRAM [ARGUMENT...]\n", stderr);
        return TOOL_USAGE;
    }
    if (!(off && !strcmp(off, "off")) && !access(loader, X_OK) && !memory_is_short(0)) /* `mvld run' needs more than this */
        start(loader, argc, argv);
    execv(argv[1], argv + 1);
    int error = errno;
    complain("run", "%s: %s", argv[1], strerror(error));
    return error == ENOENT ? 127 : 126; /* as a shell */
}
