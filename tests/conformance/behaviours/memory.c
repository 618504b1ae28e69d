/* SPDX-License-Identifier: MIT
 *
 * What may be written and executed: RELRO of the program and of opened libraries, the GOT
 * under -z now, text, an executable stack asked for by an opened library.
 *
 * covers: elf/tst-relro-* elf/tst-execstack* elf/tst-ro-dynamic nptl/tst-execstack
 * build: liblazy.so -DLIBRARY -Wl,-z,relro -Wl,-z,lazy
 * build: libnow.so -DLIBRARY -Wl,-z,relro -Wl,-z,now
 * build: libstack.so -DLIBRARY -Wl,-z,execstack
 * build: program -Wl,-z,relro -Wl,-z,now
 * build: lazy -Wl,-z,norelro -Wl,-z,lazy
 * run:
 * run: program=lazy
 */
#include <dlfcn.h>
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef LIBRARY
const char *const words[] = {"relocated", "read", "only"};
int pid(void);
int pid(void)
{
    return getpid();
}
#else
static sigjmp_buf back;
static const char *const words[] = {"relocated", "read", "only"};

static void fault(int signal)
{
    (void)signal;
    siglongjmp(back, 1);
}

static const char *writable(const void *at)
{
    volatile char *p = (volatile char *)(uintptr_t)at;

    if (sigsetjmp(back, 1))
        return "not writable";
    *p = *p;
    return "writable";
}

static void segments(const char *name, struct link_map *map)
{
    for (ElfW(Dyn) *d = map->l_ld; d->d_tag; d++)
        if (d->d_tag == DT_PLTGOT)
            printf("%s: GOT %s, dynamic %s\n", name, writable((void *)d->d_un.d_ptr),
                   writable(map->l_ld));
}

static const char *stack(void)
{
    char line[512], rights[8];
    const char *say = "?";
    unsigned long from, to, here = (unsigned long)&line;
    FILE *f = fopen("/proc/self/maps", "r");

    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "%lx-%lx %7s", &from, &to, rights) == 3 && from <= here && here < to)
            say = strchr(rights, 'x') ? "executable stack" : "plain stack";
    if (f)
        fclose(f);
    return say;
}

int main(void)
{
    static const char *const names[] = {"liblazy.so", "libnow.so", "libstack.so"};
    struct sigaction action = {.sa_handler = fault};
    struct link_map *map;

    sigaction(SIGSEGV, &action, NULL);
    printf("text %s, table %s, %s\n", writable((void *)main), writable(&words[1]), stack());
    dlinfo(dlopen(NULL, RTLD_LAZY), RTLD_DI_LINKMAP, &map);
    segments("program", map);
    for (int i = 0; i < 3; i++) {
        void *h = dlopen(names[i], RTLD_LAZY);

        if (!h) {
            printf("%s: %s\n", names[i], dlerror());
            continue;
        }
        dlinfo(h, RTLD_DI_LINKMAP, &map);
        segments(names[i], map);
        int (*pid)(void) = (int (*)(void))dlsym(h, "pid");

        printf("  text %s, table %s, %s, %d\n", writable(dlsym(h, "pid")),
               writable(dlsym(h, "words")), stack(), pid() == getpid());
    }
    return 0;
}
#endif
