/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/symfile.h: the names of moved code (moved/moved.h), for debuggers and profilers.
 *
 * Debuggers and profilers find the name of an address in the file that is mapped there.  Moved code is in
 * anonymous memory, or in a file of ours.  So a small ELF file is made for them: it has the functions in the
 * symbol tables of their objects, with their new addresses.  It begins with
 *
 *     header | program headers | section headers | .symtab … | .strtab | .shstrtab …
 *
 * and the code and its .eh_frame may be anywhere behind that, in the same file.  In memory the "file" extends
 * from that start to the end of the unwind tables of that code, which debuggers so get without another copy.
 * Its start is in the space of the table that unwinders search, which is rarely half full,
 *
 *     frames:          table →        ← names of later ones, names | .eh_frame of moved code →
 *
 * and is announced to debuggers by GDB's JIT interface (moved/names.c).  In a snapshot it is a file on
 * disk, concat.so, with addresses of the library that the region is in; the process that
 * starts from the snapshot gives that library this file's name (the loader's store/store.c), so
 * debuggers take the file for the library.  What comes later is announced all the same:
 * the file says where the library has that interface.
 */
#ifndef RIMF_SYMFILE_H
#define RIMF_SYMFILE_H

#include "mvld/pass.h"

#include <elf.h>

struct moved_batch;
struct rimf_described;
struct rimf_object;

struct symfile {
    size_t first, end;      /* of the image's fragments: from this one up to, excluding, that one */
    const struct rimf_described *functions; /* or, without fragments, code of a pass */
    size_t n_functions;
    uintptr_t base;         /* subtracted from every address; 0: present addresses */
    uint64_t code_offset;   /* file offset of the first fragment's page; 0: none */
    uintptr_t frames;       /* their .eh_frame, in memory */
    size_t frames_size;     /* 0: none */
    uint64_t frames_offset; /* its file offset */
    size_t symbols_room, names_room; /* upper limits, since symfile_measure */
};

/* Measures them.  For the thread that loads, as the others. */
void symfile_measure(struct mvld_image *, struct symfile *);
/* The number of bytes that symfile_write needs; untouched bytes at the end of the symbols and of the names
 * belong to the file, too. */
size_t symfile_size(const struct symfile *);
/* Writes the start of the file to zeroed memory, 8-aligned.  0, or -ENODATA with a sentence: the analysis of
 * an object is missing. */
int symfile_write(struct mvld_image *, const struct symfile *, void *to);

/* ---- moved/names.c ---------------------------------------------------------------------- */

typedef void moved_names_visitor(void *cookie, const struct mvld_symbol *);
/* Names all fragments of the object's code. */
int moved_names_of(struct mvld_image *, const struct rimf_object *, int unnamed, moved_names_visitor *,
                   void *cookie);
void moved_names_added(const struct mvld_image *, const struct rimf_described *, size_t n, moved_names_visitor *,
                       void *cookie);

/* ---- moved/names.c ---------------------------------------------------------------------------- */

/* Tells debuggers about new moved code; or about added code, whose frames are the last.  0, or negative errno
 * with a sentence. */
int moved_names_debug(struct mvld_image *, const struct rimf_described *, size_t n);
/* Tells them that the code of the batch is gone. */
void moved_names_forget(struct mvld_image *, const struct moved_batch *);
int moved_names_perf(struct mvld_image *, const struct rimf_described *, size_t n);

#endif
