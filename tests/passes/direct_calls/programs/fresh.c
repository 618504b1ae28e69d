/* SPDX-License-Identifier: MIT
 *
 * fresh CACHE KEPT COMMAND...: puts the snapshots and the ready code of earlier starts aside, and runs the
 * command.
 */
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    static const char *const folders[] = {"snapshots", "ready"};
    char from[512], to[512];

    if (argc < 4)
        return 2;
    for (int i = 0; i < 2; i++) {
        snprintf(from, sizeof from, "%s/%s", argv[1], folders[i]);
        snprintf(to, sizeof to, "%s/%s-%d", argv[2], folders[i], (int)getpid());
        rename(from, to); /* there may be none */
    }
    execv(argv[3], argv + 3);
    return 2;
}
