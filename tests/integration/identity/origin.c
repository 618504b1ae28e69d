/* SPDX-License-Identifier: MIT
 *
 * dlopen and dlmopen look for libraries as the calling object says: its DT_RUNPATH, its
 * $ORIGIN, its namespace.  Called directly, without PLT, in tail position, through a pointer,
 * from a callback of libc's, and from another thread.
 *
 * A failure means that plugins are not found, or others are.
 *
 * Before glibc 2.34 threads are in a library of their own, which the new namespace has not.
 *
 * needs: 2.34
 * build: inner/libplace.so -DPLACE=inner -Wl,-soname,libplace.so
 * build: libplace.so -DPLACE=outer -Wl,-soname,libplace.so
 * build: deep/libasker.so -DASKER -Wl,-rpath,$ORIGIN/../inner -Wl,--enable-new-dtags
 * build: deep/libnoplt.so -DASKER -fno-plt -Wl,-rpath,$ORIGIN/../inner -Wl,--enable-new-dtags
 * build: program -Wl,-rpath,$ORIGIN -Wl,--enable-new-dtags -pthread
 * run: LD_LIBRARY_PATH=
 * run: LD_LIBRARY_PATH= LD_BIND_NOW=1
 */
#include "identity.h"

#include <dlfcn.h>
#include <pthread.h>

#define STRING(x) #x
#define NAMED(x) STRING(x)

#if defined PLACE
const char *place(void);
const char *place(void)
{
    RUNS;
    return NAMED(PLACE);
}
#else
static void tell(const char *how, void *h)
{
    const char *(*place)(void) = h ? (const char *(*)(void))dlsym(h, "place") : NULL;
    Lmid_t id = -1;

    if (h)
        dlinfo(h, RTLD_DI_LMID, &id);
    /* A namespace of its own holds nothing that passes changed. */
    printf("%s: %s, namespace %ld\n", how,
           !h ? dlerror() : !place ? "no place" : id ? "new" : place(), (long)id);
    if (h)
        dlclose(h);
}

__attribute__((noinline)) static void *last(const char *name)
{
    return dlopen(name, RTLD_NOW);
}

static void *in_thread(void *name)
{
    RUNS;
    tell("in a thread", dlopen((const char *)name, RTLD_NOW));
    return NULL;
}

static int in_callback(const void *key, const void *name)
{
    RUNS;
    (void)key;
    tell("in a callback", dlopen(*(char *const *)name, RTLD_NOW));
    return 0;
}

static void ask(const char *where)
{
    static char *names[] = {(char *)"libplace.so"};
    void *(*volatile pointer)(const char *, int) = dlopen;
    pthread_t id;

    RUNS;
    printf("%s\n", where);
    tell("called", dlopen("libplace.so", RTLD_NOW));
    tell("last", last("libplace.so"));
    tell("pointer", pointer("libplace.so", RTLD_NOW));
    bsearch("", names, 1, sizeof(names[0]), in_callback);
    pthread_create(&id, NULL, in_thread, names[0]);
    pthread_join(id, NULL);
    tell("origin", dlopen("$ORIGIN/libplace.so", RTLD_NOW));
    tell("up", dlopen("${ORIGIN}/../inner/libplace.so", RTLD_NOW));
    tell("base", dlmopen(LM_ID_BASE, "libplace.so", RTLD_NOW));
    tell("new", dlmopen(LM_ID_NEWLM, "libplace.so", RTLD_NOW));
    tell("absent", dlopen("libabsent.so", RTLD_NOW));
}

#ifdef ASKER
void asker(const char *where);
void asker(const char *where)
{
    ask(where);
    fflush(stdout); /* in a namespace, another libc's */
}
#else
int main(void)
{
    static const char *const paths[] = {"deep/libasker.so", "deep/libnoplt.so"};

    setvbuf(stdout, NULL, _IONBF, 0);
    ask("program");
    for (int i = 0; i < 2; i++) {
        void *h = dlopen(paths[i], RTLD_NOW);

        ((void (*)(const char *))dlsym(h, "asker"))(paths[i]);
    }
    /* Called from a namespace, it is that namespace's. */
    void *h = dlmopen(LM_ID_NEWLM, "deep/libasker.so", RTLD_NOW);

    if (getenv("IDENTITY"))
        *getenv("IDENTITY") = 0; /* in both libcs' environment: there, nothing moves */
    ((void (*)(const char *))dlsym(h, "asker"))("new namespace");
    return 0;
}
#endif
#endif
