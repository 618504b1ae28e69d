/* SPDX-License-Identifier: MIT
 *
 * program.c: see program.h.  Only headers are read: a program may be large, and it is about to be
 * started.
 */
#include "tools/run/program.h"
#include "tools/common/paths.h"
#include "tools/common/tools.h"
#include "tools/run/wrapper.h"

#include "loader/manager/pipeline.h"
#include "loader/place/place.h"
#include "rimf/base/sys.h"
#include "rimf/elf/headers.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define MOST_HEADERS 1024u
#define MOST_NOTES 65536u
#define SCRIPT_HEAD 256 /* bytes in which the kernel looks for the line behind #! */

int program_try(const char *path)
{
    struct stat st;
    if (stat(path, &st))
        return errno;
    if (!S_ISREG(st.st_mode))
        return EACCES;
    return access(path, X_OK) ? errno : 0;
}

static char *find_file(const char *name)
{
    const char *path = getenv("PATH");
    int worst = ENOENT; /* a file without permission gives the better message */

    if (strchr(name, '/')) {
        errno = program_try(name);
        return errno ? NULL : must_print("%s", name);
    }
    path = path ? path : "/bin:/usr/bin";
    for (const char *end; *name; path = end + 1) {
        end = strchrnul(path, ':');
        int length = (int)(end - path);
        char *file = must_print("%.*s%s%s", length, path, length ? "/" : "./", name);
        int error = program_try(file);
        if (!error)
            return file;
        free(file);
        worst = error == EACCES ? error : worst;
        if (!*end)
            break;
    }
    errno = worst;
    return NULL;
}

char *program_find(const char *name)
{
    char *file = find_file(name), *program = file ? wrapper_program(file) : NULL;

    if (!program)
        return file;
    free(file);
    return program;
}

/* "#! interpreter argument", as the kernel reads it: from the first bytes only.  An interpreter that they cut is none. */
static void read_script(struct program *p, const char *head, size_t size)
{
    char line[SCRIPT_HEAD + 1];
    memcpy(line, head, size);
    line[size] = 0;
    size_t length = strcspn(line, "\n");
    int is_cut = length == SCRIPT_HEAD;
    line[is_cut ? length - 1 : length] = 0;

    char *at = line + 2 + strspn(line + 2, " \t");
    size_t n = strcspn(at, " \t");
    if (is_cut && !at[n])
        return;
    char *rest = at + n + strspn(at + n, " \t");
    length = strlen(rest);
    while (length && strchr(" \t", rest[length - 1]))
        length--;
    snprintf(p->interpreter, sizeof p->interpreter, "%.*s", (int)n, at);
    snprintf(p->argument, sizeof p->argument, "%.*s", (int)length, rest);
    p->kind = n ? PROGRAM_SCRIPT : PROGRAM_UNKNOWN;
}

char *program_of_script(const struct program *p)
{
    const char *name = strrchr(p->interpreter, '/'), *word = p->argument;

    if (!name || strcmp(name, "/env") || !*word)
        return program_find(p->interpreter);
    word += strncmp(word, "-S", 2) ? 0 : 2 + strspn(word + 2, " \t");
    char *first = must_print("%.*s", (int)strcspn(word, " \t"), word), *found = program_find(first);
    free(first);
    return found;
}

const unsigned char *program_note(const unsigned char *notes, size_t size, const char *name, uint32_t type,
                                  size_t *desc_size)
{
    size_t name_size = strlen(name) + 1;
    Elf64_Nhdr note;

    for (size_t at = 0; size - at >= sizeof note;) {
        memcpy(&note, notes + at, sizeof note);
        uint64_t desc = at + sizeof note + ((note.n_namesz + 3ull) & ~3ull);
        uint64_t next = desc + ((note.n_descsz + 3ull) & ~3ull);
        if (next > size)
            return NULL;
        *desc_size = note.n_descsz;
        if (note.n_type == type && note.n_namesz == name_size && !memcmp(notes + at + sizeof note, name, name_size))
            return notes + desc;
        at = next;
    }
    return NULL;
}

static void find_build_id(struct program *p, const unsigned char *notes, size_t size)
{
    size_t n;
    const unsigned char *id = program_note(notes, size, "GNU", NT_GNU_BUILD_ID, &n);

    if (id && n <= sizeof p->build_id) {
        memcpy(p->build_id, id, n);
        p->build_id_size = n;
    }
}

static int same_file(const char *a, const char *b)
{
    struct stat x, y;
    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int is_machine_loader(const char *interpreter)
{
    return !strcmp(interpreter, MVLD_HOST_LOADER) || same_file(interpreter, path_host_loader()) ||
           same_file(interpreter, MVLD_HOST_LOADER_MUSL);
}

static void read_segment(struct program *p, int fd, const Elf64_Phdr *ph)
{
    if (ph->p_type == PT_INTERP && ph->p_filesz < sizeof p->interpreter) {
        ssize_t n = pread(fd, p->interpreter, ph->p_filesz, (off_t)ph->p_offset);
        p->interpreter[n > 0 ? n : 0] = 0;
    } else if (ph->p_type == PT_NOTE && ph->p_filesz <= MOST_NOTES && !p->build_id_size) {
        unsigned char *notes = must_alloc(ph->p_filesz, 1);
        ssize_t n = pread(fd, notes, ph->p_filesz, (off_t)ph->p_offset);
        find_build_id(p, notes, n > 0 ? (size_t)n : 0);
        free(notes);
    }
}

static void take_needed(void *cookie, const char *needed)
{
    ((struct program *)cookie)->musl |= elf_is_musl(needed);
}

static void read_elf(struct program *p, int fd, const Elf64_Ehdr *h)
{
    p->kind = PROGRAM_FOREIGN;
    if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_machine != EM_X86_64 ||
        h->e_phentsize != sizeof(Elf64_Phdr) || h->e_phnum > MOST_HEADERS)
        return;
    Elf64_Phdr *ph = must_alloc(h->e_phnum, sizeof *ph);
    ssize_t size = pread(fd, ph, h->e_phnum * sizeof *ph, (off_t)h->e_phoff);
    size_t n = size > 0 ? (size_t)size / sizeof *ph : 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t end = ph[i].p_vaddr + ph[i].p_memsz;
        p->roomless |= h->e_type == ET_EXEC && ph[i].p_type == PT_LOAD && end > PLACE_NONE_FROM && end < PLACE_NONE_TO;
        read_segment(p, fd, &ph[i]);
    }
    elf_needed_each(&rimf_sys_kernel, fd, ph, n, take_needed, p);
    free(ph);
    if (!*p->interpreter)
        p->kind = PROGRAM_STATIC;
    else if (same_file(p->interpreter, path_loader()))
        p->kind = PROGRAM_OURS;
    else if (is_machine_loader(p->interpreter))
        p->kind = PROGRAM_PLAIN;
}

int program_open(struct program *p, const char *path)
{
    union {
        Elf64_Ehdr elf;
        char text[SCRIPT_HEAD];
    } head = {.text = ""};
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    memset(p, 0, sizeof *p);
    if (fd < 0)
        return -1;
    p->path = must_print("%s", path);
    ssize_t n = pread(fd, &head, sizeof head, 0);
    p->kind = PROGRAM_UNKNOWN;
    if (n >= (ssize_t)sizeof head.elf && !memcmp(head.text, ELFMAG, SELFMAG))
        read_elf(p, fd, &head.elf);
    else if (n > 2 && !memcmp(head.text, "#!", 2))
        read_script(p, head.text, (size_t)n);
    if ((p->kind == PROGRAM_PLAIN || p->kind == PROGRAM_OURS) && !fstat(fd, &st) &&
        ((st.st_mode & (S_ISUID | S_ISGID)) ||
         fgetxattr(fd, "security.capability", NULL, 0) > 0))
        p->kind = PROGRAM_SECURE;
    close(fd);
    return 0;
}

int program_open_to_run(struct program *p, const char *path)
{
    int error = program_open(p, path) ? errno : 0;

    if (error != EACCES || eaccess(path, X_OK)) {
        errno = error;
        return error ? -1 : 0;
    }
    p->path = must_print("%s", path);
    p->kind = PROGRAM_UNREADABLE;
    return 0;
}

void program_follow(struct program *p)
{
    char *path = realpath(p->path, NULL);

    if (!path)
        return;
    free(p->path);
    p->path = path;
}

const char *program_objection(const struct program *p)
{
    switch (p->kind) {
    case PROGRAM_STATIC: return "a static executable has no loader";
    case PROGRAM_FOREIGN: return "its interpreter is not this machine's";
    case PROGRAM_SECURE: return "set-id bits and capabilities only work when it is started itself";
    case PROGRAM_UNREADABLE: return "it may be executed, and not read";
    default: return NULL;
    }
}
