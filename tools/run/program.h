/* SPDX-License-Identifier: MIT
 *
 * program.h: the file that a command runs, and whether mvld can run it.
 */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <stddef.h>
#include <stdint.h>

enum program_kind {
    PROGRAM_PLAIN,   /* dynamic, its interpreter is the host loader */
    PROGRAM_OURS,    /* dynamic, its interpreter is ld-mvld.so.1 */
    PROGRAM_STATIC,  /* no interpreter */
    PROGRAM_FOREIGN, /* another interpreter, another machine */
    PROGRAM_SECURE,  /* set-id bits or capabilities */
    PROGRAM_UNREADABLE, /* may be executed but not read */
    PROGRAM_SCRIPT,  /* #! */
    PROGRAM_UNKNOWN  /* neither ELF nor script */
};

struct program {
    char *path;
    enum program_kind kind;
    char interpreter[4096];     /* of an ELF file: PT_INTERP; of a script: the program behind #! */
    char argument[256];         /* of a script: the rest of the line, or "" */
    int musl; /* it needs musl */
    int roomless; /* it is linked to addresses with no room for libraries near it, so it has no snapshot */
    unsigned char build_id[64];
    size_t build_id_size;
};

/* The file that a shell finds for `name`; for a wrapper of `mvld enable' (wrapper.h), the program
 * that it starts.  NULL with errno: ENOENT, EACCES. */
char *program_find(const char *name);
/* Whether it is a file that may be executed: 0, or the error number. */
int program_try(const char *path);
/* Reads the file.  0, or -1 with errno. */
int program_open(struct program *, const char *path);
/* The same for running it: it need not be readable. */
int program_open_to_run(struct program *, const char *path);
/* Sets `path` to the kernel's name of the file (/proc/self/exe), with links followed: by that one
 * the host loader finds $ORIGIN when the kernel starts it. */
void program_follow(struct program *);
/* The descriptor of a note in a PT_NOTE (of alignment 4), or NULL. */
const unsigned char *program_note(const unsigned char *notes, size_t size, const char *name, uint32_t type,
                                  size_t *desc_size);
/* Of a script: the path of the program that reads it, also where env(1) looks for that; to be freed.  NULL: it is not
 * there. */
char *program_of_script(const struct program *);
/* Why passes cannot run in it, as a phrase; or NULL. */
const char *program_objection(const struct program *);

#endif
