/* SPDX-License-Identifier: MIT
 *
 * dlmopen: libraries with state of their own in each namespace, names resolved within it,
 * a namespace closed and used again, and more of them than there can be.
 *
 * covers: elf/tst-dlmopen* elf/tst-tls-ie-dlmopen dlfcn/tst-dladdr
 * build: libdependency.so -DDEPENDENCY
 * build: liblibrary.so -DLIBRARY libdependency.so
 * build: program libdependency.so
 * run:
 * run: LD_BIND_NOW=1
 */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>

int count(void);

#if defined DEPENDENCY
static int calls;
int count(void)
{
    return ++calls;
}
#elif defined LIBRARY
static __thread int threads = 40;
int ask(void);
int ask(void)
{
    return count() * 100 + threads++;
}

__attribute__((constructor)) static void constructor(void)
{
    count();
}
#else
static int objects(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)info;
    (void)size;
    ++*(int *)data;
    return 0;
}

int main(void)
{
    void *handles[20];
    int n = 0, opened = 0;
    Lmid_t id = -1, first = -1;

    count();
    for (int round = 0; round < 2; round++) {
        for (opened = 0; opened < 20; opened++) {
            handles[opened] = dlmopen(LM_ID_NEWLM, "liblibrary.so", RTLD_NOW);
            if (!handles[opened]) {
                printf("after %d: %s\n", opened, dlerror());
                break;
            }
            dlinfo(handles[opened], RTLD_DI_LMID, &id);
            if (!opened)
                first = id;
            int (*ask)(void) = (int (*)(void))dlsym(handles[opened], "ask");
            int a = ask(), b = ask();

            if (opened < 2)
                printf("namespace %ld: %d %d\n", (long)id, a, b);
        }
        void *known = dlmopen(first, "libdependency.so", RTLD_NOLOAD | RTLD_NOW);

        printf("in the first: %s\n", known ? "known" : "unknown");
        for (int i = 0; i < opened; i++)
            dlclose(handles[i]);
    }
    printf("in the base: %d\n", count());
    dl_iterate_phdr(objects, &n);
    printf("%s\n", n >= 4 ? "objects seen" : "too few objects");
    printf("%s\n", dlmopen(LM_ID_BASE, "liblibrary.so", RTLD_NOW) ? "base" : dlerror());
    return 0;
}
#endif
