/* SPDX-License-Identifier: MIT
 *
 * run/wrapper.c: see wrapper.h.
 *
 *     wrapper.S    executes mvld-run, or else the program
 *     PROGRAM\0
 *     MVLD-RUN\0
 *
 * Earlier versions made a shell script, with the same mark before the program's path.
 */
#include "tools/run/wrapper.h"
#include "tools/common/paths.h"
#include "tools/common/tools.h"

#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MARK "\n# made by `mvld enable'; `mvld disable' removes it\n# starts "
#define SHELL "#!/bin/sh" /* of a script */
#define MARK_WITHIN 1024 /* bytes from the start of the file; PROGRAM follows */

extern const char run_wrapper[], run_wrapper_end[];

char *wrapper_make(const char *program, size_t *size)
{
    size_t start = (size_t)(run_wrapper_end - run_wrapper), n = strlen(program) + 1;
    char *starter = path_starter();
    char *file = must_alloc(start + n + strlen(starter) + 1, 1);
    Elf64_Phdr *load = (Elf64_Phdr *)(void *)(file + sizeof(Elf64_Ehdr));

    memcpy(file, run_wrapper, start);
    memcpy(file + start, program, n);
    memcpy(file + start + n, starter, strlen(starter) + 1);
    *size = start + n + strlen(starter) + 1;
    load->p_filesz = load->p_memsz = *size;
    free(starter);
    return file;
}

char *wrapper_program(const char *path)
{
    char text[MARK_WITHIN + 4096];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return NULL;
    text[n] = 0;
    const char *mark = memmem(text, n < MARK_WITHIN ? (size_t)n : MARK_WITHIN, MARK, strlen(MARK));
    int is_script = mark == text + strlen(SHELL) && !memcmp(text, SHELL, strlen(SHELL));
    if (!mark || (!is_script && memcmp(text, ELFMAG, SELFMAG)))
        return NULL;
    const char *program = mark + strlen(MARK), *end = strchr(program, is_script ? '\n' : 0);
    return end && end < text + n ? must_print("%.*s", (int)(end - program), program) : NULL;
}
