/* SPDX-License-Identifier: MIT
 *
 * Preloaded: the program puts itself into a sandbox when it begins (trapped.h).  TRAPPED=allow: its
 * handler makes all calls.  TRAPPED=refuse: none that the host loader does not make, and opens no
 * files of processes.  TRAPPED=blocked: the sandbox stops only such calls, and the thread blocks
 * SIGSYS.
 */
#define _GNU_SOURCE
#include "../../../trapped.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static long allow(long nr, const long *arguments)
{
    (void)nr, (void)arguments;
    return 0;
}

static void unexpected(long nr)
{
    static const char text[] = "a call that the host loader does not make: ";
    char number[4] = {(char)('0' + nr / 100), (char)('0' + nr / 10 % 10), (char)('0' + nr % 10),
                      '\n'};

    trapped_make(SYS_write, 2, (long)text, sizeof text - 1, 0, 0, 0);
    trapped_make(SYS_write, 2, (long)number, sizeof number, 0, 0, 0);
    trapped_make(SYS_exit_group, 3, 0, 0, 0, 0, 0);
}

static long refuse(long nr, const long *arguments)
{
    switch (nr) {
    case SYS_openat:
        return strncmp((const char *)arguments[1], "/proc", 5) ? 0 : -EACCES;
    case SYS_newfstatat:
        return strncmp((const char *)arguments[1], "/proc", 5) ? 0 : -EACCES;
    case SYS_mprotect:
        return 0;
    default:
        unexpected(nr);
        return -EPERM;
    }
}

__attribute__((constructor)) static void begin(void)
{
    const char *how = getenv("TRAPPED");
    sigset_t signals;

    if (trapped_start(!strcmp(how, "allow") ? allow : refuse, strcmp(how, "blocked")))
        exit(77);
    sigemptyset(&signals);
    sigaddset(&signals, SIGSYS);
    if (!strcmp(how, "blocked"))
        sigprocmask(SIG_BLOCK, &signals, NULL);
}
