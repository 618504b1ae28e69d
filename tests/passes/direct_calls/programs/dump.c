/* SPDX-License-Identifier: MIT
 *
 * dump.c: preloaded into any program, writes its objects' memory to $DUMP before main and
 * ends it: for each PT_LOAD "name bias vaddr size flags\n" and the bytes.
 */
#define _GNU_SOURCE
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int object(struct dl_phdr_info *info, size_t size, void *file)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *load = &info->dlpi_phdr[i];

        if (load->p_type != PT_LOAD || !(load->p_flags & PF_R))
            continue;
        fprintf(file, "%s|%lx|%lx|%lx|%x\n", info->dlpi_name, (unsigned long)info->dlpi_addr,
                (unsigned long)load->p_vaddr, (unsigned long)load->p_memsz, load->p_flags);
        fwrite((const void *)(info->dlpi_addr + load->p_vaddr), 1, load->p_memsz, file);
    }
    return 0;
}

__attribute__((constructor)) static void dump(void)
{
    const char *path = getenv("DUMP");
    FILE *file = path ? fopen(path, "w") : NULL;

    if (!file)
        return;
    dl_iterate_phdr(object, file);
    fclose(file);
    _exit(0);
}
