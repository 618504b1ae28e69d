/* SPDX-License-Identifier: MIT
 *
 * dl_iterate_phdr, asked in which object a function lies by that function itself, as the JVM
 * finds its home.
 *
 * A failure means that a program looks for its files beside another object's.
 *
 * build: liblocates.so -DNAME=linked
 * build: program liblocates.so
 * run:
 */
#include "identity.h"

#include <link.h>

#define JOIN(a, b) a##b
#define FUNCTION(x) JOIN(x, _locates)

static int holds(struct dl_phdr_info *info, size_t size, void *cookie)
{
    uintptr_t at = *(uintptr_t *)cookie;

    (void)size;
    for (size_t i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD &&
            at - info->dlpi_addr - info->dlpi_phdr[i].p_vaddr < info->dlpi_phdr[i].p_memsz) {
            printf("it lies in %s\n", *info->dlpi_name ? strrchr(info->dlpi_name, '/') : "program");
            return 1;
        }
    return 0;
}

static void locate(uintptr_t at)
{
    if (!dl_iterate_phdr(holds, &at))
        printf("it lies nowhere\n");
}

#ifdef NAME
void FUNCTION(NAME)(void);
void FUNCTION(NAME)(void)
{
    RUNS;
    locate((uintptr_t)FUNCTION(NAME));
}
#else
void linked_locates(void);

int main(void)
{
    void (*volatile own)(uintptr_t) = locate; /* a word, or an operand */

    RUNS;
    own((uintptr_t)main);
    own((uintptr_t)locate);
    linked_locates();
    return 0;
}
#endif
