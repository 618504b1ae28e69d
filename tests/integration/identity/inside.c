/* SPDX-License-Identifier: MIT
 *
 * A backtrace from inside dlsym: resolvers of IFUNCs run there, and an allocator that makes
 * room for an error.  Frames of the C library and the loader's are left out.
 *
 * A failure means that who asks there for the stack, like a profiler of memory, sees its top.
 *
 * build: libinside.so -DLIBRARY
 * build: program libinside.so -rdynamic
 * run:
 * run: LD_BIND_NOW=1
 */
#include "identity.h"

#include <execinfo.h>

void show_stack(const char *what);

#ifdef LIBRARY
static int one(void)
{
    return 1;
}

static int (*resolve(void))(void)
{
    show_stack("a resolver");
    return one;
}

int chosen(void) __attribute__((ifunc("resolve")));
#else
static volatile int looking; /* dlsym says that it calls nobody back */

/* The names of all frames that are this program's, from where dlsym was asked on. */
void show_stack(const char *what)
{
    void *frames[64];
    int n = looking ? backtrace(frames, 64) : 0;

    for (int i = 0; i < n; i++) {
        Dl_info info = {0};

        if (dladdr(frames[i], &info) && info.dli_sname && strstr(info.dli_fname, "/program"))
            printf("%s: %s\n", what, info.dli_sname);
    }
}

/* Errors need room: this program's own, from a heap that gives nothing back. */
void *malloc(size_t size)
{
    static _Alignas(16) char heap[1 << 20];
    static size_t used;
    void *at = heap + used;

    used += (size + 31) & ~(size_t)15;
    if (used > sizeof(heap))
        abort();
    *(size_t *)at = size;
    if (looking == 1) {
        looking = 2; /* no further allocation */
        show_stack("an allocator");
        looking = 0;
    }
    return (char *)at + 16;
}

void free(void *at)
{
    (void)at;
}

void *calloc(size_t n, size_t size)
{
    return memset(malloc(n * size), 0, n * size);
}

void *realloc(void *at, size_t size)
{
    void *new = malloc(size);
    size_t old = at ? *(size_t *)((char *)at - 16) : 0;

    return at ? memcpy(new, at, old < size ? old : size) : new;
}

__attribute__((noinline)) int in_between(void *library, const char *name);
int in_between(void *library, const char *name)
{
    void *found;

    RUNS;
    looking = 1;
    found = dlsym(library, name);
    looking = 0;
    printf("%s is %s\n", name, found ? "there" : "not there");
    return found != NULL;
}

int main(void)
{
    void *library = dlopen("libinside.so", RTLD_NOW);
    void *frames[4];

    setvbuf(stdout, NULL, _IONBF, 0);
    backtrace(frames, 4); /* loads the unwinder */
    RUNS;
    in_between(library, "chosen");
    in_between(library, "no_such_function");
    return 0;
}
#endif
