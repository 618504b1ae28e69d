/* SPDX-License-Identifier: MIT
 *
 * Which of the two functions was chosen, through a pointer (chosen.c).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

int chosen(void);
int is_same(int (*pointer)(void));

static int (*volatile const pointer)(void) = chosen;

int main(void)
{
    printf("%d %d %d\n", pointer(), is_same(pointer),
           dlsym(RTLD_DEFAULT, "chosen") == (void *)pointer);
    return 0;
}
