/* SPDX-License-Identifier: MIT
 *
 * What slot_writers.py starts.
 *
 *     COUNTED     a library: counted()
 *     TOOL        a library whose constructor writes to all slots for counted() in the process, as memray
 *                 and heaptrack do, so that calls are counted on their way
 *     WAY         a library that calls counted() in its own way
 *     otherwise   the program: calls, opens the tool that it is told, calls again, says how many it saw
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

int counted(int);

#if defined(COUNTED)
int counted(int x)
{
    return x + 1;
}
#elif defined(TOOL)
int seen;

static int count(int x)
{
    seen++;
    return x + 1;
}

static uintptr_t placed(uintptr_t bias, uintptr_t address)
{
    return address < bias ? bias + address : address;
}

static void write_slots(uintptr_t bias, const Elf64_Rela *r, size_t size, const Elf64_Sym *symbols,
                        const char *names)
{
    for (const Elf64_Rela *end = r + size / sizeof *r; r < end; r++) {
        uint32_t type = ELF64_R_TYPE(r->r_info);
        uintptr_t slot = bias + r->r_offset;

        if ((type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) ||
            strcmp(names + symbols[ELF64_R_SYM(r->r_info)].st_name, "counted") != 0)
            continue;
        mprotect((void *)(slot & ~4095ul), 4096, PROT_READ | PROT_WRITE);
        *(void **)slot = (void *)count;
    }
}

static int visit(struct dl_phdr_info *info, size_t size, void *cookie)
{
    uintptr_t of[DT_JMPREL + 1] = {0}, bias = info->dlpi_addr;

    (void)size;
    (void)cookie;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            for (const Elf64_Dyn *d = (const void *)(bias + info->dlpi_phdr[i].p_vaddr); d->d_tag; d++)
                if (d->d_tag <= DT_JMPREL)
                    of[d->d_tag] = d->d_un.d_ptr;
    if (strstr(info->dlpi_name, "vdso") || !of[DT_SYMTAB])
        return 0;
    for (int of_plt = 0; of_plt < 2; of_plt++)
        if (of[of_plt ? DT_JMPREL : DT_RELA])
            write_slots(bias, (const void *)placed(bias, of[of_plt ? DT_JMPREL : DT_RELA]),
                        of[of_plt ? DT_PLTRELSZ : DT_RELASZ], (const void *)placed(bias, of[DT_SYMTAB]),
                        (const void *)placed(bias, of[DT_STRTAB]));
    return 0;
}

__attribute__((constructor)) static void come(void)
{
    dl_iterate_phdr(visit, NULL);
}
#elif defined(WAY)
int WAY(int x)
{
    return counted(x) * 2 + counted(x + 1);
}

int CONDITION(int x)
{
    return x ? counted(x) : 0; /* a jump, or one with a condition */
}
#else
int by_plt(int), by_slot(int), if_plt(int), if_slot(int);

static int all(int x)
{
    return by_plt(x) + by_slot(x) + if_plt(x) + if_slot(x) + counted(x) + 1;
}

int main(int argc, char **argv)
{
    int result = all(1), *seen;
    void *tool = dlopen(argc > 1 ? argv[1] : NULL, RTLD_NOW | RTLD_GLOBAL);

    result += all(2);
    seen = tool ? dlsym(tool, "seen") : NULL;
    printf("%d, %d seen\n", result, seen ? *seen : -1);
    return 0;
}
#endif
