/* SPDX-License-Identifier: MIT
 *
 * pages.c: a program with some 9 MB of code in functions of 300 bytes.  It runs a function that was
 * copied, in a child, too, and prints how many KB of huge pages there are below its executable
 * memory: the kernel's own, those of a snapshot's file of moved code.  Original code is
 * not looked at, changed by mvld or not: kernels map by huge pages what the page cache holds in
 * them, as it may hold a file that was just written, whatever anybody asked for.
 */
#ifdef CODE_IN_LIBRARY
int pages_first(int);
#else
#include "big.h"
#endif

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Is there moved code in this mapping, of the name that its line in smaps ends with, or none? */
static int is_region(const char *name)
{
    return !name || strstr(name, "/concat.so");
}

static __attribute__((noinline)) int twice(int x)
{
#ifdef CODE_IN_LIBRARY
    return (pages_first(2) ^ 0x1234567) == 6 ? x + x : 0;
#else
    return x + x;
#endif
}

int main(int argc, char **argv)
{
    static const char *const kinds[] = {"AnonHugePages: %d kB", "FilePmdMapped: %d kB", "ShmemPmdMapped: %d kB"};
    FILE *file = fopen("/proc/self/smaps", "r");
    int region = 0, huge[3] = {0}, kb, status = -1;
    char line[4096], rights[5];
    pid_t child;

    (void)argv;
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%*x-%*x %4s", rights) == 1)
            region = rights[2] == 'x' && is_region(strchr(line, '/'));
        for (int i = 0; region && i < 3; i++)
            if (sscanf(line, kinds[i], &kb) == 1)
                huge[i] += kb;
    }
    child = fork();
    if (!child)
        _exit(twice(argc));
    waitpid(child, &status, 0);
    printf("%d %d %d\n", huge[0], huge[1] + huge[2], twice(argc) == 2 && status == 512);
    return 0;
}
