/* SPDX-License-Identifier: MIT
 *
 * References of every kind.  It prints their targets.
 */
#include <dlfcn.h>
#include <stdio.h>
#define KEPT __attribute__((noipa))
typedef int function(int);
function called;
KEPT int first(int n) { return n + 1; }
KEPT int second(int n) { return n + 200; }
KEPT int choose(int n)
{
    switch (n) {
    case 0: return called(1); case 1: return second(1); case 2: return second(2) + 3;
    case 3: return called(7); case 4: return called(8) - 1; case 5: return 9; default: return second(n);
    }
}
function *word = first;
function *const relro[] = {first, second};
#ifdef MANY
function *many[MANY] = {[0 ... MANY - 1] = first};
#endif
__asm__(".globl disguised\n.type disguised,@function\ndisguised: .cfi_startproc\n"
        ".byte 0x48,0xb8,0x48,0x8d,0x05\n.long first - . - 4\n.byte 0\nret\n"
        ".cfi_endproc\n.size disguised, .-disguised\n");
KEPT function *taken(void) { return first; }
KEPT int call(int n) { return first(n) + 1; }
int main(int argc, char **argv)
{
    volatile int zero = 0;
    void *late = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;

    printf("call %d lea %d word %d relro %d slot %d", call(0) - 1, taken()(0), word(0), relro[zero](0), called(0));
    printf(" choose %d", choose(zero + 1));
    if (late)
        printf(" late %d", ((int (*)(void))dlsym(late, "late"))());
#ifdef MANY
    long sum = 0;
    for (int i = 0; i < MANY; i++)
        sum += many[i](0);
    printf(" many %ld", sum);
#endif
    printf("\n");
    return choose(zero) == -1;
}
