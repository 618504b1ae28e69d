/* SPDX-License-Identifier: MIT
 *
 * loader/process/say.c: what a user reads on standard error, without MVLD_DEBUG.
 */
#include "loader/loader.h"

#include "loader/process/process.h"

#include <errno.h>    /* numbers only */
#include <signal.h>   /* numbers only */
#include <sys/stat.h> /* numbers only */

void say_and_exit(const struct rimf_sys *sys, const char *text)
{
    sys_write(sys, 2, text, rimf_strlen(text));
    sys_exit(sys, 127);
}

/* A pipe without a reader, or a full file (RLIMIT_FSIZE), must not end a program because of this line. */
void say_line(struct loader *l, const char *format, ...)
{
    static const struct sys_action ignore = {.handler = 1};
    static const int signals[] = {SIGPIPE, SIGXFSZ};
    struct sys_action before[RIMF_COUNT(signals)];
    struct stat status;
    char line[640];
    va_list arguments;
    size_t n;

    if (rimf_log_enabled(&l->log, MVLD_LOG_WARNING))
        return; /* it is in the log of MVLD_DEBUG */
    if (l->started && !l->filtered->starting &&
        (SYS3(l->sys, SYS_fstat, 2, &status, 0) || (status.st_mode & S_IFMT) == S_IFREG))
        return;
    va_start(arguments, format);
    n = rimf_vformat(line, sizeof line, format, arguments);
    va_end(arguments);
    n = n < sizeof line ? n : sizeof line - 1;
    line[n++] = '\n';
    for (size_t i = 0; i < RIMF_COUNT(signals); i++)
        SYS6(l->sys, SYS_rt_sigaction, signals[i], &ignore, &before[i], sizeof(uint64_t), 0, 0);
    sys_write(l->sys, 2, line, n);
    for (size_t i = 0; i < RIMF_COUNT(signals); i++)
        SYS6(l->sys, SYS_rt_sigaction, signals[i], &before[i], NULL, sizeof(uint64_t), 0, 0);
}

void say_error(void *loader, const char *why)
{
    say_line(loader, "ERROR: mvld: %s", why);
}

/* Like the host loader's message about LD_PRELOAD: the program runs, and its administrator should know that
 * it runs without the configured passes.  What a sandbox forbids, or a lack of memory, only goes to
 * MVLD_DEBUG: the configuration is right. */
void say_refused(struct loader *l, int error)
{
    if (error != -EIO && error != -ENOMEM)
        say_line(l, "ERROR: mvld: %s: the program runs untransformed", l->refusal);
}
