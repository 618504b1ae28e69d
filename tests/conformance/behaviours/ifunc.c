/* SPDX-License-Identifier: MIT
 *
 * IFUNC in the program and in libraries: called, taken as a pointer, found by dlsym, in a
 * static initialiser, bound at once and lazily; and when resolvers run.
 *
 * covers: elf/ifuncmain* elf/tst-ifunc-*
 * build: libifunc.so -DLIBRARY
 * build: libopened.so -DLIBRARY -DOPENED
 * build: program libifunc.so -rdynamic
 * build: nopie libifunc.so -rdynamic -no-pie
 * run:
 * run: LD_BIND_NOW=1
 * run: program=nopie
 * run: program=nopie LD_BIND_NOW=1
 */
#include <dlfcn.h>
#include <stdio.h>

extern int resolved;

#ifdef LIBRARY
#ifndef OPENED
int resolved;
#endif

static int chosen(void)
{
#ifdef OPENED
    return 9;
#else
    return 3;
#endif
}

static int (*resolver(void))(void)
{
    return chosen;
}

int picked(void) __attribute__((ifunc("resolver")));
static int own(void) __attribute__((ifunc("resolver")));
int (*const pointer)(void) = picked;

int both(void);
int both(void)
{
    resolved++;
    return picked() * 10 + own() + (pointer == picked) * 1000;
}
#else
int picked(void);
int both(void);
extern int (*const pointer)(void);
static int (*const here)(void) = picked;

static int eight(void)
{
    return 8;
}

static int (*choose(void))(void)
{
    return eight;
}

static int mine(void) __attribute__((ifunc("choose")));

int main(void)
{
    void *h = dlopen("libopened.so", RTLD_NOW);
    int (*f)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "picked");
    int (*g)(void) = (int (*)(void))dlsym(h, "picked");

    printf("%d %d %d %d %d\n", picked(), both(), pointer(), here(), mine());
    printf("%d %d %d\n", f(), g ? g() : -1, ((int (*)(void))dlsym(h, "both"))());
    printf("%d %d %d\n", here == pointer, picked == pointer, resolved);
    return 0;
}
#endif
