/* SPDX-License-Identifier: MIT
 *
 * What a program sees of code in moved code: addresses of functions, answers of dladdr, a
 * backtrace through a library, a library that comes later.  The output is the same
 * wherever code runs; asked for "maps", it also says in which mapping that is, and
 * pointers lead.  With
 * "wait" it waits for a line, with "brief" it loads nothing.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>
#include <string.h>

void *place(void);
extern void *(*chosen)(void);
int through(int (*callback)(void *), void *cookie);

static const char *name_of(const void *address)
{
    Dl_info info;
    const char *slash;

    if (!dladdr(address, &info) || !info.dli_fname)
        return "nothing";
    slash = strrchr(info.dli_fname, '/');
    return slash ? slash + 1 : info.dli_fname;
}

static int count(void *cookie)
{
    void *frames[32];
    int n = backtrace(frames, 32);

    for (int i = 0; i < n && i < 3; i++)
        printf("%s ", name_of(frames[i]));
    return n - *(int *)cookie;
}

static void print_mapping(const char *what, const void *address)
{
    FILE *maps = fopen("/proc/thread-self/maps", "r");
    unsigned long start, end;
    char line[1024];

    while (maps && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx", &start, &end) == 2 && (unsigned long)address >= start &&
            (unsigned long)address < end)
            printf("%s %s", what, line);
    if (maps)
        fclose(maps);
}

int main(int argc, char **argv)
{
    const char *asked = argc > 1 ? argv[1] : "";
    int here = 1;
    void *(*later)(void);
    void *library;

    printf("%s %s ", name_of(place()), name_of((void *)place));
    if (strcmp(asked, "brief") != 0) /* backtrace loads a library */
        printf("%d\n", through(count, &here) > 2);
    printf("%d\n", dlsym(RTLD_DEFAULT, "place") == (void *)place);
    if (!strcmp(asked, "maps")) {
        print_mapping("place", place());
        print_mapping("pointer", (void *)place);
        print_mapping("chosen", chosen());
        print_mapping("chosen pointer", (void *)chosen);
    }
    if (argc > 2) {
        library = dlopen(argv[2], RTLD_NOW);
        later = library ? (void *(*)(void))dlsym(library, "place") : NULL;
        printf("%s\n", later ? name_of(later()) : "no library");
        if (later && !strcmp(asked, "maps")) {
            print_mapping("later", later());
            print_mapping("later pointer", (void *)later);
        }
        if (library)
            dlclose(library);
    }
    fflush(stdout);
    if (!strcmp(asked, "wait"))
        getchar();
    return 0;
}
