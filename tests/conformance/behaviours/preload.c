/* SPDX-License-Identifier: MIT
 *
 * LD_PRELOAD and --preload: order, interposition of libc, a missing library, and an
 * environment that says afterwards what the user had put there.
 *
 * covers: elf/preloadtest elf/tst-rtld-preload elf/tst-preload-pthread-libc
 *         malloc/tst-interpose-*
 * build: libone.so -DNAME=one
 * build: libtwo.so -DNAME=two
 * build: libzero.so -DNAME=zero
 * build: program libzero.so -rdynamic
 * run: LD_PRELOAD=libone.so:libtwo.so
 * run: LD_PRELOAD=$D/libtwo.so;$D/libone.so
 * run: LD_PRELOAD=libabsent.so:libone.so
 * run: LD_PRELOAD=
 * run: LD_PRELOAD=libone.so:libone.so:
 * run: direct --preload $D/libone.so
 * run: LD_PRELOAD=$D/libtwo.so direct --preload $D/libone.so
 * run: LD_PRELOAD=$ORIGIN/libone.so
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STRING(x) #x
#define NAMED(x) STRING(x)

#ifdef NAME
const char *who(void)
{
    return NAMED(NAME);
}

char *getlogin(void)
{
    return NAMED(NAME) " login";
}
#else
const char *who(void);

int main(int argc, char **argv)
{
    int n = 0;

    (void)argv;
    printf("%s, %s\n", who(), getlogin() ? "a login" : "none");
    printf("LD_PRELOAD=%s\n", getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "(unset)");
    for (char **e = environ; *e; e++)
        n += !strncmp(*e, "LD_", 3);
    printf("%d LD_ variables\n", n);
    fflush(stdout);
    return argc == 1 && !execlp("/bin/sh", "sh", "-c", "echo \"child: $LD_PRELOAD\"", NULL);
}
#endif
