/* SPDX-License-Identifier: MIT
 *
 * A library with a function of which there are two: which, says whether the file FLAG is there.
 * As with functions that are chosen by the CPU, a pointer to it leads to the one or the other.
 */
#include <fcntl.h>
#include <sys/syscall.h>

static int first(void)
{
    return 1;
}

static int second(void)
{
    return 2;
}

/* Before anything is relocated: by itself. */
static int is_flagged(void)
{
    long result;

    __asm__ volatile("syscall" : "=a"(result)
                     : "0"(SYS_access), "D"(FLAG), "S"(0)
                     : "rcx", "r11", "memory");
    return result == 0;
}

__attribute__((used)) static int (*choose(void))(void)
{
    return is_flagged() ? second : first;
}

int chosen(void) __attribute__((ifunc("choose")));

/* By pointers, the library's own and the program's. */
static int (*const own[])(void) = {chosen};

int is_same(int (*pointer)(void))
{
    return pointer == own[0] && pointer() == own[0]();
}
