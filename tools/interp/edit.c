/* SPDX-License-Identifier: MIT
 *
 * interp/edit.c: writes the name of the interpreter.
 *
 * The kernel reads it from the file (p_offset), gdb and the host loader from memory (p_vaddr), so
 * it must be inside a loadable segment.  Methods, in this order:
 *
 *   1. Over the old name, when it is no longer than that.
 *   2. Into the zero bytes between the end of a read-only segment and the end of
 *      its last page:
 *
 *          file    | segment ......... | 00 00 00 .. | next segment
 *          memory  | segment ......... | 00 00 00 .. |   (the same page)
 *                                      ^ the name, p_filesz and p_memsz grow
 *
 *      These bytes are mapped already and belong to nobody: no section, no
 *      segment and no header may touch them.  Nothing moves.
 *   3. patchelf(1), which moves sections; when it is installed.
 *
 * In any case the result is read again: if entry, dynamic relocations, or code and its addresses
 * differ, it is refused.
 */
#include "tools/interp/interp.h"
#include "tools/common/tools.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096ull

extern char **environ;

static const Elf64_Phdr *interp_header(const struct elf_file *f)
{
    for (size_t i = 0; i < f->phnum; i++)
        if (f->phdr[i].p_type == PT_INTERP)
            return &f->phdr[i];
    return NULL;
}

const char *interp_of(const struct elf_file *f)
{
    const Elf64_Phdr *p = interp_header(f);
    if (!p || p->p_offset >= f->size || p->p_filesz > f->size - p->p_offset || !p->p_filesz)
        return NULL;
    const char *s = (const char *)f->bytes + p->p_offset;
    return memchr(s, 0, p->p_filesz) ? s : NULL;
}

/* The i-th section header, or 0: there is no valid one. */
static int section_at(const struct elf_file *f, size_t i, Elf64_Shdr *out)
{
    const Elf64_Ehdr *h = &f->header;
    if (i >= h->e_shnum || h->e_shentsize != sizeof *out || h->e_shoff > f->size ||
        (i + 1) * sizeof *out > f->size - h->e_shoff)
        return 0;
    memcpy(out, f->bytes + h->e_shoff + i * sizeof *out, sizeof *out);
    return 1;
}

uint64_t interp_payload(const struct elf_file *f)
{
    const Elf64_Ehdr *h = &f->header;
    uint64_t end = h->e_phoff + f->phnum * sizeof(Elf64_Phdr);
    uint64_t sections = h->e_shoff + (uint64_t)h->e_shnum * h->e_shentsize;
    Elf64_Shdr s;

    end = end > sections ? end : sections;
    for (size_t i = 0; i < f->phnum; i++)
        if (f->phdr[i].p_offset + f->phdr[i].p_filesz > end)
            end = f->phdr[i].p_offset + f->phdr[i].p_filesz;
    for (size_t i = 0; section_at(f, i, &s); i++)
        if (s.sh_type != SHT_NOBITS && s.sh_type != SHT_NULL && s.sh_offset + s.sh_size > end)
            end = s.sh_offset + s.sh_size;
    return f->size > end ? f->size - end : 0;
}

/* ---- 2: the end of a page ------------------------------------------------------- */

static int overlaps(uint64_t a, uint64_t a_size, uint64_t b, uint64_t b_size)
{
    return a_size && b_size && a < b + b_size && b < a + a_size;
}

/* Whether anything in the file uses these bytes. */
static int is_claimed(const struct elf_file *f, uint64_t offset, uint64_t size)
{
    const Elf64_Ehdr *h = &f->header;
    Elf64_Shdr s;

    if (overlaps(offset, size, 0, sizeof *h) ||
        overlaps(offset, size, h->e_phoff, f->phnum * sizeof(Elf64_Phdr)) ||
        overlaps(offset, size, h->e_shoff, (uint64_t)h->e_shnum * h->e_shentsize))
        return 1;
    for (size_t i = 0; i < f->phnum; i++)
        if (overlaps(offset, size, f->phdr[i].p_offset, f->phdr[i].p_filesz))
            return 1;
    for (size_t i = 0; section_at(f, i, &s); i++)
        if (s.sh_type != SHT_NOBITS && overlaps(offset, size, s.sh_offset, s.sh_size))
            return 1;
    for (size_t i = 0; i < size; i++)
        if (f->bytes[offset + i])
            return 1;
    return 0;
}

static int has_room(const struct elf_file *f, const Elf64_Phdr *p, uint64_t size)
{
    uint64_t offset = p->p_offset + p->p_filesz, address = p->p_vaddr + p->p_memsz;

    if (p->p_type != PT_LOAD || (p->p_flags & PF_W) || p->p_filesz != p->p_memsz ||
        !p->p_filesz || (p->p_vaddr - p->p_offset) % PAGE)
        return 0;
    if (address % PAGE == 0 || PAGE - address % PAGE < size || offset > f->size ||
        size > f->size - offset || is_claimed(f, offset, size))
        return 0;
    for (size_t i = 0; i < f->phnum; i++) { /* nothing else may use this page of memory */
        const Elf64_Phdr *o = &f->phdr[i];
        if (o != p && o->p_type == PT_LOAD &&
            overlaps(address & ~(PAGE - 1), PAGE, o->p_vaddr, o->p_memsz))
            return 0;
    }
    return 1;
}

/* The segment to extend: preferably read-only data, not code. */
static const Elf64_Phdr *find_room(const struct elf_file *f, uint64_t size)
{
    for (int code = 0; code < 2; code++)
        for (size_t i = 0; i < f->phnum; i++)
            if (!(f->phdr[i].p_flags & PF_X) == !code && has_room(f, &f->phdr[i], size))
                return &f->phdr[i];
    return NULL;
}

static void put_header(const struct elf_file *f, unsigned char *to, const Elf64_Phdr *old,
                       const Elf64_Phdr *now)
{
    memcpy(to + f->header.e_phoff + (size_t)(old - f->phdr) * sizeof *now, now, sizeof *now);
}

/* Moves the section .interp, which gdb reads. */
static void move_section(const struct elf_file *f, unsigned char *to, const Elf64_Phdr *old,
                         const Elf64_Phdr *now)
{
    Elf64_Shdr s;
    for (size_t i = 0; section_at(f, i, &s); i++) {
        if (s.sh_type != SHT_PROGBITS || s.sh_offset != old->p_offset ||
            s.sh_size != old->p_filesz)
            continue;
        s.sh_offset = now->p_offset;
        s.sh_addr = now->p_vaddr;
        s.sh_size = now->p_filesz;
        memcpy(to + f->header.e_shoff + i * sizeof s, &s, sizeof s);
    }
}

int interp_place(const struct elf_file *f, const char *path, unsigned char *to)
{
    const Elf64_Phdr *interp = interp_header(f);
    size_t size = strlen(path) + 1;

    if (!interp_of(f))
        return -1;
    if (size <= interp->p_filesz) {
        memset(to + interp->p_offset, 0, interp->p_filesz);
        memcpy(to + interp->p_offset, path, size);
        return 0;
    }
    const Elf64_Phdr *room = find_room(f, size);
    if (!room)
        return -1;
    Elf64_Phdr grown = *room, moved = *interp;
    moved.p_offset = room->p_offset + room->p_filesz;
    moved.p_vaddr = room->p_vaddr + room->p_memsz;
    moved.p_paddr = room->p_paddr + room->p_memsz;
    moved.p_filesz = moved.p_memsz = size;
    grown.p_filesz += size;
    grown.p_memsz += size;
    memcpy(to + moved.p_offset, path, size);
    put_header(f, to, room, &grown);
    put_header(f, to, interp, &moved);
    move_section(f, to, interp, &moved);
    return 0;
}

/* ---- 3: patchelf ------------------------------------------------------------------- */

static int run_patchelf(struct elf_file *f, const char *path, char *file)
{
    char *const argv[] = {"patchelf", "--set-interpreter", (char *)path, file, NULL};
    pid_t pid;
    int status, error = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);
    if (error)
        return elf_fail(f, "no room for `%s', and patchelf cannot be run (%s): "
                           "apt-get install patchelf", path, strerror(error));
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return elf_fail(f, "patchelf: %s", strerror(errno));
    if (status)
        return elf_fail(f, "no room for `%s', and patchelf failed", path);
    return 0;
}

static int edit_with_patchelf(struct elf_file *f, const char *path, struct bytes *out)
{
    const char *folder = getenv("TMPDIR");
    char *file = must_print("%s/mvld-XXXXXX", folder && *folder ? folder : "/tmp");
    struct elf_file result = {0};
    int fd = mkstemp(file), failed = -1;

    if (fd < 0 || write(fd, f->bytes, f->size) != (ssize_t)f->size)
        elf_fail(f, "%s: %s", file, strerror(errno));
    else if (!run_patchelf(f, path, file)) {
        failed = elf_file_open(&result, file);
        if (failed)
            elf_fail(f, "patchelf damaged it: %s", result.error);
    }
    if (fd >= 0) {
        close(fd);
        unlink(file);
    }
    free(file);
    if (!failed) {
        *out = (struct bytes){result.bytes, result.size};
        result.bytes = NULL;
    }
    elf_file_close(&result);
    return failed;
}

/* ---- what came of it ---------------------------------------------------------------- */

static int same_code(const struct elf_file *before, const struct elf_file *now)
{
    for (size_t i = 0; i < before->phnum; i++) {
        const Elf64_Phdr *p = &before->phdr[i];
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
            continue;
        /* patchelf moves headers and small sections, which old linkers put into the code's segment:
         * from the entry point on it must be equal. */
        uint64_t from = before->header.e_entry;
        if (from < p->p_vaddr || from - p->p_vaddr >= p->p_filesz)
            from = p->p_vaddr;
        uint64_t size = p->p_filesz - (from - p->p_vaddr);
        unsigned char *copy = must_alloc(size, 1);
        int same = elf_file_holds(now, from, size, PF_X) && !elf_read(now, from, copy, size) &&
                   !memcmp(copy, before->bytes + p->p_offset + (from - p->p_vaddr), size);
        free(copy);
        if (!same)
            return 0;
    }
    return 1;
}

static int verify(struct elf_file *f, const char *path, const struct bytes *result)
{
    struct elf_file now;
    const char *found = NULL;
    int failed = elf_file_parse(&now, f->path, result->at, result->size);
    if (!failed)
        found = interp_of(&now);
    if (failed || !found || strcmp(found, path) ||
        now.header.e_entry != f->header.e_entry || now.n_relocations != f->n_relocations ||
        (f->n_relocations && memcmp(now.relocations, f->relocations,
                                    f->n_relocations * sizeof *f->relocations)) ||
        !same_code(f, &now))
        failed = elf_fail(f, "the rewritten file would not be the same program: left as it was");
    now.bytes = NULL; /* they are the caller's */
    elf_file_close(&now);
    return failed;
}

int interp_edit(struct elf_file *f, const char *path, struct bytes *out)
{
    if (!interp_of(f))
        return elf_fail(f, "it has no interpreter (static, or a shared object)");
    *out = (struct bytes){must_alloc(f->size, 1), f->size};
    memcpy(out->at, f->bytes, f->size);
    if (interp_place(f, path, out->at)) {
        free(out->at);
        out->at = NULL;
        if (edit_with_patchelf(f, path, out))
            return -1;
    }
    if (verify(f, path, out)) {
        free(out->at);
        return -1;
    }
    return 0;
}
