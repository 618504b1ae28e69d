/* SPDX-License-Identifier: MIT
 *
 * config.c: `mvld config` makes the one file that starts of programs read.
 */
#include "tools/config/make.h"
#include "tools/changes/cached.h"
#include "tools/common/paths.h"
#include "tools/common/tools.h"
#include "tools/interp/interp.h"

#include "rimf/base/sys.h"
#include "rimf/base/trusted.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char usage[] =
    "Usage: mvld config [--user] [--check] [--json]\n"
    "\n"
    "Reads " MVLD_SYSCONF_DIR "/mvld.conf and " MVLD_SYSCONF_DIR "/apps.d/*.conf, checks them, with the\n"
    "options of passes that it finds (mvld passes), and makes of them " MVLD_SYSCONF_DIR "/config.cache,\n"
    "which is what programs read when they start: a change of a file counts from then on.\n"
    "When something is wrong, what was made before stays.\n"
    "\n"
    "  --user   the same in $XDG_CONFIG_HOME/mvld, or else ~/.config/mvld\n"
    "  --check  make nothing, only say whether the files are right and what was made is of\n"
    "           them as they are\n"
    "  --json   say the result as JSON\n"
    "  --help   this text\n"
    "\n"
    "Exit code: 0; 1 when a file is wrong or nothing could be made, or with --check, when what\n"
    "was made is of other files; 2 for wrong usage.\n";

/* In one step, and whole after a crash. */
static int put_file(const struct config_made *m)
{
    char *aside;
    size_t length;
    char *text = config_made_text(m, &length);
    int fd = aside_open(m->path, &aside);
    int failed = fd < 0 || write_whole(fd, text, length) || fchmod(fd, 0644) || fsync(fd) || rename(aside, m->path);
    int error = errno;
    if (fd >= 0) {
        close(fd);
        if (failed)
            unlink(aside);
    }
    free(text);
    free(aside);
    errno = error;
    return failed ? -1 : 0;
}

/* Where nothing is configured, starts need not read anything.  NULL, or the error, to be freed. */
static char *change(const struct config_made *m)
{
    struct stat st;
    const char *why;
    size_t named;
    int error = trusted_path(&rimf_sys_kernel, m->folder, geteuid(), &st, &why, &named);

    if (error && error != -ENOENT)
        return must_print("%s: no start would believe it, because of %.*s: %s", m->folder, (int)named, m->folder, why);
    int lock = cached_config_lock(m->path);
    int failed = m->blocks ? put_file(m) : unlink(m->path) && errno != ENOENT && errno != ENOTDIR;
    char *said = failed ? must_print("%s: %s", m->path, strerror(errno)) : NULL;
    if (lock >= 0)
        close(lock);
    return said;
}

static void print_text(const struct config_made *m)
{
    if (m->blocks)
        printf("%s: %zu [app] of %zu files\n", m->path, m->blocks, m->n);
    else
        printf("%s: nothing is configured\n", m->folder);
}

static void print_json(const struct config_made *m, const char *why)
{
    struct json j = {.to = stdout};

    json_begin(&j, NULL, '{');
    json_string(&j, "made", m->path);
    json_unsigned(&j, "apps", m->blocks);
    json_unsigned(&j, "files", m->n);
    json_string(&j, "why", why);
    json_end(&j, '}');
}

int tool_config(int argc, char **argv)
{
    static const struct option options[] = {{"user", no_argument, NULL, 'u'},
                                            {"check", no_argument, NULL, 'c'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct config_made m;
    int users = 0, check = 0, json = 0, c;
    char *why;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (c) {
        case 'u': users = 1; break;
        case 'c': check = 1; break;
        case 'j': json = 1; break;
        case 'h': fputs(usage, stdout); return TOOL_OK;
        default: return TOOL_USAGE;
        }
    }
    if (optind < argc) {
        fputs(usage, stderr);
        return TOOL_USAGE;
    }
    if (config_make(&m, users, path_passes()))
        why = must_print("%s%s", m.why, check ? "" : ": nothing was changed");
    else
        why = check ? config_made_differs(&m) : change(&m);
    if (why)
        complain("config", "%s", why);
    if (json)
        print_json(&m, why);
    else if (!why && !check)
        print_text(&m);
    config_made_free(&m);
    int status = why ? TOOL_FAILED : TOOL_OK;
    free(why);
    return status;
}
