/* SPDX-License-Identifier: MIT
 *
 * dlsym(RTLD_NEXT) of libraries that wrap malloc, open and each other, dlvsym(RTLD_NEXT),
 * RTLD_DEFAULT asked by a library that was opened with a scope of its own.  The object of the
 * caller is what counts, and the loader knows it by its return address.
 *
 * A failure means that a wrapper finds itself and recurses, or finds nothing.
 *
 * build: libthird.so -DNAME=third
 * build: libsecond.so -DNAME=second
 * build: libfirst.so -DNAME=first -DWRAPS -fno-plt
 * build: libalone.so -DALONE
 * build: libscoped.so -DSCOPED -Wl,--no-as-needed libalone.so
 * build: program -Wl,--no-as-needed libfirst.so libsecond.so libthird.so -pthread
 * run:
 * run: LD_BIND_NOW=1
 * run: LD_PRELOAD=libthird.so
 */
#include "identity.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>

#define STRING(x) #x
#define NAMED(x) STRING(x)

#if defined NAME
int chain(int depth);
int chain(int depth)
{
    int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "chain");

    RUNS;
    printf("%s at %d\n", NAMED(NAME), depth);
    return next ? next(depth + 1) : depth;
}

#ifdef WRAPS
int wrapped[2];

void *malloc(size_t size)
{
    static void *(*next)(size_t);

    if (!next)
        next = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    wrapped[0]++;
    return next(size);
}

int open(const char *path, int flags, ...)
{
    int (*next)(const char *, int, ...) =
        (int (*)(const char *, int, ...))dlvsym(RTLD_NEXT, "open", "GLIBC_2.2.5");
    va_list list;
    int mode = 0;

    RUNS;
    if (flags & O_CREAT) {
        va_start(list, flags);
        mode = va_arg(list, int);
        va_end(list);
    }
    wrapped[1]++;
    return next(path, flags, mode);
}
#endif
#elif defined ALONE
int only_here(void);
int only_here(void)
{
    RUNS;
    return 77;
}
#elif defined SCOPED
/* Opened locally: RTLD_DEFAULT is the scope of the caller. */
int asks(const char *name);
int asks(const char *name)
{
    int (*f)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, name);

    RUNS;
    return f ? f() : -1;
}

/* The call is the last thing, a jump: the caller's caller is who asks. */
void *asks_last(const char *name);
__attribute__((optimize("optimize-sibling-calls"))) void *asks_last(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}
#else
int chain(int);
extern int wrapped[2];

int only(void);
int only(void)
{
    return 5;
}

static void *thread(void *data)
{
    RUNS;
    printf("%d\n", chain(10));
    return data;
}

int main(void)
{
    void *h = dlopen("libscoped.so", RTLD_NOW | RTLD_LOCAL);
    int (*asks)(const char *) = (int (*)(const char *))dlsym(h, "asks");
    void *(*asks_last)(const char *) = (void *(*)(const char *))dlsym(h, "asks_last");
    int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "chain");
    pthread_t id;

    RUNS;
    printf("%d %d\n", chain(0), next(20));
    printf("%d %d %d\n", asks("only_here"), asks_last("only_here") != NULL, asks("absent"));
    printf("%d\n", dlsym(RTLD_DEFAULT, "only_here") != NULL);
    pthread_create(&id, NULL, thread, NULL);
    pthread_join(id, NULL);
    wrapped[0] = 0;
    free(malloc(10));
    printf("%d %d", open("/dev/null", O_RDONLY) >= 0, wrapped[0]);
    free(strdup("libc's own call"));
    printf(" %d %d\n", wrapped[0], wrapped[1]);
    printf("%d\n", dlsym(RTLD_NEXT, "malloc") == (void *)malloc);
    return 0;
}
#endif
