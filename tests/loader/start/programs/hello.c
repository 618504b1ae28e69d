/* SPDX-License-Identifier: MIT
 *
 * Says which libc it runs with, its arguments, and the loader's name.
 */
#define _GNU_SOURCE
#include <link.h>
#include <stdio.h>
#include <string.h>

static int loader_name(struct dl_phdr_info *info, size_t size, void *cookie)
{
    (void)size;
    (void)cookie;
    if (strstr(info->dlpi_name, "/ld-"))
        printf("loader: %s\n", info->dlpi_name);
    return 0;
}

int main(int argc, char **argv)
{
#ifdef __GLIBC__
    printf("glibc");
#else
    printf("musl");
#endif
    for (int i = 1; i < argc; i++)
        printf(" %s", argv[i]);
    printf("\n");
    dl_iterate_phdr(loader_name, NULL);
    return 0;
}
