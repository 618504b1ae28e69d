/* SPDX-License-Identifier: MIT
 *
 * A program that cannot start: no library, no symbol, no version, damaged files.  Same
 * sentences, same exit status.
 *
 * covers: elf/loadfail elf/tst-initfinilazyfail elf/tst-dlopenfail* elf/tst-dlopen-self*
 *         elf/tst-dlopen-pie elf/tst-bz15311 dlfcn/failtest
 * file: map V1 { global: f; };
 * build: complete/libpart.so -DFULL -Wl,--version-script,$D/map -Wl,-soname,libpart.so
 * build: empty/libpart.so -Wl,-soname,libpart.so
 * build: wrong/libpart.so -DFULL -Wl,-soname,libpart.so
 * file: text/libpart.so this is no library
 * file: zero/libpart.so
 * build: program complete/libpart.so
 * run: LD_LIBRARY_PATH=$D/complete
 * run: LD_LIBRARY_PATH=$D/empty
 * run: LD_LIBRARY_PATH=$D/wrong
 * run: LD_LIBRARY_PATH=$D/text
 * run: LD_LIBRARY_PATH=$D/zero
 * run: LD_LIBRARY_PATH=$D/none
 * run: LD_LIBRARY_PATH=$D/empty LD_BIND_NOW=1
 * run: LD_LIBRARY_PATH=$D/none direct --verify
 * run: LD_LIBRARY_PATH=$D/complete direct --verify
 * run: program=text/libpart.so direct
 */
#ifdef PART_program
#include <dlfcn.h>
#include <stdio.h>

int f(void);

int main(void)
{
    static const char *const names[] = {"text/libpart.so", "zero/libpart.so", "/", "/dev/null", ""};

    printf("%d\n", f());
    for (int i = 0; i < 5; i++)
        printf("%s\n", dlopen(names[i], RTLD_NOW) ? "?" : dlerror());
    return 0;
}
#elif defined FULL
int f(void);
int f(void)
{
    return 1;
}
#endif
