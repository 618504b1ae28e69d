/* SPDX-License-Identifier: MIT
 *
 * copied.h: a process under concat, seen from outside: the objects that its log names as
 * copied, their files, their analysis made anew, and what its memory holds.
 *
 *     copied.c         the process and its objects
 *     copied_code.c    instructions and jump tables of copies
 *     copied_home.c    all bytes at home
 *     copied_frames.c  how copies unwind
 *     copied_slots.c   where a slot leads
 *     copied_pointers.c  which addresses are the copies'
 *     truth.c          main
 */
#ifndef TESTS_COPIED_H
#define TESTS_COPIED_H

#include "../../check.h"

#include "rimf/analyze/analyser.h"

#define REPORTED_MAX 20u
#define JUMP 5u /* e9 rel32 */
#define KEPT_MAX 8u

struct copied_piece {
    uintptr_t home, at; /* from here so many bytes of code were copied there */
    size_t code;
    uint8_t *bytes; /* that are there */
};

struct copied {
    const char *path;
    struct analyser analysis;
    uintptr_t bias, low, high;   /* all of its memory */
    struct copied_piece *fragments; /* by home */
    size_t n_fragments, room;
    int moved;                 /* addresses of its code are those of copies */
    int frozen;                /* it came from a frozen image, */
    int learnt;                /* by dlopen: copies of others that did may not be there */
    uintptr_t *tables;         /* of each jump table: where its copy is, 0: nowhere yet */
};

struct process {
    int memory;
    uintptr_t library; /* that reserves the region; stubs are in its first page */
    uintptr_t frames;  /* its .eh_frame_hdr */
    struct copied *objects;
    size_t n, room;
    const struct copied_piece **places; /* those of all objects, by where they are */
    size_t n_places;
    size_t n_wrong;
    uintptr_t kept[KEPT_MAX]; /* where the loader stands in front of a function, which
                               * runs at home */
    size_t n_kept;
    size_t n_instructions, n_operands, n_branches, n_through, n_direct, n_across, n_tables,
        n_entries, n_frames, n_foreseen, n_elsewhere, n_falls, n_moved, n_pointers;
};

/* Counts something that is not as it must be, and says the first of them. */
void wrong(struct process *, const struct copied *, uint64_t linked, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The process, stopped, and the lines that its loader wrote. */
void process_open(struct process *, const char *pid, const char *log);
void process_read(const struct process *, uintptr_t at, void *to, size_t size);
/* The object that has the address at home, or NULL. */
struct copied *object_at_home(const struct process *, uintptr_t address);
/* Where the copy of the code at home must be; 0: it has none. */
uintptr_t copy_of(const struct process *, uintptr_t home);
/* The same for any byte at home, of a movable function or not. */
uintptr_t place_of(const struct copied *, uintptr_t home);
/* The byte that is there, which there is. */
const uint8_t *byte_of(const struct copied *, uintptr_t home);
/* The address at home of one in a copy; the address itself of any other. */
uintptr_t home_of(const struct process *, uintptr_t address);

/* What the program must know as the address of the code at home: its copy's, or that at home. */
uintptr_t identity_of(struct process *, uintptr_t home);

/* 1 when a call through the slot (as linked) ends at `target`, an address at home. */
int slot_leads(struct process *, const struct copied *, uint32_t slot, uintptr_t target);

/* Where a call leads that was `was`, is now `is`, and lies at `at`; *direct: not through its
 * slot or PLT entry.  0: it is something else. */
uintptr_t call_leads(const struct copied *, const struct analysis_call *, const uint8_t *was,
                     const uint8_t *is, uintptr_t at, int *direct);
/* Of a call of a function of the object: is it the function's one instruction, as it is in the file,
 * in front of it nothing but prefixes without a meaning? */
int stands_for_call(const struct copied *, uint32_t linked, const uint8_t *was, const uint8_t *is);

void check_code(struct process *, struct copied *);
void check_home(struct process *, struct copied *);
void check_unwinding(struct process *);
void check_pointers(struct process *, struct copied *);

static const uint8_t endbr64[4] = {0xf3, 0x0f, 0x1e, 0xfa};

#endif
