/* SPDX-License-Identifier: MIT
 *
 * interp.h: changes the program interpreter (PT_INTERP) of an ELF file, and takes
 * the change back.
 */
#ifndef INTERP_H
#define INTERP_H

#include "tools/common/elf_file.h"

struct bytes {
    unsigned char *at;
    size_t size;
};

/* The file's interpreter, or NULL (static, or a shared object). */
const char *interp_of(const struct elf_file *);

/* interp/edit.c: a copy of the file whose interpreter is `path`.  0, or -1 with
 * the file's `error` set. */
int interp_edit(struct elf_file *, const char *path, struct bytes *out);

/* Its first two ways, in `to`, a copy of the file's bytes.  0, or -1: there is no
 * room, and nothing was changed. */
int interp_place(const struct elf_file *, const char *path, unsigned char *to);

/* Bytes behind the last one that the ELF headers know. */
uint64_t interp_payload(const struct elf_file *);

/* interp/record.c: FNV-1a of the bytes.  It finds accidental changes, not those of an attacker. */
uint64_t bytes_sum(const unsigned char *at, size_t size);

/* `now` with a record behind it, from which `before` can be made
 * again byte by byte. */
void record_append(const struct elf_file *before, struct bytes *now);
/* What was before.  0; 1 when there is no record; -1: `why` says why it cannot be. */
int record_restore(const struct elf_file *now, struct bytes *before, const char **why);

/* replace_file.c: puts `content` in the place of the file that was opened (its path is no symbolic
 * link), which keeps mode, owner, extended attributes and times; anybody sees the
 * old file or the new one.  Where another file has come in its place meanwhile, that one stays.
 * NULL, or what went wrong. */
const char *replace_file(const struct elf_file *, const struct bytes *content);

/* Opens a new file beside `path`, readable by its owner alone; *name is to be freed.  -1 with errno.  What killed
 * tools left of such files beside `path`, asides_remove removes. */
int aside_open(const char *path, char **name);
/* Writes it to the end, which write(2) need not.  -1 with errno. */
int write_whole(int fd, const void *content, size_t size);
void asides_remove(const char *path);

/* set-interp.c: what `mvld set-interp` does with one program, in which the record's lock is held.  Its exit code. */
int interp_set(const char *program, int force);

/* essential.c: why this program should keep the machine's loader, and why this loader should not be a
 * program's; or NULL.  Both paths are absolute and have no links at their end. */
const char *interp_essential(const char *path);
const char *loader_objection(const char *loader, const char *program);
/* Of these reasons, that others than the program's owner and root may change the loader. */
const char *loader_untrusted(const char *loader, const char *program);

#endif
