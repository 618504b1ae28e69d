/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/symfile.h: the names of moved code (moved/moved.h), for debuggers and profilers.
 *
 * Debuggers and profilers find the name of an address in the file that is mapped there.  Moved code is in
 * anonymous memory, or in a file of ours.  So a small ELF file is made for them: it has the functions in the
 * symbol tables of their objects, with their new addresses.  It begins with
 *
 *     header | program header | section headers | .symtab … | .strtab | .shstrtab …
 *
 * and the code and its .eh_frame may be anywhere behind that, in the same file.  In memory the "file" extends
 * from that start to the end of the unwind tables of that code, which debuggers so get without another copy.
 * Its start is in the space of the table that unwinders search, which is rarely half full,
 *
 *     frames:          table →        ← names of later ones, names | .eh_frame of moved code →
 *
 * and is announced to debuggers by GDB's JIT interface (moved/debug.c; where analyses have symbol
 * tables ready, those stand there instead, and it is a file for each object).  In a snapshot it is a file on
 * disk, concat.so, with addresses of the library that the region is in; the process that
 * starts from the snapshot gives that library this file's name (the loader's store/store.c), so
 * debuggers take the file for the library.  What comes later is announced all the same:
 * the file says where the library has that interface.
 */
#ifndef RIMF_SYMFILE_H
#define RIMF_SYMFILE_H

#include "mvld/pass.h"

#include <elf.h>

struct file_symbols;
struct rimf_described;

struct symfile {
    size_t first, end;      /* of the image's fragments: from this one up to, excluding, that one */
    const struct rimf_described *functions; /* or, without fragments, code of a pass */
    size_t n_functions;
    uintptr_t base;         /* subtracted from every address; 0: present addresses */
    uint64_t code_offset;   /* file offset of the first fragment's page; 0: none */
    uintptr_t frames;       /* their .eh_frame, in memory */
    size_t frames_size;     /* 0: none */
    uint64_t frames_offset; /* its file offset */
    /* Since symfile_open: */
    struct file_symbols *files;      /* of the objects, by their first fragments */
    size_t symbols_room, names_room; /* upper limits */
};

/* Measures them.  0, or negative errno with a sentence (last_error).  For the thread that loads, as the
 * others. */
int symfile_open(struct mvld_image *, struct symfile *);
/* The number of bytes that symfile_write needs; untouched bytes at the end of the symbols and of the names
 * belong to the file, too. */
size_t symfile_size(const struct symfile *);
/* Writes the start of the file to zeroed memory, 8-aligned.  0, or -ENODATA with a sentence: the analysis of
 * an object is missing. */
int symfile_write(struct mvld_image *, const struct symfile *, void *to);
void symfile_close(struct mvld_image *, struct symfile *);

/* The contents of its head: addresses, and file offsets. */
struct symfile_parts {
    uint16_t type;                   /* ET_* */
    uint64_t code, code_size, code_offset; /* offset 0: its bytes are not in the file */
    uint64_t frames, frames_size, frames_offset;
    uint64_t symbols_offset, symbols_size, names_offset, names_size;
    uint64_t sections_offset;        /* for the names of sections */
    uint64_t data, data_size;        /* 0: none */
};
#define SYMFILE_HEAD 640u     /* bytes, enough for it and, at its end, */
#define SYMFILE_SECTIONS 56u /* the names of sections */
void symfile_head(void *to, const struct symfile_parts *);

/* ---- moved/names.c ---------------------------------------------------------------------- */

struct rimf_object;

typedef void moved_names_visitor(void *cookie, const struct mvld_symbol *);
/* Names all fragments of the object's code. */
int moved_names_of(struct mvld_image *, const struct rimf_object *, const struct file_symbols *,
                  int unnamed, moved_names_visitor *, void *cookie);
void moved_names_added(const struct mvld_image *, const struct rimf_described *, size_t n, moved_names_visitor *,
                       void *cookie);

/* ---- moved/files.c ---------------------------------------------------------------------- */

struct file_symbols { /* n is 0 if there are none */
    Elf64_Sym *symbols;
    char *names;
    size_t n, names_size;
};

void file_symbols_read(struct mvld_image *, const struct rimf_object *, struct file_symbols *);
/* Of the i-th, or NULL. */
const char *file_symbols_name(const struct file_symbols *, size_t i);
void file_symbols_release(struct mvld_image *, struct file_symbols *);

/* ---- moved/debug.c, moved/names.c ------------------------------------------------------------- */

/* Tells debuggers about new moved code; or about added code, whose frames are the last.  0, or negative errno
 * with a sentence. */
int moved_names_debug(struct mvld_image *, const struct rimf_described *, size_t n);
int moved_names_perf(struct mvld_image *, const struct rimf_described *, size_t n);

#endif
