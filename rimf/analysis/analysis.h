/* SPDX-License-Identifier: MIT
 *
 * rimf/analysis/analysis.h: what the analyser proved of one object, as a file beside it.
 *
 * Disassembly takes seconds and memory that a starting program does not have.  So
 * `mvld analyze` (rimf/analyze) does it ahead of time and leaves an analysis, which
 * the process maps and checks: where functions are, which of them are understood,
 * where their calls through the PLT and the GOT stand.
 *
 *     +--------+-----------+----------+-------+-------+------------+-------------+
 *     | header | directory | segments | units | calls | references | jump tables |
 *     +--------+-----------+----------+-------+-------+------------+-------------+
 *     | frames | frame fixes | branches | fixed | path | gap | symbols | names |
 *     +--------+-------------+----------+-------+------+-----+---------+-------+
 *
 * Little-endian; all addresses are 32-bit and as linked (add the object's bias); all
 * tables are sorted by address and have entries of one size.  The tables stand in the
 * order of the directory, each padded with zeros to 8 bytes, nothing between or
 * behind them.  Each has its checksum in the directory, and the header (with the
 * directory) has its own: together they cover every byte of the file, and who needs
 * two tables reads only those.  A kind that a reader does not know is passed over; of
 * those below only the segments must be there.
 *
 * WHAT IS PROMISED.  Checksums find damage, not malice: an analysis steers what is
 * written into code, so it is as trusted as the code, and only files of root or of
 * the user are taken (analysis/file.c).  The reader promises in turn that whatever the
 * bytes say, entries are sorted, do not overlap, and lie inside the executable
 * segments that the header lists.  Whether those are the segments of the object at
 * hand, the caller compares; and it verifies the bytes of each site before it writes,
 * as for any patch.
 *
 * WHOSE IT IS.  Analyses are found by build-id: ab/cdef….mvld for abcdef….  A build-id
 * says what was linked, not that the file is still that (set-interp, strip, prelink, an
 * editor keep it).  Quickly told is the file that was analysed (file_id.h).  Of another one (in a
 * container, from a backup, made where the analysis came from), or where an id does not tell files apart, all
 * bytes decide that the analysis was made of: hashes of each executable segment, and of those that
 * are only read, which hold relocations, symbols, jump tables and unwinding tables.
 *
 * WHAT A UNIT IS.  A range that .eh_frame describes; code without such a description
 * belongs to none.  Two things are said of it.  DECODED: where each of its instructions
 * begins is proven, and no branch, pointer or symbol of the object leads into the
 * middle of one.  That suffices for changing an instruction in place.  Movable, that
 * is reason 0: also, it may be moved elsewhere and run there, with the displacements
 * that `references` and `calls` list corrected.  The reason of any other unit says why
 * it stays.  An object that as a whole cannot be moved says so in `flags`; its
 * units keep their own reasons.
 *
 * WHO COMES IN.  Whoever moves units leaves the originals where they are, too, and lets branches
 * between moved code lead to moved code.  REACHED says that a unit's original is also entered by
 * others: through pointers, symbols, operands, by code that stays.  To say it of too many is only
 * slower, to say it of too few as well: what enters an original runs it.  HEAD must be right: it
 * says that the first five bytes of the original, behind an endbr64 if one stands there, may be
 * written over, since nothing that runs in originals leads behind the first of them.
 *
 * WHO MAY BE REMOVED.  HELD says that a unit is led to by what no table lists: pointers, entry points, code that
 * stays or is not understood, entries of tables that others use.  It must be right.  To one without it lead the
 * references, branches and calls listed here, units joined with it, and names of the dynamic symbol table alone.
 *
 * WHAT HOLDS TOGETHER.  Movable units of one object may go to different distances.  JOINED
 * says of a unit that it and the next one in the table must not: control falls from one into
 * the other, a branch of one byte leads across, or an exception of one lands in the other.
 * Whoever moves units apart corrects the displacements in `branches`, too.
 *
 * WHO HOLDS ADDRESSES.  Whoever lets the canonical address of a function be that of its moved code
 * must change it wherever it is held: in relocated words, and in the operands (ANALYSIS_TO_CODE) of
 * movable code, moved and original.  FIXED_CODE lists the code of which others hold addresses, or
 * might, and what does not move anyway: its canonical addresses must be the original ones.  It must be
 * right.
 * An analysis without this table says it of everything.
 *
 * WHAT IT IS CALLED.  Symbols and names, where they are, are what debuggers are to find of moved code
 * (symfile.h): a symbol table as in an object file (ET_REL), which a process gives them as it stands,
 * without reading it.  So nobody checks the entries; that they begin on a page, by a gap of zeros
 * before them, lets their pages stay mapped when those of the other tables go.
 */
#ifndef RIMF_ANALYSIS_H
#define RIMF_ANALYSIS_H

#include "rimf/base/hash.h"
#include "rimf/base/file_id.h"

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

struct rimf_sys;

#define ANALYSIS_MAGIC "MVLDside"
#define ANALYSIS_VERSION 7u     /* of the format, and of what is proven; another one is not read */
#define ANALYSER_VERSION 12u   /* of `mvld analyze`; counts up when results change */
#define ANALYSIS_BUILD_ID_MAX 64u
#define ANALYSIS_TABLES_MAX 32u
#define ANALYSIS_SIZE_MAX (1ul << 30)
#define ANALYSIS_HEAD_SIZE 5u    /* e9 rel32: jmp to the moved code */
#define ANALYSIS_SYMBOLS_IN 1u   /* st_shndx */
#define ANALYSIS_SYSTEM_FOLDER "/var/cache/mvld/analysis"

enum analysis_kind { /* of a table */
    ANALYSIS_SEGMENTS = 1,
    ANALYSIS_UNITS,
    ANALYSIS_CALLS,
    ANALYSIS_REFERENCES,
    ANALYSIS_JUMP_TABLES,
    ANALYSIS_FRAMES,
    ANALYSIS_FRAME_FIXES,
    ANALYSIS_BRANCHES,
    ANALYSIS_FIXED_CODE,
    ANALYSIS_GAP,     /* zeros */
    ANALYSIS_SYMBOLS, /* Elf64_Sym, the first empty: functions in movable units; values count from where
                      * the first such unit starts, sections are ANALYSIS_SYMBOLS_IN */
    ANALYSIS_NAMES,   /* bytes: their strings */
    ANALYSIS_PATH,    /* bytes: where the file lay, with a 0 at the end; for people, and for who removes
                       * analyses of files that are gone.  It stands before the gap */
    ANALYSIS_KINDS
};
#define ANALYSIS_WANT(kind) (1u << (kind))
#define ANALYSIS_WANT_WHOLE (~0u) /* every byte has its checksum */
/* All that a process reads: not what is only shown to debuggers. */
#define ANALYSIS_WANT_ALL (~(ANALYSIS_WANT(ANALYSIS_SYMBOLS) | ANALYSIS_WANT(ANALYSIS_NAMES)))

struct analysis_table {
    uint32_t kind, entry_size;
    uint64_t offset, count;
    uint64_t checksum; /* of the padded table */
};

enum analysis_flags {          /* of an object: none of its units can be moved */
    ANALYSIS_FIXED = 1 << 0,   /* linked at a fixed address (ET_EXEC) */
    ANALYSIS_TEXTREL = 1 << 1, /* relocations change its code; changed units are not decoded */
    ANALYSIS_RESTARTS = 1 << 2, /* it has restartable sequences (rseq), found by their address */
    ANALYSIS_PROFILED = 1 << 3, /* a profiler or a sanitizer gets the addresses of its code */
    ANALYSIS_LOOKED_UP = 1 << 4, /* a run time looks up return addresses of its code in tables; no
                                 * calls of it are listed, since it may read the code, too */
    ANALYSIS_FLAGS = 0x1f
};

struct analysis_header {
    char magic[8];
    uint32_t version, header_size; /* the directory included */
    uint64_t size;                 /* of the analysis */
    uint64_t checksum;             /* of header and directory, with 0 in this place */
    uint32_t analyser;             /* whose work this is; newer ones prove more or better */
    uint32_t flags;
    uint32_t build_id_size, n_tables;
    uint8_t build_id[ANALYSIS_BUILD_ID_MAX]; /* zeros behind it */
    struct file_id identity;
    uint32_t frames_start, frames_size; /* .eh_frame, its end mark included; 0: none */
    uint64_t constants_hash; /* of the segments that are only read: analysis_is_constants */
    /* the directory follows: n_tables of struct analysis_table */
};

/* An executable PT_LOAD: its bytes in the file, without what memory has more. */
struct analysis_segment {
    uint32_t start, size;
    uint64_t hash; /* rimf_hash of them */
};

enum analysis_reason {
    ANALYSIS_PROVEN = 0,    /* movable */
    ANALYSIS_UNDECODABLE,   /* bytes that are no instruction */
    ANALYSIS_IMPLAUSIBLE,   /* an instruction that no compiler emits */
    ANALYSIS_OVERRUN,       /* its last instruction ends elsewhere than it does */
    ANALYSIS_ADDRESS_SIZE,  /* a RIP operand of 32 bits */
    ANALYSIS_RELOCATED,     /* a relocation changes its bytes */
    ANALYSIS_ENTERED,       /* a branch leads into the middle of an instruction */
    ANALYSIS_POINTED,       /* a pointer, a symbol, a landing pad does */
    ANALYSIS_READ,          /* its bytes are read as data */
    ANALYSIS_OUTSIDE,       /* a RIP operand outside the object */
    ANALYSIS_BASE,          /* its own address is an operand (large code model) */
    ANALYSIS_LABEL_TAKEN,   /* other code takes the address of a place inside it */
    ANALYSIS_TAKES_LABEL,   /* it takes such an address */
    ANALYSIS_LAST_UNDECODED = ANALYSIS_TAKES_LABEL,
    ANALYSIS_FALLS,         /* runs off its end into code that stays, or nowhere */
    ANALYSIS_SHORT_BRANCH,  /* a branch of one byte into code that stays */
    ANALYSIS_FRAME_ODD,     /* its unwinding description cannot be made one of moved code */
    ANALYSIS_KEPT,          /* data keeps a place inside it that is no label of its own jumps */
    ANALYSIS_BOUNDED,       /* code may ask where its section begins and ends */
    ANALYSIS_REASONS
};

/* In words, for people (analysis/reasons.c). */
const char *analysis_reason_words(enum analysis_reason);

enum analysis_unit_flags {
    ANALYSIS_DECODED = 1 << 0, /* goes with reason 0 and those behind LAST_UNDECODED */
    ANALYSIS_REACHED = 1 << 1, /* movable, and entered otherwise than by movable code */
    ANALYSIS_HEAD = 1 << 2,    /* REACHED, and a jump may be written over its first five
                               * bytes of the original, those behind an endbr64 */
    ANALYSIS_JOINED = 1 << 3,  /* of any reason: moves as far as the next unit, if
                               * both move */
    ANALYSIS_HELD = 1 << 4     /* movable, and its address may be held, or a place in it entered, by what
                               * no table lists */
};

struct analysis_unit {
    uint32_t start, size;
    uint8_t reason, flags; /* enum analysis_reason; enum analysis_unit_flags */
    uint16_t zero;
};

/* Calls and jumps through GOT slots, in decoded units.  `address` is that of the
 * opcode byte: prefixes before it (bnd, notrack) change nothing.  What the PLT entry
 * behind a rel32 does was decoded: it jumps through that slot.  And calls of functions of a
 * single instruction (single.h) in other units of the object, without prefix; their slot is 0. */
enum analysis_call_kind {
    ANALYSIS_CALL_PLT = 1, /* e8 rel32        call entry */
    ANALYSIS_JMP_PLT,      /* e9 rel32        jmp  entry */
    ANALYSIS_JCC_PLT,      /* 0f 8x rel32     jcc  entry */
    ANALYSIS_CALL_SLOT,    /* ff 15 rel32     call *slot(%rip) */
    ANALYSIS_JMP_SLOT,     /* ff 25 rel32     jmp  *slot(%rip) */
    ANALYSIS_CALL_SINGLE,  /* e8 rel32        call f */
    ANALYSIS_CALL_KINDS
};

struct analysis_call {
    uint32_t address;
    uint32_t slot_and_kind; /* slots are 8-aligned: the kind has the low three bits */
};

static inline uint32_t analysis_slot(const struct analysis_call *call)
{
    return call->slot_and_kind & ~7u;
}
static inline enum analysis_call_kind analysis_call_kind(const struct analysis_call *call)
{
    return (enum analysis_call_kind)(call->slot_and_kind & 7u);
}
/* From the opcode to the end: 5, or 6. */
static inline uint32_t analysis_call_length(const struct analysis_call *call)
{
    enum analysis_call_kind kind = analysis_call_kind(call);

    return kind == ANALYSIS_CALL_PLT || kind == ANALYSIS_JMP_PLT || kind == ANALYSIS_CALL_SINGLE ? 5
                                                                                              : 6;
}

/* The displacements in movable units that say something else once the unit lies
 * elsewhere; those of `calls` are not repeated.  A displacement that is in no table is of a
 * branch from movable code to movable code: inside one unit, unless `branches` lists it. */
enum analysis_reference_kind {
    ANALYSIS_TO_DATA = 1,   /* writable memory: data, bss, GOT */
    ANALYSIS_TO_RODATA,     /* what is only read */
    ANALYSIS_TO_JUMP_TABLE, /* the start of one of `jump tables` */
    ANALYSIS_TO_ORIGINAL,       /* operand: code that stays, a PLT entry */
    ANALYSIS_BRANCH_ORIGINAL,   /* call, jmp, jcc rel32 to such code */
    ANALYSIS_TO_CODE,       /* operand: the start of a movable unit (lea) */
    ANALYSIS_REFERENCE_KINDS
};

struct analysis_reference {
    uint32_t address; /* of the displacement, four bytes */
    uint8_t kind;
    uint8_t rest;     /* bytes between the displacement and the end of the instruction */
    uint16_t zero;
};

/* Offsets of four bytes from the table's start to instructions of movable units. */
struct analysis_jump_table {
    uint32_t address, count;
};

/* The FDE that describes code of a movable unit; it begins inside [frames_start,
 * frames_start + frames_size), and its range inside the unit. */
struct analysis_frame {
    uint32_t start, fde; /* of the range; address of the record */
};

/* Distances from their own place, four bytes inside .eh_frame, which change when the
 * bytes lie elsewhere.  There is one of kind ANALYSIS_FRAME_CODE at each fde + 8.
 * Records without one describe nothing of moved code. */
enum analysis_frame_fix_kind {
    ANALYSIS_FRAME_CODE = 1, /* to code of a movable unit: where a range begins */
    ANALYSIS_FRAME_OTHER,    /* to what stays: code, exception tables, personalities,
                             * the words that hold those */
    ANALYSIS_FRAME_FIX_KINDS
};

struct analysis_frame_fix {
    uint32_t address;
    uint8_t kind;
    uint8_t zero[3];
};

/* The displacement, four bytes at the end of the instruction, of a call, jmp, or jcc from one
 * movable unit into another. */
struct analysis_branch {
    uint32_t address;
};

/* Code whose canonical addresses are the original ones, whatever else moves: what does not (padding
 * between functions excepted), and movable units whose address is taken by such code. */
struct analysis_fixed {
    uint32_t start, size;
};

/* ---- reading -------------------------------------------------------------- */

/* A checked view into the bytes; what was not wanted or is not there is empty.  `fixed` is NULL
 * when there is no such table. */
struct analysis {
    const struct analysis_header *header;
    const struct analysis_segment *segments;
    const struct analysis_unit *units;
    const struct analysis_call *calls;
    const struct analysis_reference *references;
    const struct analysis_jump_table *jump_tables;
    const struct analysis_frame *frames; /* by start */
    const struct analysis_frame_fix *frame_fixes;
    const struct analysis_branch *branches; /* NULL: an old analysis, whose units are not known
                                            * to be JOINED; or not wanted */
    const struct analysis_fixed *fixed;
    size_t n_segments, n_units, n_calls, n_references, n_jump_tables, n_frames, n_frame_fixes,
        n_branches, n_fixed;
    uint32_t opened; /* ANALYSIS_WANT of the tables that were checked */
    const uint32_t *near; /* analysis_index, or NULL */
    size_t n_near;
};

/* Checks header, directory, segments, and the tables in `wanted` (ANALYSIS_WANT, or-ed;
 * references, frames and branches bring the units with them, frames their fixes, too; calls are compared
 * with units where both are opened, else with segments).
 * `bytes` is 8-aligned and outlives the view.  0, or -EINVAL with a sentence (static) in *why and an empty view. */
int analysis_open(struct analysis *, const void *bytes, size_t size, uint32_t wanted,
                 const char **why);

/* Checks the tables in `wanted` that the view does not have yet.  As analysis_open. */
int analysis_open_more(struct analysis *, uint32_t wanted, const char **why);

/* The first of `n` entries, which begin with their address and ascend, at or behind `address`. */
size_t analysis_first_from(const void *entries, size_t n, size_t stride, uint32_t address);
/* The unit that covers `address`, or NULL. */
const struct analysis_unit *analysis_unit_at(const struct analysis *, uint32_t address);
/* So many words make that quick for who asks often, until the view is closed. */
size_t analysis_index_size(const struct analysis *);
void analysis_index(struct analysis *, uint32_t *words);
/* The index of the first reference, frame (by its start), or frame fix, at or behind
 * `address`. */
size_t analysis_reference_from(const struct analysis *, uint32_t address);
size_t analysis_frame_from(const struct analysis *, uint32_t address);
size_t analysis_frame_fix_from(const struct analysis *, uint32_t address);
size_t analysis_jump_table_from(const struct analysis *, uint32_t address);

/* The start of the first movable unit, or UINT32_MAX. */
uint32_t analysis_first_movable(const struct analysis *);
/* Where symbols and names stand in the bytes: both in pages in which nothing else does, which are
 * the last.  0: there are none. */
struct analysis_symbols {
    uint64_t symbols, symbols_size, names, names_size;
};
int analysis_symbols(const struct analysis *, struct analysis_symbols *);
/* Where the file lay that was analysed, or NULL: it does not say. */
const char *analysis_path_of(const struct analysis *);
/* Tells one analysis of an object from another one, also of the same file. */
#define ANALYSIS_LACKS 1u /* no key: it was asked for one, and there was none that could be used */
static inline uint32_t analysis_key(const struct analysis_header *header)
{
    return (uint32_t)header->checksum | 2u;
}
/* 1 when the analysis is of an object with this build-id. */
int analysis_is_of(const struct analysis *, const void *build_id, size_t size);

/* 1: a segment of those in `constants_hash`, which is their hashes mixed, in their order. */
static inline int analysis_is_constants(const Elf64_Phdr *ph)
{
    return ph->p_type == PT_LOAD && !(ph->p_flags & (PF_W | PF_X)) && ph->p_filesz && ph->p_memsz;
}
/* What belongs into `checksum`; the header has `header_size` bytes. */
uint64_t analysis_header_checksum(const struct analysis_header *);

/* ---- files (analysis/file.c) ------------------------------------------------ */

/* Where analyses lie, and whose files are taken there.  Never group or world-writable
 * ones, never through a symbolic link in the last component. */
struct analysis_place {
    const char *folder;
    uint32_t user; /* besides root's, files of this user */
    int unasked;   /* whether somebody else can change where the path leads (rimf_image_set_steered) */
};

struct analysis_file {
    struct analysis view;
    void *map;
    size_t size;
};

/* folder/ab/cdef….mvld.  The length, or 0 when it does not fit. */
size_t analysis_path(char *to, size_t size, const char *folder, const void *build_id,
                    size_t build_id_size);

/* Maps the analysis of the newest analyser among those that can be used, and of several the
 * first; places behind one that is up to date (ANALYSER_VERSION) are not looked at.  0;
 * -ENOENT: there is none; other errors with a sentence (static) in *why.  After an error,
 * nothing is mapped. */
int analysis_find(struct analysis_file *, const struct rimf_sys *, const struct analysis_place *,
                 size_t n_places, const void *build_id, size_t build_id_size, uint32_t wanted,
                 const char **why);
/* The same for one file, whatever build-id it is of. */
int analysis_map(struct analysis_file *, const struct rimf_sys *, const char *path, uint32_t user,
                uint32_t wanted, const char **why);
void analysis_unmap(struct analysis_file *, const struct rimf_sys *);

#endif
