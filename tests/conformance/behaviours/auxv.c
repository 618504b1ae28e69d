/* SPDX-License-Identifier: MIT
 *
 * argc, argv, environment and the auxiliary vector as a program sees them, under options of
 * the loader run directly too.
 *
 * covers: elf/tst-auxv elf/argv0test elf/tst-null-argv elf/tst-rtld-help elf/list-tunables
 * build: program
 * build: nopie -no-pie
 * run: A=1 B=
 * run: program=nopie A=1
 * run: direct --argv0 another-name
 * run: direct --inhibit-cache
 * run: direct --library-path $D/none:$D
 * run: direct --inhibit-rpath x
 * run: direct --
 * run: direct --list-tunables
 * run: direct --no-such-option
 * run: program=absent direct
 */
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

extern const ElfW(Ehdr) __ehdr_start;
extern int _start(void);

static int loader(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    return (strstr(info->dlpi_name, "/ld.so") || strstr(info->dlpi_name, "/ld-linux")) &&
           info->dlpi_addr == *(uintptr_t *)data;
}

int main(int argc, char **argv, char **envp)
{
    uintptr_t base = getauxval(AT_BASE);
    const unsigned char *random = (const void *)getauxval(AT_RANDOM);
    char **e = argv + argc + 1;

    printf("%d", argc);
    for (int i = 0; i < argc; i++)
        printf(" %s", strrchr(argv[i], '/') ? strrchr(argv[i], '/') : argv[i]);
    printf("\n%d %d\n", e == envp, environ == envp);
    for (; *e; e++)
        if ((*e)[1] == '=')
            puts(*e);
    for (ElfW(auxv_t) *a = (ElfW(auxv_t) *)(e + 1); a->a_type; a++)
        if (a->a_type == AT_PHENT || a->a_type == AT_PAGESZ || a->a_type == AT_SECURE)
            printf("%lu=%lu\n", a->a_type, a->a_un.a_val);
    printf("phdr %d, %lu headers, entry %d\n",
           getauxval(AT_PHDR) == (uintptr_t)&__ehdr_start + __ehdr_start.e_phoff,
           getauxval(AT_PHNUM), getauxval(AT_ENTRY) == (uintptr_t)_start);
    printf("base: %s\n", !base                               ? "0"
                          : dl_iterate_phdr(loader, &base) ? "the loader"
                                                           : "something else");
    printf("random %d, vdso %d\n", random && (uintptr_t)random > (uintptr_t)&base,
           getauxval(AT_SYSINFO_EHDR) != 0);
    errno = 0;
    printf("absent %lu %d\n", getauxval(9999), errno == ENOENT);
    return 0;
}
