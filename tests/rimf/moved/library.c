/* SPDX-License-Identifier: MIT
 *
 * library.c: code to be moved: a jump table, calls inside and out, a pointer to its
 * own code, data; and between what moves a function that stays, with a call through a slot.
 */
#include <stddef.h>
#include <unistd.h>

static int counted;

__attribute__((noinline)) static int pick(int n)
{
    switch (n) {
    case 0: return 11;
    case 1: return counted++;
    case 2: return 7 + n;
    case 3: return counted * 3;
    case 4: return 5;
    case 5: return --counted;
    case 6: return counted ^ n;
    default: return -1;
    }
}

static int (*volatile const by_pointer)(int) = pick;

__attribute__((noinline)) static int sum(int n)
{
    int total = 0;

    for (int i = 0; i < n; i++)
        total += pick(i % 8) + by_pointer(i % 7);
    return total;
}

/* What is the same whenever it is asked. */
int moved_sum(int n)
{
    counted = 3;
    return sum(n);
}

/* What `visit` gives, called from here, one more, and not by a jump. */
int moved_call(int (*visit)(void *), void *cookie)
{
    return visit(cookie) + 1;
}

/* Linkers put these before each other, and before .text. */
__attribute__((section(".text.unlikely"))) int moved_before(int n)
{
    return n + 1;
}

/* Data keeps a place inside it. */
__attribute__((section(".text.startup"))) int moved_stays(int fd)
{
    __asm__ volatile("nop\n"
                     "1: nop\n"
                     ".pushsection .data.rel.ro.place, \"aw\"\n"
                     ".quad 1b\n"
                     ".popsection");
    return close(fd) + 1;
}
