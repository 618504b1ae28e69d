/* SPDX-License-Identifier: MIT
 *
 * Damaged passes: refused with a sentence and nothing left mapped, or mapped so
 * that everything they declare can be read.  An input is an object as it is; or a
 * list of changes to one of the first two seeds, which reach its tables more often
 * than random bytes do: 4 bytes where, 8 bytes what.
 */
#include "loader/manager/pass_map.h"

#include "rimf/base/base.h"
#include "rimf/base/sys.h"

#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

#define BASES 2

static struct base {
    uint8_t bytes[1 << 18];
    size_t size;
} bases[BASES];
static uint8_t bytes[1 << 18];
static long mapped;

static long count_maps(const struct rimf_sys *sys, long nr, long a, long b, long c, long d, long e,
                       long f)
{
    long result = rimf_syscall(nr, a, b, c, d, e, f);

    (void)sys;
    if (nr == SYS_mmap && !sys_failed(result) && !(d & MAP_FIXED))
        mapped += (b + 4095) & ~4095L;
    if (nr == SYS_munmap)
        mapped -= (b + 4095) & ~4095L;
    return result;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    size_t n_bases = 0;

    for (int i = 1; i < *argc && n_bases < BASES; i++) {
        struct base *base = &bases[n_bases];
        int fd = strstr((*argv)[i], ".so") ? open((*argv)[i], O_RDONLY | O_CLOEXEC) : -1;
        ssize_t n = fd < 0 ? 0 : read(fd, base->bytes, sizeof(base->bytes));
        base->size = n > 0 ? (size_t)n : 0;
        n_bases += n > 0;
        if (fd >= 0)
            close(fd);
    }
    if (n_bases < BASES)
        exit(2);
    return 0;
}

/* Where a change goes: mostly the headers, tables and data, seldom the rest. */
static size_t place(const struct base *base, uint32_t where)
{
    const Elf64_Ehdr *e = (const Elf64_Ehdr *)base->bytes;
    const Elf64_Phdr *p = (const Elf64_Phdr *)(base->bytes + e->e_phoff);
    size_t kind = where & 3, at = (where & 0x0fffffff) >> 2;

    if (kind == 0)
        return at % base->size;
    if (kind == 1)
        return at % (sizeof(*e) + e->e_phnum * sizeof(*p));
    for (size_t i = 0; i < e->e_phnum; i++)
        if (kind == 2 ? p[i].p_type == PT_LOAD && p[i].p_offset == 0
                      : p[i].p_type == PT_LOAD && (p[i].p_flags & PF_W))
            return p[i].p_offset + at % p[i].p_filesz;
    return at % base->size;
}

static size_t build(const uint8_t *data, size_t size)
{
    if (size >= 4 && memcmp(data, ELFMAG, 4) == 0) {
        size = size < sizeof(bytes) ? size : sizeof(bytes);
        memcpy(bytes, data, size);
        return size;
    }
    const struct base *base = &bases[size ? data[0] >> 2 & 1 : 0];
    memcpy(bytes, base->bytes, base->size);
    for (; size >= 12; data += 12, size -= 12) {
        uint32_t where;
        memcpy(&where, data, 4);
        size_t at = place(base, where);
        if (where & 0x80000000)
            at &= ~7UL;
        memcpy(bytes + at, data + 4, base->size - at < 8 ? base->size - at : 8);
    }
    return base->size;
}

static void read_text(const char *text)
{
    if (text && strlen(text) > 4096)
        abort();
}

static void read_list(const char *const *list)
{
    for (; list && *list; list++)
        read_text(*list);
}

static void read_declarations(const struct pass_object *o)
{
    read_text(o->pass->name);
    read_text(o->pass->help);
    read_text(o->pass->library);
    read_list(o->pass->behind);
    for (const struct mvld_option *option = o->pass->options; option && option->name; option++) {
        read_text(option->name);
        read_text(option->help);
        read_text(option->initial);
        if (option->type == MVLD_OPTION_WORD)
            read_list(option->words);
    }
    if (o->pass->run && !pass_holds(o, (uintptr_t)o->pass->run, 1, PROT_EXEC))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct rimf_sys sys = {count_maps};
    struct pass_object object;
    char sentence[256] = "";
    struct why why = {sentence, sizeof(sentence)};
    int fd = memfd_create("pass", MFD_CLOEXEC);

    size = build(data, size);
    if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
        abort();
    if (pass_map(&sys, fd, "FILE", NULL, &object, &why)) {
        if (!rimf_after(sentence, "FILE: "))
            abort();
    } else {
        read_declarations(&object);
        pass_unmap(&sys, &object);
    }
    close(fd);
    if (mapped)
        abort();
    return 0;
}
