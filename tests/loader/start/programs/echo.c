/* SPDX-License-Identifier: MIT
 *
 * Prints what a program can see of how it was started: arguments, environment,
 * the auxiliary vector reached in two ways, /proc/self/environ.
 *
 *   echo sizes     numbers of arguments and variables, and a sum over their bytes
 *   echo all       each of them
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <unistd.h>

extern char **environ;

static unsigned long sum(char **list, int *n)
{
    unsigned long sum = 0;

    for (*n = 0; list[*n]; ++*n)
        for (char *p = list[*n]; *p; p++)
            sum = sum * 31 + (unsigned char)*p;
    return sum;
}

static void auxiliary(void)
{
    ElfW(auxv_t) *a;
    char **end = environ;

    while (*end)
        end++;
    for (a = (void *)(end + 1); a->a_type != AT_NULL; a++) {
        if (a->a_type == AT_IGNORE || a->a_type == AT_HWCAP || a->a_type == AT_HWCAP2)
            continue; /* libc has its own idea of the last two */
        if (getauxval(a->a_type) != a->a_un.a_val)
            printf("auxv: entry %lu differs\n", a->a_type);
        if (a->a_type == AT_EXECFN)
            printf("execfn: %s\n", (char *)a->a_un.a_val);
        if (a->a_type == AT_ENTRY)
            printf("auxv: walked\n");
    }
}

static void kernel_view(const char *file)
{
    char buffer[65536];
    int fd = open(file, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, buffer, sizeof buffer);
    unsigned long sum = 0;

    for (ssize_t i = 0; i < n; i++)
        sum = sum * 31 + (unsigned char)buffer[i];
    printf("%s: %zd %lu\n", file, n, sum);
    close(fd);
}

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
    int n;
    unsigned long bytes = sum(argv, &n);
    char *preload = getenv("LD_PRELOAD");

    printf("arguments: %d %d %lu\n", argc, n, bytes);
    bytes = sum(environ, &n);
    printf("variables: %d %lu\n", n, bytes);
    printf("LD_PRELOAD: %s\n", preload ? preload : "(none)");
    printf("first: %s\n", environ[0] ? environ[0] : "(none)");
    if (argc > 1 && strcmp(argv[1], "all") == 0) {
        for (int i = 0; i < argc; i++)
            printf("  %s\n", argv[i]);
        for (char **e = environ; *e; e++)
            printf("  %s\n", *e);
    }
    auxiliary();
    kernel_view("/proc/self/environ");
    kernel_view("/proc/self/cmdline");
    dl_iterate_phdr(loader_name, NULL);
    return 0;
}
