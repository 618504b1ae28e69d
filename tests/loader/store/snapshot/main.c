/* SPDX-License-Identifier: MIT
 *
 * Says the answer; then, asked for "maps", from which file its code is mapped, and
 * whose the function is; asked to "open" a library, its answer, and whether the pass is mapped
 * before and after.  A third word is a file that is removed before.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int answer(void);
extern int (*const word)(void);

static int is_mapped(const char *part)
{
    FILE *maps = fopen("/proc/thread-self/maps", "r");
    char line[1024];
    int found = 0;

    while (maps && fgets(line, sizeof line, maps))
        found |= strstr(line, part) != NULL;
    if (maps)
        fclose(maps);
    return found;
}

static void open_library(const char *path, const char *goes)
{
    int before = is_mapped("/passes/answer.so");
    int (*other)(void);
    void *handle;

    if (goes)
        unlink(goes);
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    other = handle ? (int (*)(void))dlsym(handle, "answer") : NULL;
    printf("%d %d %d\n", before, other ? other() : -1, is_mapped("/passes/answer.so"));
}

int main(int argc, char **argv)
{
    Dl_info info;

    printf("%d %d\n", answer(), word());
    if (argc > 2 && !strcmp(argv[1], "open"))
        open_library(argv[2], argv[3]);
    if (argc > 1 && !strcmp(argv[1], "maps")) {
        FILE *maps = fopen("/proc/thread-self/maps", "r");
        char line[1024];
        unsigned long start, end;

        while (maps && fgets(line, sizeof line, maps))
            if (sscanf(line, "%lx-%lx", &start, &end) == 2 && (unsigned long)answer >= start &&
                (unsigned long)answer < end)
                fputs(line, stdout);
        if (dladdr((void *)answer, &info))
            puts(info.dli_fname);
    }
    return 0;
}
