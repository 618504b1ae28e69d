/* SPDX-License-Identifier: MIT
 *
 * Objects aligned far above a page, with holes between segments, with a large bss, linked
 * with and without separate code; the program itself at 2 MiB.  glibc before 2.35 leaves
 * the alignment of a library to chance.
 *
 * needs: 2.35
 * covers: elf/tst-align* elf/tst-p_align? elf/tst-big-note elf/tst-split-dynreloc
 * build: libwide.so -DLIBRARY -Wl,-z,max-page-size=0x200000
 * build: libhuge.so -DLIBRARY -DALIGN=0x10000 -Wl,-z,max-page-size=0x10000
 * build: libone.so -DLIBRARY -Wl,-z,noseparate-code
 * build: libsmall.so -DLIBRARY -Wl,-z,max-page-size=0x1000 -Wl,-z,separate-code
 * build: program -Wl,-z,max-page-size=0x200000 libwide.so
 * build: nopie -no-pie -Wl,-z,max-page-size=0x200000 libwide.so
 * run:
 * run: program=nopie
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

#ifndef ALIGN
#define ALIGN 4096
#endif

#ifdef LIBRARY
static _Alignas(ALIGN) char page[ALIGN] = "page";
static char bss[3000000];

unsigned sum(void);
unsigned sum(void)
{
    unsigned n = (unsigned)((uintptr_t)page % ALIGN);

    for (unsigned i = 0; i < sizeof bss; i++)
        n += (unsigned char)bss[i]++;
    return n + (unsigned char)page[0];
}
#else
unsigned sum(void);

int main(void)
{
    static const char *const names[] = {"libhuge.so", "libone.so", "libsmall.so", "libwide.so"};

    printf("%u\n", sum());
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 4; i++) {
            void *h = dlopen(names[i], RTLD_NOW);
            Dl_info info = {0};

            if (!h) {
                printf("%s\n", dlerror());
                continue;
            }
            dladdr(dlsym(h, "sum"), &info);
            printf("%s %u %lu\n", names[i], ((unsigned (*)(void))dlsym(h, "sum"))(),
                   (unsigned long)((uintptr_t)info.dli_fbase % (i == 3 ? 0x200000 : 0x1000)));
            dlclose(h);
        }
    }
    return 0;
}
#endif
