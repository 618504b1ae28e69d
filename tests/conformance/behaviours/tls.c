/* SPDX-License-Identifier: MIT
 *
 * Thread-local storage: local-exec, initial-exec and dynamic; in the program, in its
 * libraries, in opened ones; in threads older and younger than the library; aligned;
 * destructors of threads; closed and opened again.
 *
 * covers: elf/tst-tls1 elf/tst-tls?? elf/tst-tls-dlinfo elf/tst-tls-ie elf/tst-tls-surplus
 *         elf/tst-tlsalign elf/tst-gnu2-tls1 elf/tst-dlopen-tlsmodid nptl/tst-tls*
 *         nptl/tst-pt-tls* nptl/tst-stack4
 * build: libneeded.so -DBASE=100
 * build: libie.so -DBASE=200 -ftls-model=initial-exec
 * build: libdynamic.so -DBASE=300
 * build: libdesc.so -DBASE=400 -mtls-dialect=gnu2
 * build: program libneeded.so -pthread
 * run:
 * run: LD_BIND_NOW=1
 * run: GLIBC_TUNABLES=glibc.rtld.optional_static_tls=4096
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

struct block {
    int value;
    char zero[200];
};

#ifdef BASE
static __thread _Alignas(64) struct block block = {.value = BASE};
static __thread int zero;

int bump(void);
int bump(void)
{
    for (unsigned i = 0; i < sizeof block.zero; i++)
        if (block.zero[i])
            return -1;
    if ((uintptr_t)&block % 64)
        return -2;
    return block.value++ + zero++ * 1000;
}
#else
int bump(void);
static __thread int mine = 7;
static _Alignas(4096) __thread char wide[4096] = "wide";
static int (*functions[3])(void);
static pthread_barrier_t barrier;

static void *older(void *unused)
{
    int a = bump(), b;

    pthread_barrier_wait(&barrier); /* started before the libraries were opened */
    pthread_barrier_wait(&barrier);
    b = bump();
    printf("older: %d %d %d", a, b, mine++);
    for (int i = 0; i < 3; i++)
        if (functions[i])
            printf(" %d", functions[i]() + functions[i]());
    printf(" %s %d\n", wide, (int)((uintptr_t)wide % 4096));
    pthread_barrier_wait(&barrier);
    return unused;
}

static void *younger(void *unused)
{
    printf("younger: %d %d", bump(), mine++);
    for (int i = 0; i < 3; i++)
        if (functions[i])
            printf(" %d", functions[i]());
    printf("\n");
    return unused;
}

int main(void)
{
    static const char *const names[] = {"libie.so", "libdynamic.so", "libdesc.so"};
    pthread_t first, second;
    void *handles[3], *at = NULL;
    size_t module = 0;

    for (int round = 0; round < 3; round++) {
        pthread_barrier_init(&barrier, NULL, 2);
        pthread_create(&first, NULL, older, NULL);
        pthread_barrier_wait(&barrier);
        for (int i = 0; i < 3; i++) {
            handles[i] = dlopen(names[i], RTLD_NOW);
            functions[i] = handles[i] ? (int (*)(void))dlsym(handles[i], "bump") : NULL;
            printf("%s: %s\n", names[i], handles[i] ? "open" : dlerror());
            if (!handles[i])
                continue;
            printf("module %d", dlinfo(handles[i], RTLD_DI_TLS_MODID, &module) || !module);
            printf(" %d", dlinfo(handles[i], RTLD_DI_TLS_DATA, &at) || at);
            functions[i]();
            printf(" %d\n", dlinfo(handles[i], RTLD_DI_TLS_DATA, &at) || !at);
        }
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        pthread_join(first, NULL);
        pthread_create(&second, NULL, younger, NULL);
        pthread_join(second, NULL);
        for (int i = 0; i < 3; i++)
            if (handles[i])
                dlclose(handles[i]);
    }
    printf("main: %d %d\n", bump(), mine);
    return 0;
}
#endif
