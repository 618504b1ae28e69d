/* SPDX-License-Identifier: MIT
 *
 * loader/process/knobs.c: settings for one run in the environment.
 *
 *   MVLD=off                     start the host loader at once, change nothing
 *   MVLD_DEBUG=word,…            log, in the manner of LD_DEBUG
 *   MVLD_DEBUG_OUTPUT=file       log to file.PID
 *   MVLD_HOST_LOADER=path        the host loader
 *   MVLD_SNAPSHOT=1              write the snapshot of the program (`mvld build`), exit
 *   MVLD_SNAPSHOT=check          report whether a snapshot is applied (`mvld build --check`), exit
 *   MVLD_SNAPSHOT=run            write it, run, and learn objects of dlopen
 *
 * Under AT_SECURE all of them are ignored and removed from the environment.
 */
#include "loader/loader.h"

#include "loader/process/process.h"

#include <errno.h> /* numbers only */
#include <fcntl.h> /* numbers only */

static const struct {
    const char *word;
    uint32_t category;
    const char *help;
} words[] = {
    {"files", MVLD_LOG_FILES, "display the host loader, objects and where they lie"},
    {"passes", MVLD_LOG_PASSES, "display the pipeline and what its passes do"},
    {"patch", MVLD_LOG_PATCH, "display changes of code, and refused ones"},
    {"image", MVLD_LOG_IMAGE, "display the image: domains, objects, segments"},
    {"statistics", MVLD_LOG_STATISTICS, "display how long each stage and pass took"},
};

/* The lowest descriptor for the log file: programs expect the low ones. */
#define LOG_FD 200

static void say(const struct rimf_sys *sys, int fd, const char *text)
{
    sys_write(sys, fd, text, rimf_strlen(text));
}

static void help(const struct rimf_sys *sys)
{
    static const char column[] = "             ";
    char line[128];

    say(sys, 1, "Valid options for the MVLD_DEBUG environment variable are:\n\n");
    for (size_t i = 0; i < RIMF_COUNT(words); i++) {
        const size_t n = rimf_strlen(words[i].word);

        rimf_format(line, sizeof line, "  %s%s %s\n", words[i].word, &column[n], words[i].help);
        say(sys, 1, line);
    }
    say(sys, 1, "  all           all previous options combined\n"
                "  help          display this help message and exit\n\n"
                "To direct the debugging output into a file instead of standard error\n"
                "a filename can be specified using the MVLD_DEBUG_OUTPUT environment variable.\n");
    sys_exit(sys, 0);
}

static int same_word(const char *text, size_t n, const char *word)
{
    return rimf_strlen(word) == n && rimf_strncmp(text, word, n) == 0;
}

static uint32_t debug_word(const struct rimf_sys *sys, const char *text, size_t n)
{
    uint32_t all = 0;
    char line[128], name[64];

    for (size_t i = 0; i < RIMF_COUNT(words); i++) {
        if (same_word(text, n, words[i].word))
            return words[i].category;
        all |= words[i].category;
    }
    if (same_word(text, n, "all"))
        return all;
    if (same_word(text, n, "help"))
        help(sys);
    if (n >= sizeof name)
        n = sizeof name - 1;
    memcpy(name, text, n);
    name[n] = '\0';
    rimf_format(line, sizeof line,
                "warning: debug option `%s' unknown; try MVLD_DEBUG=help\n", name);
    say(sys, 2, line);
    return 0;
}

static uint32_t debug_words(const struct rimf_sys *sys, const char *text)
{
    uint32_t categories = 0;

    while (*text) {
        size_t n = 0;

        while (text[n] && text[n] != ',' && text[n] != ':' && text[n] != ' ')
            n++;
        if (n)
            categories |= debug_word(sys, text, n);
        text += n + (text[n] != '\0');
    }
    return categories;
}

/* In /tmp another user may have put a link there, or a FIFO without a reader.  The lines contain
 * addresses, which must stay private. */
static long open_output(struct loader *l, const char *output)
{
    size_t size = rimf_strlen(output) + sizeof ".-9223372036854775808";
    char *name = rimf_heap_alloc(&l->heap, size);
    long fd = -ENOMEM, high;

    if (name) {
        rimf_format(name, size, "%s.%ld", output, SYS3(l->sys, SYS_getpid, 0, 0, 0));
        fd = sys_openat(l->sys, name,
                        O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK, 0600);
    }
    rimf_heap_release(&l->heap, name);
    if (sys_failed(fd))
        return fd;
    high = SYS3(l->sys, SYS_fcntl, fd, F_DUPFD_CLOEXEC, LOG_FD);
    if (high == -EINVAL) /* RLIMIT_NOFILE is lower */
        high = SYS3(l->sys, SYS_fcntl, fd, F_DUPFD_CLOEXEC, 3);
    sys_close(l->sys, (int)fd);
    return high;
}

/* Standard error is written to by its own number: a copy would keep the pipe of a daemon open that
 * closes its standard error and continues. */
static void open_log(struct loader *l, const char *output)
{
    long fd = output && *output ? open_output(l, output) : 2;

    if (sys_failed(fd))
        say(l->sys, 2, "mvld: cannot open the file of MVLD_DEBUG_OUTPUT\n");
    else
        rimf_log_start(&l->log, (int)fd);
}

/* The path becomes a name in the link map, and a program may overwrite its environment
 * (setproctitle). */
static void keep_host(struct loader *l)
{
    const char *path = l->knobs->host;

    l->knobs->host = path && *path ? rimf_heap_copy(&l->heap, path) : NULL;
}

/* The host loader's settings; of those that may be there several times, the last one wins there, too. */
static void read_hosts(struct knobs *knobs, char *setting)
{
    const char *rest;

    if (rimf_after(setting, "LD_PRELOAD="))
        knobs->preload = setting;
    else if ((rest = rimf_after(setting, "LD_TRACE_LOADED_OBJECTS=")))
        knobs->trace = *rest != '\0';
    else if ((rest = rimf_after(setting, "LD_BIND_NOW=")))
        knobs->bind_now |= *rest != '\0';
    else if ((rest = rimf_after(setting, "GLIBC_TUNABLES=")))
        knobs->tunables |= *rest != '\0';
    else if (rimf_after(setting, "LD_DEBUG="))
        knobs->debug = 1;
    else if (auditor_of(setting))
        knobs->watcher = auditor_of(setting);
}

/* Ours, behind MVLD. */
static void read_own(struct knobs *knobs, const char *setting, const char **debug, const char **output)
{
    const char *rest;

    if ((rest = rimf_after(setting, "="))) {
        knobs->off = rimf_streq(rest, "off");
        knobs->unknown = knobs->off || rimf_streq(rest, "on") || !*rest ? NULL : rest;
    } else if ((rest = rimf_after(setting, "_DEBUG="))) {
        *debug = rest;
    } else if ((rest = rimf_after(setting, "_DEBUG_OUTPUT="))) {
        *output = rest;
    } else if ((rest = rimf_after(setting, "_SNAPSHOT="))) {
        knobs->check = rimf_streq(rest, "check");
        knobs->snapshot = knobs->check              ? SNAPSHOT_NOT
                          : rimf_streq(rest, "run") ? SNAPSHOT_RUN
                          : *rest                   ? SNAPSHOT_START
                                                    : SNAPSHOT_NOT;
    } else if ((rest = rimf_after(setting, "_HOST_LOADER="))) {
        knobs->host = rest;
    }
}

void knobs_read(struct loader *l)
{
    const char *debug = NULL, *output = NULL, *rest;
    struct knobs *knobs = l->knobs;

    for (char **e = l->block->envp; *e; e++) {
        const char *s = *e; /* most variables are none of these */

        if ((s[0] == 'L' && s[1] == 'D') || s[0] == 'G')
            read_hosts(knobs, *e);
        else if (s[0] == 'M' && (rest = rimf_after(s, "MVLD")))
            read_own(knobs, rest, &debug, &output);
        else if (s[0] == 'H' && rimf_after(s, "HOME="))
            knobs->home = s;
        else if (s[0] == 'X' && rimf_after(s, "XDG_CACHE_HOME="))
            knobs->cache_home = s;
    }
    if (l->block->secure) {
        block_scrub(l->block, "MVLD");
        *knobs = (struct knobs){.watcher = knobs->watcher, .bind_now = knobs->bind_now, .tunables = knobs->tunables,
                                .debug = knobs->debug};
        return;
    }
    if (knobs->snapshot == SNAPSHOT_RUN) /* its children do not learn */
        block_scrub(l->block, "MVLD_SNAPSHOT");
    keep_host(l);
    if (knobs->off || !debug)
        return;
    l->log.categories = debug_words(l->sys, debug);
    if (l->log.categories)
        open_log(l, output);
    if (knobs->unknown)
        rimf_log(&l->log, MVLD_LOG_WARNING, "MVLD=%s means nothing; try MVLD=off",
                 knobs->unknown);
}
