/* SPDX-License-Identifier: MIT
 *
 * A library with code that the pass changes, and a word that leads to one of two
 * functions, as the file FLAG is there or not.
 */
#include <sys/syscall.h>

__asm__(".globl answer\n.type answer, @function\n"
        "answer: movl $1, %eax\nret\n.size answer, . - answer\n");

static int here(void)
{
    return 0;
}

static int there(void)
{
    return 1;
}

static int (*choose(void))(void)
{
    long result;

    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(SYS_access), "D"(FLAG), "S"(0)
                     : "rcx", "r11", "memory");
    return result ? here : there;
}

__attribute__((visibility("hidden"), ifunc("choose"))) int chosen(void);
int (*const word)(void) __attribute__((visibility("default"))) = chosen;
