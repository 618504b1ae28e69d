/* SPDX-License-Identifier: MIT
 *
 * attach/files.c: the files of a process's objects, and where their functions are.
 */
#include "tools/attach/attach.h"
#include "tools/common/elf_file.h"
#include "tools/common/tools.h"

#include <stdlib.h>
#include <string.h>

/* Whether the mapping begins like the file: ELF header, program headers, and the build-id behind
 * them. */
static int is_mapped(const struct attach *a, const struct attach_object *object, const struct elf_file *file)
{
    uint8_t head[4096];
    size_t size;

    for (size_t i = 0; i < file->phnum; i++) {
        const Elf64_Phdr *p = &file->phdr[i];

        if (p->p_type != PT_LOAD || p->p_offset || p->p_flags & PF_W) /* what is written may be so by now */
            continue;
        size = p->p_filesz < sizeof head ? p->p_filesz : sizeof head;
        return !attach_read(a, object->bias + p->p_vaddr, head, size) && !memcmp(head, file->bytes, size);
    }
    return 1;
}

static int open_elf(const struct attach *a, const struct attach_object *object, struct elf_file *file, const char *path)
{
    if (elf_file_open(file, path))
        return -1;
    return is_mapped(a, object, file) ? 0 : elf_fail(file, "it is another build than the one that runs");
}

int attach_elf(const struct attach *a, const struct attach_object *object, struct elf_file *file)
{
    char path[4200];

    attach_path(a, object, path, sizeof path);
    return open_elf(a, object, file, path);
}

/* The mapped file, when another one has its name by now, or none.  Only root may open it. */
static int open_replaced(const struct attach *a, const struct attach_object *object, struct elf_file *file)
{
    char path[80], *text = NULL;
    uint64_t start, end;
    int err = attach_mapping(a, object->dynamic, &text, &start, &end);

    free(text);
    if (err)
        return -1;
    snprintf(path, sizeof path, "/proc/%d/map_files/%lx-%lx", a->pid, start, end);
    err = open_elf(a, object, file, path);
    if (err)
        elf_file_close(file);
    return err;
}

/* Mostly libc's: reading it takes longer than querying it, and threads may be stopped meanwhile.
 * NULL: see attach_elf(). */
static const struct elf_file *last_elf(struct attach *a, const struct attach_object *object)
{
    struct elf_file replaced = {0};

    if (a->elf && a->elf_of == object->dynamic)
        return a->elf;
    if (a->elf)
        elf_file_close(a->elf);
    else
        a->elf = must_alloc(1, sizeof *a->elf);
    a->elf_of = object->dynamic;
    if (!attach_elf(a, object, a->elf))
        return a->elf;
    if (!open_replaced(a, object, &replaced)) {
        elf_file_close(a->elf);
        *a->elf = replaced;
        return a->elf;
    }
    attach_fail(a, "process %d: %s: %s", a->pid, object->name, a->elf->error);
    elf_file_close(a->elf);
    free(a->elf);
    a->elf = NULL;
    return NULL;
}

uint64_t attach_function(struct attach *a, const struct attach_object *object, const char *name)
{
    const struct elf_file *file = last_elf(a, object);

    for (size_t i = 0; file && i < file->n_functions; i++)
        if (!file->functions[i].is_ifunc && !strcmp(file->functions[i].name, name))
            return object->bias + file->functions[i].address;
    return 0;
}

/* Where the process has these bytes in an executable segment; or 0.  They are searched in the file, which is in memory. */
static uint64_t find_code(const struct attach *a, const struct attach_object *object, const struct elf_file *file,
                          const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < file->phnum; i++) {
        const Elf64_Phdr *p = &file->phdr[i];
        const uint8_t *text = file->bytes + p->p_offset, *at = text;
        uint8_t there[16];

        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
            continue;
        for (; (at = memmem(at, p->p_filesz - (size_t)(at - text), bytes, size)); at++) {
            uint64_t address = object->bias + p->p_vaddr + (uint64_t)(at - text);

            if (!attach_read(a, address, there, size) && !memcmp(there, bytes, size))
                return address;
        }
    }
    return 0;
}

/* In libc, or a static program:
 *     0f 05 c3                      syscall; ret
 *     48 c7 c0 0f 00 00 00 0f 05    mov $15, %rax; syscall     rt_sigreturn(2) */
static void find_places(struct attach *a, const struct attach_object *object)
{
    static const uint8_t call[] = {0x0f, 0x05, 0xc3};
    static const uint8_t restore[] = {0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05};
    const struct elf_file *file = last_elf(a, object);

    if (file) {
        a->syscall_ret = find_code(a, object, file, call, sizeof call);
        a->restorer = find_code(a, object, file, restore, sizeof restore);
    }
}

int attach_list(struct attach *a)
{
    const struct attach_object *libc;

    if (attach_objects(a))
        return -1;
    libc = attach_named(a, "libc.so");
    if (!libc)
        libc = attach_named(a, "libc.musl-x86_64.so"); /* Alpine's name for it */
    if (!libc)
        libc = attach_named(a, "ld-musl-x86_64.so");
    find_places(a, libc ? libc : a->objects);
    if (a->syscall_ret && a->restorer)
        return 0;
    return a->why[0] ? -1 : attach_fail(a, "process %d: no C library is found that could make system calls for us", a->pid);
}
