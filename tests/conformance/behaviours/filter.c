/* SPDX-License-Identifier: MIT
 *
 * DT_FILTER and DT_AUXILIARY: an object whose symbols another one provides.
 *
 * covers: elf/filter elf/tst-filterobj* elf/tst-auxobj*
 * build: libreal.so -DVALUE=2 -DMORE
 * build: libfilter.so -DVALUE=1 -Wl,-F,libreal.so
 * build: libauxiliary.so -DVALUE=3 -Wl,-f,libreal.so
 * build: libhopeful.so -DVALUE=4 -Wl,-f,libabsent.so
 * build: program libfilter.so
 * build: other libauxiliary.so
 * build: hopeful libhopeful.so
 * run:
 * run: program=other
 * run: program=hopeful
 */
#include <dlfcn.h>
#include <stdio.h>

#ifdef VALUE
int value(void);
int value(void)
{
    return VALUE;
}
#ifdef MORE
int more(void);
int more(void)
{
    return 50;
}
#endif
#else
int value(void);
int main(void)
{
    void *h = dlopen("libauxiliary.so", RTLD_NOW), *f = dlopen("libfilter.so", RTLD_NOW);

    printf("%d %d %d\n", value(), ((int (*)(void))dlsym(h, "value"))(),
           ((int (*)(void))dlsym(f, "value"))());
    printf("%d\n", dlsym(RTLD_DEFAULT, "more") != NULL);
    return 0;
}
#endif
