/* SPDX-License-Identifier: MIT
 *
 * watch PID: reads /proc/PID/maps until the process ends.  Exits 3 as soon as a
 * page is writable and executable; else says how often it looked, and how often
 * the process caught SIGTRAP (breakpoints were in use).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char text[1 << 20];

static size_t read_file(const char *path)
{
    FILE *file = fopen(path, "r");
    size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;

    if (file)
        fclose(file);
    text[n] = 0;
    return n;
}

int main(int argc, char **argv)
{
    char maps[64], status[64];
    unsigned long looks = 0, traps = 0;

    if (argc != 2)
        return 2;
    snprintf(maps, sizeof maps, "/proc/%d/maps", atoi(argv[1]));
    snprintf(status, sizeof status, "/proc/%d/status", atoi(argv[1]));
    while (read_file(maps)) {
        for (char *line = text; line && *line; line = strchr(line, '\n')) {
            char *rights;

            line += *line == '\n';
            rights = strchr(line, ' ');
            if (rights && rights[2] == 'w' && rights[3] == 'x') {
                printf("writable and executable: %.*s\n", (int)strcspn(line, "\n"), line);
                return 3;
            }
        }
        looks++;
        if (looks % 8 == 0 && read_file(status)) {
            const char *caught = strstr(text, "\nSigCgt:");

            traps += caught && strtoul(caught + 8, NULL, 16) >> 4 & 1;
        }
        usleep(500);
    }
    printf("%lu looks, SIGTRAP caught in %lu\n", looks, traps);
    return 0;
}
