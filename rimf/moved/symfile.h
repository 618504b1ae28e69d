/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/symfile.h: the names of moved code (moved/moved.h), for those who look from outside.
 *
 * Debuggers and profilers find the name of an address in the file that is mapped there.
 * Copies lie in anonymous memory, or in a file of ours; so a small ELF file is made that
 * knows them: the functions in the symbol tables of their objects, each where it moved
 * to.  It begins with
 *
 *     header | program header | section headers | .symtab … | .strtab | .shstrtab …
 *
 * and the code and its .eh_frame may be anywhere behind that, in the same file.  In
 * memory the "file" is what lies from that start to the end of the unwind tables of that
 * code, which debuggers so get without another copy of them: its start stands in the
 * room of the table that unwinders search, which is rarely half full,
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
    size_t first, end;      /* of the image's fragments: from this one up to that one, excluded */
    const struct rimf_described *functions; /* or, without fragments, code that a pass added */
    size_t n_functions;
    uintptr_t base;         /* subtracted from every address that is said; 0: as they are now */
    uint64_t code_offset;   /* where in the file the first fragment's page begins; 0: nowhere */
    uintptr_t frames;       /* their .eh_frame, in memory */
    size_t frames_size;     /* 0: none is said */
    uint64_t frames_offset; /* where that is in the file */
    /* Since symfile_open: */
    struct file_symbols *files;      /* of the objects, by their first fragments */
    size_t symbols_room, names_room; /* more than enough */
};

/* Looks how much there is to say of them.  0, or negative
 * errno with a sentence (last_error).  For the thread that loads, as the others. */
int symfile_open(struct mvld_image *, struct symfile *);
/* As many bytes symfile_write needs; what it leaves untouched at the end of the symbols and
 * of the names belongs to the file, too. */
size_t symfile_size(const struct symfile *);
/* The start of the file, to zeroed memory, 8-aligned.  0, or -ENODATA with a sentence: the
 * analysis of an object is gone. */
int symfile_write(struct mvld_image *, const struct symfile *, void *to);
void symfile_close(struct mvld_image *, struct symfile *);

/* What its head says: addresses, and places in the file. */
struct symfile_parts {
    uint16_t type;                   /* ET_* */
    uint64_t code, code_size, code_offset; /* offset 0: its bytes are not in the file */
    uint64_t frames, frames_size, frames_offset;
    uint64_t symbols_offset, symbols_size, names_offset, names_size;
    uint64_t sections_offset;        /* for the names of sections */
    uint64_t data, data_size;        /* 0: there is none */
};
#define SYMFILE_HEAD 640u     /* bytes are enough for it and, at its end, */
#define SYMFILE_SECTIONS 56u /* the names of sections */
void symfile_head(void *to, const struct symfile_parts *);

/* ---- moved/names.c ---------------------------------------------------------------------- */

struct rimf_object;

typedef void moved_names_visitor(void *cookie, const struct mvld_symbol *);
/* All fragments of the object's code. */
int moved_names_of(struct mvld_image *, const struct rimf_object *, const struct file_symbols *,
                  int unnamed, moved_names_visitor *, void *cookie);
void moved_names_added(const struct mvld_image *, const struct rimf_described *, size_t n, moved_names_visitor *,
                       void *cookie);

/* ---- moved/files.c ---------------------------------------------------------------------- */

struct file_symbols { /* n is 0 when there are none */
    Elf64_Sym *symbols;
    char *names;
    size_t n, names_size;
};

void file_symbols_read(struct mvld_image *, const struct rimf_object *, struct file_symbols *);
/* Of the i-th, or NULL. */
const char *file_symbols_name(const struct file_symbols *, size_t i);
void file_symbols_release(struct mvld_image *, struct file_symbols *);

/* ---- moved/debug.c, moved/names.c ------------------------------------------------------------- */

/* Who looks from outside hears of the moved code that it does not know yet; or of code that was added, whose
 * frames are the last.  0, or negative errno with a sentence. */
int moved_names_debug(struct mvld_image *, const struct rimf_described *, size_t n);
int moved_names_perf(struct mvld_image *, const struct rimf_described *, size_t n);

#endif
