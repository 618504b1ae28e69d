/* SPDX-License-Identifier: MIT
 *
 * Does what its words say, one after the other, with shared objects of module.c:
 *
 *     open:FILE global:FILE deep:FILE lazy:FILE   dlopen in these ways, and says ask()
 *     close:FILE    the newest of that name
 *     maps:FILE     says from which file its ask() is mapped, or /memory
 *     take:FILE     closes it, and maps something where it lay
 *     space:FILE    dlmopen, and says ask()
 *     fork:WORD     a child does WORD
 *     threads:FILE  some threads open, ask and close FILE many times, and wait for each other
 *
 * Where $TELL_MAPPED is set, it names on standard error each object whose code it finds mapped from a snapshot
 * behind a dlopen, and that was not so before.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 64
#define THREADS 4
#define ROUNDS 40

int helper(void);

static struct opened {
    void *handle;
    int (*ask)(void);
    const char *file;
} opened[MOST];
static size_t n;

/* Which overlays are mapped now, if there is room; returns their number. */
static size_t overlays(char (*found)[256])
{
    FILE *list = getenv("TELL_MAPPED") ? fopen("/proc/thread-self/maps", "r") : NULL;
    char line[4400];
    size_t n_found = 0;

    while (list && fgets(line, sizeof line, list)) {
        char *name = strstr(line, "/snapshots/"), *dash;

        if (!name || !strstr(line, " r-xp ") || !(dash = strchr(strrchr(line, '/'), '-')))
            continue;
        dash[strcspn(dash, "\n")] = 0;
        if (n_found < MOST && (!n_found || strcmp(found[n_found - 1], dash + 1)))
            snprintf(found[n_found++], sizeof *found, "%s", dash + 1);
    }
    if (list)
        fclose(list);
    return n_found;
}

static char before[MOST][256];
static size_t n_before;

static void report_overlays(int quietly)
{
    static char now[MOST][256];
    size_t n_now = overlays(now);

    for (size_t i = 0; i < n_now && !quietly; i++) {
        size_t k = 0;

        while (k < n_before && strcmp(now[i], before[k]))
            k++;
        if (k == n_before)
            fprintf(stderr, "from a snapshot: %s\n", now[i]);
    }
    memcpy(before, now, sizeof before);
    n_before = n_now;
}

static int (*ask_of(void *handle))(void)
{
    return handle ? (int (*)(void))dlsym(handle, "ask") : NULL;
}

static void open_one(const char *file, void *handle)
{
    int (*ask)(void) = ask_of(handle);

    printf("%s %d\n", strrchr(file, '/') + 1, ask ? ask() : -1);
    if (handle && n < MOST)
        opened[n++] = (struct opened){handle, ask, file};
    report_overlays(0);
}

static struct opened *newest(const char *file)
{
    for (size_t i = n; i-- > 0;)
        if (!strcmp(opened[i].file, file))
            return &opened[i];
    fprintf(stderr, "%s: not open\n", file);
    exit(3);
}

static void close_one(const char *file)
{
    struct opened *one = newest(file);

    dlclose(one->handle);
    *one = opened[--n];
    report_overlays(1);
}

static void maps(const char *file)
{
    uintptr_t at = (uintptr_t)newest(file)->ask;
    FILE *list = fopen("/proc/thread-self/maps", "r");
    unsigned long start, end;
    char line[1024];

    while (list && fgets(line, sizeof line, list))
        if (sscanf(line, "%lx-%lx", &start, &end) == 2 && at >= start && at < end)
            printf("%s", strchr(line, '/') ? strchr(line, '/') : "/memory\n");
    if (list)
        fclose(list);
}

static void take(const char *file)
{
    struct link_map *map; /* ask() may be in moved code of the code */
    uintptr_t at = dlinfo(newest(file)->handle, RTLD_DI_LINKMAP, &map) ? 0 : map->l_addr;

    close_one(file);
    if (mmap((void *)at, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
             0) != (void *)at)
        puts("it is not free");
}

static void *ask_many(void *file)
{
    uintptr_t wrong = 0;

    for (int i = 0; i < ROUNDS; i++) {
        void *handle = dlopen(file, RTLD_NOW);
        int (*ask)(void) = ask_of(handle);

        char found[MOST][256];

        wrong += !ask || ask() != 201;
        for (size_t k = overlays(found); k-- > 0;)
            if (!strcmp(found[k], strrchr(file, '/') + 1))
                fprintf(stderr, "from a snapshot: %s\n", found[k]);
        if (handle)
            dlclose(handle);
    }
    return (void *)wrong;
}

static void threads(char *file)
{
    pthread_t thread[THREADS];
    uintptr_t wrong = 0;
    void *result;

    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, ask_many, file);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], &result);
        wrong += (uintptr_t)result;
    }
    printf("%lu wrong\n", (unsigned long)wrong);
}

static void obey(char *word);

static void in_child(char *word)
{
    pid_t child;
    int status;

    fflush(stdout);
    child = fork();
    if (!child) {
        obey(word);
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, &status, 0);
    printf("child: %d\n", status);
}

static void obey(char *word)
{
    char *file = strchr(word, ':') + 1;

    switch (*word) {
    case 'o': open_one(file, dlopen(file, RTLD_NOW)); break;
    case 'g': open_one(file, dlopen(file, RTLD_NOW | RTLD_GLOBAL)); break;
    case 'd': open_one(file, dlopen(file, RTLD_NOW | RTLD_DEEPBIND)); break;
    case 'l': open_one(file, dlopen(file, RTLD_LAZY)); break;
    case 's': open_one(file, dlmopen(LM_ID_NEWLM, file, RTLD_NOW)); break;
    case 'c': close_one(file); break;
    case 'm': maps(file); break;
    case 't': word[1] == 'a' ? take(file) : threads(file); break;
    case 'f': in_child(file); break;
    }
}

int main(int argc, char **argv)
{
    report_overlays(1);
    printf("%d\n", helper());
    for (int i = 1; i < argc; i++)
        obey(argv[i]);
    return 0;
}
