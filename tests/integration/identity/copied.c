/* SPDX-License-Identifier: MIT
 *
 * Tables of function pointers that the program copies (R_X86_64_COPY), pointers in RELRO and in
 * RELR, weak functions that are defined nowhere, or late; protected and hidden ones; aliases.
 *
 * A failure means that a program calls something else, or calls nothing.
 *
 * build: libcopied.so -DLIBRARY
 * build: librelr.so -DLIBRARY -DRELR -Wl,-z,pack-relative-relocs
 * build: program libcopied.so
 * build: fixed libcopied.so -no-pie -DFIXED
 * build: plain libcopied.so -O0 -fno-plt
 * run:
 * run: LD_BIND_NOW=1
 * run: program=fixed IDENTITY=
 * run: program=plain
 */
#include "identity.h"

#include <dlfcn.h>

typedef int function(int);

struct operations {
    function *first, *second, *third, *absent;
    const char *name;
};

extern struct operations operations;
extern const struct operations constant_operations;
function public, alias_of_public;
__attribute__((weak)) function nowhere, in_program_maybe;
function *ask(int), *ask_weak(int);

#ifdef LIBRARY
int public(int n)
{
    RUNS;
    return n + 1;
}

int alias_of_public(int) __attribute__((alias("public")));

__attribute__((visibility("protected"))) int guarded(int n);
int guarded(int n)
{
    RUNS;
    return n + 2;
}

static __attribute__((noinline, noclone)) int hidden(int n)
{
    RUNS;
    return n + 3;
}

struct operations operations = {public, guarded, hidden, nowhere, "operations"};
const struct operations constant_operations = {public, guarded, hidden, nowhere, "constant"};
static function *const own[] = {public, guarded, hidden, alias_of_public};

function *ask(int n)
{
    RUNS;
    return own[n];
}

function *ask_weak(int n)
{
    RUNS;
    return n ? nowhere : in_program_maybe;
}
#else
int in_program_maybe(int n)
{
#ifndef FIXED
    RUNS;
#endif
    return n + 4;
}

static void show(const struct operations *o)
{
    printf("%s: %d %d %d, %d %d %d, %d\n", o->name, o->first(1), o->second(1), o->third(1),
           o->first == public, o->first == ask(0), o->third == ask(2), o->absent == NULL);
}

int main(void)
{
    void *h = dlopen("librelr.so", RTLD_NOW);
    function *(*other)(int) = (function *(*)(int))dlsym(h, "ask");

    show(&operations);
    show(&constant_operations);
    printf("weak %d %d %d\n", ask_weak(0) == in_program_maybe, ask_weak(1) == NULL,
           nowhere == NULL);
    printf("%d\n", ask_weak(0)(1));
    printf("alias %d %d\n", ask(3) == ask(0), alias_of_public == public);
    printf("guarded %d\n", dlsym(RTLD_DEFAULT, "guarded") == (void *)ask(1));
    show((const struct operations *)dlsym(RTLD_DEFAULT, "operations"));
    printf("other %d %d %d\n", h && other(2) != ask(2), h ? other(2)(1) : 0,
           h ? other(0) == public : 0);
    return 0;
}
#endif
