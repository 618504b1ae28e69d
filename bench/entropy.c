/* SPDX-License-Identifier: MIT
 *
 * entropy.c: where things lie in this process, for entropy.py: executable, libc,
 * stack and heap, a line of hexadecimal addresses.
 */
#define _GNU_SOURCE
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const char __executable_start[];

static int find_libc(struct dl_phdr_info *info, size_t size, void *out)
{
    (void)size;
    if (strstr(info->dlpi_name, "libc.so"))
        *(unsigned long *)out = info->dlpi_addr;
    return 0;
}

int main(void)
{
    unsigned long libc = 0;
    int local;

    dl_iterate_phdr(find_libc, &libc);
    printf("%lx %lx %lx %lx\n", (unsigned long)__executable_start, libc, (unsigned long)&local,
           (unsigned long)sbrk(0));
    return libc == 0;
}
