/* SPDX-License-Identifier: MIT
 *
 * STB_GNU_UNIQUE: one definition in the process, whatever the scopes, and the library
 * that gave it stays.
 *
 * covers: elf/tst-unique?
 * build: libone.so -DNAME=one
 * build: libtwo.so -DNAME=two
 * build: program
 * run:
 */
#include <dlfcn.h>
#include <stdio.h>

#define STRING(x) #x
#define NAMED(x) STRING(x)

#ifdef NAME
__asm__(".pushsection .data\n.globl only\n.type only,%gnu_unique_object\n.size only,4\n"
        "only: .long 5\n.popsection");
extern int only;
int bump(void);
int bump(void)
{
    return only++;
}

__attribute__((destructor)) static void destructor(void)
{
    printf("destructor of %s\n", NAMED(NAME));
}
#else
int main(void)
{
    for (int i = 0; i < 2; i++) {
        void *one = dlopen("libone.so", RTLD_NOW | RTLD_LOCAL);
        void *two = dlopen("libtwo.so", RTLD_NOW | RTLD_LOCAL);

        printf("%d %d\n", ((int (*)(void))dlsym(one, "bump"))(),
               ((int (*)(void))dlsym(two, "bump"))());
        printf("%s\n", dlsym(one, "only") == dlsym(two, "only") ? "one" : "two");
        dlclose(two);
        dlclose(one);
        printf("%d %d\n", dlopen("libone.so", RTLD_NOW | RTLD_NOLOAD) != NULL,
               dlopen("libtwo.so", RTLD_NOW | RTLD_NOLOAD) != NULL);
    }
    return 0;
}
#endif
