/* SPDX-License-Identifier: MIT
 *
 * rimf/analysis/analysis.h: what the analyser proved of one object, as a file beside it.
 *
 * Disassembly takes seconds and memory that a starting program does not have.  So
 * `mvld analyze` (rimf/analyze) does it ahead of time and leaves a sidecar, which
 * the process maps and checks: where functions are, which of them are understood,
 * where their calls through the PLT and the GOT stand.
 *
 *     +--------+-----------+----------+-------+-------+------------+-------------+
 *     | header | directory | segments | units | calls | references | jump tables |
 *     +--------+-----------+----------+-------+-------+------------+-------------+
 *     | frames | frame fixes | branches | homes | gap | symbols | names |
 *     +--------+-------------+----------+-------+-----+---------+-------+
 *
 * Little-endian; all addresses are 32-bit and as linked (add the object's bias); all
 * tables are sorted by address and have entries of one size.  The tables stand in the
 * order of the directory, each padded with zeros to 8 bytes, nothing between or
 * behind them.  Each has its checksum in the directory, and the header (with the
 * directory) has its own: together they cover every byte of the file, and who needs
 * two tables reads only those.  A kind that a reader does not know is passed over; of
 * those below only the segments must be there.
 *
 * WHAT IS PROMISED.  Checksums find damage, not malice: a sidecar steers what is
 * written into code, so it is as trusted as the code, and only files of root or of
 * the user are taken (analysis/file.c).  The reader promises in turn that whatever the
 * bytes say, entries are sorted, do not overlap, and lie inside the executable
 * segments that the header lists.  Whether those are the segments of the object at
 * hand, the caller compares; and it verifies the bytes of each site before it writes,
 * as for any patch.
 *
 * WHOSE IT IS.  Sidecars are found by build-id: ab/cdef….mvld for abcdef….  A build-id
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
 * is reason 0: also, it may be copied elsewhere and run there, with the displacements
 * that `references` and `calls` list corrected.  The reason of any other unit says why
 * it stays home.  An object that as a whole cannot be moved says so in `flags`; its
 * units keep their own reasons.
 *
 * WHO COMES IN.  Whoever copies movable units leaves them at home, too, and lets branches
 * between copies lead to copies.  REACHED says that a unit is also entered by others, at
 * home: through pointers, symbols, operands, by code that stays there.  To say it of too
 * many is only slower, to say it of too few as well: what enters a unit at home runs it
 * there.  HEAD must be right: it says that the first five bytes at home, behind an endbr64
 * if one stands there, may be written over, since nothing that runs at home leads behind
 * the first of them.
 *
 * WHAT HOLDS TOGETHER.  Movable units of one object may go to different distances.  JOINED
 * says of a unit that it and the next one in the table must not: control falls from one into
 * the other, a branch of one byte leads across, or an exception of one lands in the other.
 * Whoever moves units apart corrects the displacements in `branches`, too.
 *
 * WHO HOLDS ADDRESSES.  Whoever lets the address of a movable function be that of its copy must
 * change it wherever it is held: in relocated words, and in the operands (SIDECAR_TO_CODE) of
 * movable code, in copies as at home.  HOMES lists the code of which others hold addresses, or
 * might, and what does not move anyway: its addresses must stay those at home.  HOMES must be right.
 * A sidecar without this table says it of everything.
 *
 * WHAT IT IS CALLED.  Symbols and names, where they are, are what debuggers are to find of a copy
 * (symfile.h): a symbol table as in an object file (ET_REL), which a process gives them as it stands,
 * without reading it.  So nobody checks the entries; that they begin on a page, by a gap of zeros
 * before them, lets their pages stay mapped when those of the other tables go.
 */
#ifndef RIMF_SIDECAR_H
#define RIMF_SIDECAR_H

#include "rimf/base/file_id.h"

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

struct rimf_sys;

#define SIDECAR_MAGIC "MVLDside"
#define SIDECAR_VERSION 5u     /* of the format; another one is not read */
#define ANALYSER_VERSION 9u    /* of `mvld analyze`; counts up when results change */
#define SIDECAR_BUILD_ID_MAX 64u
#define SIDECAR_TABLES_MAX 32u
#define SIDECAR_SIZE_MAX (1ul << 30)
#define SIDECAR_HEAD_SIZE 5u    /* e9 rel32: jmp to the copy */
#define SIDECAR_SYMBOLS_IN 1u   /* st_shndx */
#define SIDECAR_SYSTEM_FOLDER "/var/cache/mvld/analysis"

enum sidecar_kind { /* of a table */
    SIDECAR_SEGMENTS = 1,
    SIDECAR_UNITS,
    SIDECAR_CALLS,
    SIDECAR_REFERENCES,
    SIDECAR_JUMP_TABLES,
    SIDECAR_FRAMES,
    SIDECAR_FRAME_FIXES,
    SIDECAR_BRANCHES,
    SIDECAR_HOMES,
    SIDECAR_GAP,     /* zeros */
    SIDECAR_SYMBOLS, /* Elf64_Sym, the first empty: functions in movable units; values count from where
                      * the first such unit starts, sections are SIDECAR_SYMBOLS_IN */
    SIDECAR_NAMES,   /* bytes: their strings */
    SIDECAR_KINDS
};
#define SIDECAR_WANT(kind) (1u << (kind))
#define SIDECAR_WANT_WHOLE (~0u) /* every byte has its checksum */
/* All that a process reads: not what is only shown to debuggers. */
#define SIDECAR_WANT_ALL (~(SIDECAR_WANT(SIDECAR_SYMBOLS) | SIDECAR_WANT(SIDECAR_NAMES)))

struct sidecar_table {
    uint32_t kind, entry_size;
    uint64_t offset, count;
    uint64_t checksum; /* of the padded table */
};

enum sidecar_flags {          /* of an object: none of its units can be moved */
    SIDECAR_FIXED = 1 << 0,   /* linked at a fixed address (ET_EXEC) */
    SIDECAR_TEXTREL = 1 << 1, /* relocations change its code; changed units are not decoded */
    SIDECAR_RESTARTS = 1 << 2, /* it has restartable sequences (rseq), found by their address */
    SIDECAR_PROFILED = 1 << 3, /* a profiler or a sanitizer gets the addresses of its code */
    SIDECAR_LOOKED_UP = 1 << 4, /* a run time looks up return addresses of its code in tables; no
                                 * calls of it are listed, since it may read the code, too */
    SIDECAR_FLAGS = 0x1f
};

struct sidecar_header {
    char magic[8];
    uint32_t version, header_size; /* the directory included */
    uint64_t size;                 /* of the sidecar */
    uint64_t checksum;             /* of header and directory, with 0 in this place */
    uint32_t analyser;             /* whose work this is; newer ones prove more or better */
    uint32_t flags;
    uint32_t build_id_size, n_tables;
    uint8_t build_id[SIDECAR_BUILD_ID_MAX]; /* zeros behind it */
    struct file_id identity;
    uint32_t frames_start, frames_size; /* .eh_frame, its end mark included; 0: none */
    uint64_t constants_hash; /* of the segments that are only read: sidecar_is_constants */
    /* the directory follows: n_tables of struct sidecar_table */
};

/* An executable PT_LOAD: its bytes in the file, without what memory has more. */
struct sidecar_segment {
    uint32_t start, size;
    uint64_t hash; /* sidecar_hash of them */
};

enum sidecar_reason {
    SIDECAR_PROVEN = 0,    /* movable */
    SIDECAR_UNDECODABLE,   /* bytes that are no instruction */
    SIDECAR_IMPLAUSIBLE,   /* an instruction that no compiler emits */
    SIDECAR_OVERRUN,       /* its last instruction ends elsewhere than it does */
    SIDECAR_ADDRESS_SIZE,  /* a RIP operand of 32 bits */
    SIDECAR_RELOCATED,     /* a relocation changes its bytes */
    SIDECAR_ENTERED,       /* a branch leads into the middle of an instruction */
    SIDECAR_POINTED,       /* a pointer, a symbol, a landing pad does */
    SIDECAR_READ,          /* its bytes are read as data */
    SIDECAR_OUTSIDE,       /* a RIP operand outside the object */
    SIDECAR_BASE,          /* its own address is an operand (large code model) */
    SIDECAR_LABEL_TAKEN,   /* other code takes the address of a place inside it */
    SIDECAR_TAKES_LABEL,   /* it takes such an address */
    SIDECAR_LAST_UNDECODED = SIDECAR_TAKES_LABEL,
    SIDECAR_FALLS,         /* runs off its end into code that stays home, or nowhere */
    SIDECAR_SHORT_BRANCH,  /* a branch of one byte into code that stays home */
    SIDECAR_FRAME_ODD,     /* its unwinding description cannot be made one of a copy */
    SIDECAR_KEPT,          /* data keeps a place inside it that is no label of its own jumps */
    SIDECAR_BOUNDED,       /* code may ask where its section begins and ends */
    SIDECAR_REASONS
};

enum sidecar_unit_flags {
    SIDECAR_DECODED = 1 << 0, /* goes with reason 0 and those behind LAST_UNDECODED */
    SIDECAR_REACHED = 1 << 1, /* movable, and entered otherwise than by movable code */
    SIDECAR_HEAD = 1 << 2,    /* REACHED, and a jump may be written over its first five
                               * bytes at home, those behind an endbr64 */
    SIDECAR_JOINED = 1 << 3   /* of any reason: lies as far from home as the next unit, if
                               * both move */
};

struct sidecar_unit {
    uint32_t start, size;
    uint8_t reason, flags; /* enum sidecar_reason; enum sidecar_unit_flags */
    uint16_t zero;
};

/* Calls and jumps through GOT slots, in decoded units.  `address` is that of the
 * opcode byte: prefixes before it (bnd, notrack) change nothing.  What the PLT entry
 * behind a rel32 does was decoded: it jumps through that slot.  And calls of functions of a
 * single instruction (single.h) in other units of the object, without prefix; their slot is 0. */
enum sidecar_call_kind {
    SIDECAR_CALL_PLT = 1, /* e8 rel32        call entry */
    SIDECAR_JMP_PLT,      /* e9 rel32        jmp  entry */
    SIDECAR_JCC_PLT,      /* 0f 8x rel32     jcc  entry */
    SIDECAR_CALL_SLOT,    /* ff 15 rel32     call *slot(%rip) */
    SIDECAR_JMP_SLOT,     /* ff 25 rel32     jmp  *slot(%rip) */
    SIDECAR_CALL_SINGLE,  /* e8 rel32        call f */
    SIDECAR_CALL_KINDS
};

struct sidecar_call {
    uint32_t address;
    uint32_t slot_and_kind; /* slots are 8-aligned: the kind has the low three bits */
};

static inline uint32_t sidecar_slot(const struct sidecar_call *call)
{
    return call->slot_and_kind & ~7u;
}
static inline enum sidecar_call_kind sidecar_call_kind(const struct sidecar_call *call)
{
    return (enum sidecar_call_kind)(call->slot_and_kind & 7u);
}
/* From the opcode to the end: 5, or 6. */
static inline uint32_t sidecar_call_length(const struct sidecar_call *call)
{
    enum sidecar_call_kind kind = sidecar_call_kind(call);

    return kind == SIDECAR_CALL_PLT || kind == SIDECAR_JMP_PLT || kind == SIDECAR_CALL_SINGLE ? 5
                                                                                              : 6;
}

/* The displacements in movable units that say something else once the unit lies
 * elsewhere; those of `calls` are not repeated.  A displacement that is in no table is of a
 * branch from movable code to movable code: inside one unit, unless `branches` lists it. */
enum sidecar_reference_kind {
    SIDECAR_TO_DATA = 1,   /* writable memory: data, bss, GOT */
    SIDECAR_TO_RODATA,     /* what is only read */
    SIDECAR_TO_JUMP_TABLE, /* the start of one of `jump tables` */
    SIDECAR_TO_HOME,       /* operand: code that stays home, a PLT entry */
    SIDECAR_BRANCH_HOME,   /* call, jmp, jcc rel32 to such code */
    SIDECAR_TO_CODE,       /* operand: the start of a movable unit (lea) */
    SIDECAR_REFERENCE_KINDS
};

struct sidecar_reference {
    uint32_t address; /* of the displacement, four bytes */
    uint8_t kind;
    uint8_t rest;     /* bytes between the displacement and the end of the instruction */
    uint16_t zero;
};

/* Offsets of four bytes from the table's start to instructions of movable units. */
struct sidecar_jump_table {
    uint32_t address, count;
};

/* The FDE that describes code of a movable unit; it begins inside [frames_start,
 * frames_start + frames_size), and its range inside the unit. */
struct sidecar_frame {
    uint32_t start, fde; /* of the range; address of the record */
};

/* Distances from their own place, four bytes inside .eh_frame, which change when the
 * bytes lie elsewhere.  There is one of kind SIDECAR_FRAME_CODE at each fde + 8.
 * Records without one describe nothing of the copies. */
enum sidecar_frame_fix_kind {
    SIDECAR_FRAME_CODE = 1, /* to code of a movable unit: where a range begins */
    SIDECAR_FRAME_OTHER,    /* to what stays home: code, exception tables, personalities,
                             * the words that hold those */
    SIDECAR_FRAME_FIX_KINDS
};

struct sidecar_frame_fix {
    uint32_t address;
    uint8_t kind;
    uint8_t zero[3];
};

/* The displacement, four bytes at the end of the instruction, of a call, jmp, or jcc from one
 * movable unit into another. */
struct sidecar_branch {
    uint32_t address;
};

/* Code whose addresses are those at home, whoever else has copies: what does not move (padding
 * between functions excepted), and movable units whose address is taken by such code. */
struct sidecar_home {
    uint32_t start, size;
};

/* ---- reading -------------------------------------------------------------- */

/* A checked view into the bytes; what was not wanted or is not there is empty.  `homes` is NULL
 * when there is no such table. */
struct sidecar {
    const struct sidecar_header *header;
    const struct sidecar_segment *segments;
    const struct sidecar_unit *units;
    const struct sidecar_call *calls;
    const struct sidecar_reference *references;
    const struct sidecar_jump_table *jump_tables;
    const struct sidecar_frame *frames; /* by start */
    const struct sidecar_frame_fix *frame_fixes;
    const struct sidecar_branch *branches; /* NULL: an old analysis, whose units are not known
                                            * to be JOINED; or not wanted */
    const struct sidecar_home *homes;
    size_t n_segments, n_units, n_calls, n_references, n_jump_tables, n_frames, n_frame_fixes,
        n_branches, n_homes;
    uint32_t opened; /* SIDECAR_WANT of the tables that were checked */
    const uint32_t *near; /* sidecar_index, or NULL */
    size_t n_near;
};

/* Checks header, directory, segments, and the tables in `wanted` (SIDECAR_WANT, or-ed;
 * references, frames and branches bring the units with them, frames their fixes, too; calls are compared
 * with units where both are opened, else with segments).
 * `bytes` is 8-aligned and outlives the view.  0, or -EINVAL with a sentence (static) in *why and an empty view. */
int sidecar_open(struct sidecar *, const void *bytes, size_t size, uint32_t wanted,
                 const char **why);

/* Checks the tables in `wanted` that the view does not have yet.  As sidecar_open. */
int sidecar_open_more(struct sidecar *, uint32_t wanted, const char **why);

/* The first of `n` entries, which begin with their address and ascend, at or behind `address`. */
size_t sidecar_first_from(const void *entries, size_t n, size_t stride, uint32_t address);
/* The unit that covers `address`, or NULL. */
const struct sidecar_unit *sidecar_unit_at(const struct sidecar *, uint32_t address);
/* So many words make that quick for who asks often, until the view is closed. */
size_t sidecar_index_size(const struct sidecar *);
void sidecar_index(struct sidecar *, uint32_t *words);
/* The index of the first call, reference, frame (by its start), or frame fix, at or
 * behind `address`. */
size_t sidecar_call_from(const struct sidecar *, uint32_t address);
size_t sidecar_reference_from(const struct sidecar *, uint32_t address);
size_t sidecar_frame_from(const struct sidecar *, uint32_t address);
size_t sidecar_frame_fix_from(const struct sidecar *, uint32_t address);
size_t sidecar_jump_table_from(const struct sidecar *, uint32_t address);

/* The start of the first movable unit, or UINT32_MAX. */
uint32_t sidecar_first_movable(const struct sidecar *);
/* Where symbols and names stand in the bytes: both in pages in which nothing else does, which are
 * the last.  0: there are none. */
struct sidecar_symbols {
    uint64_t symbols, symbols_size, names, names_size;
};
int sidecar_symbols(const struct sidecar *, struct sidecar_symbols *);
/* 1 when the sidecar is of an object with this build-id. */
int sidecar_is_of(const struct sidecar *, const void *build_id, size_t size);

/* Eight bytes more of a hash: multiply and fold. */
static inline uint64_t sidecar_mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u; /* 2^64 divided by the golden ratio */
    return hash ^ hash >> 29;
}
/* A 64-bit hash against accidents; `bytes` may have any alignment. */
uint64_t sidecar_hash(const void *bytes, size_t size);
/* 1: a segment of those in `constants_hash`, which is their hashes mixed, in their order. */
static inline int sidecar_is_constants(const Elf64_Phdr *ph)
{
    return ph->p_type == PT_LOAD && !(ph->p_flags & (PF_W | PF_X)) && ph->p_filesz && ph->p_memsz;
}
/* What belongs into `checksum`; the header has `header_size` bytes. */
uint64_t sidecar_header_checksum(const struct sidecar_header *);

/* ---- files (analysis/file.c) ------------------------------------------------ */

/* Where sidecars lie, and whose files are taken there.  Never group or world-writable
 * ones, never through a symbolic link in the last component. */
struct sidecar_place {
    const char *folder;
    uint32_t user; /* besides root's, files of this user */
};

struct sidecar_file {
    struct sidecar view;
    void *map;
    size_t size;
};

/* folder/ab/cdef….mvld.  The length, or 0 when it does not fit. */
size_t sidecar_path(char *to, size_t size, const char *folder, const void *build_id,
                    size_t build_id_size);

/* Maps the sidecar of the newest analyser among those that can be used, and of several the
 * first; places behind one that is up to date (ANALYSER_VERSION) are not looked at.  0;
 * -ENOENT: there is none; other errors with a sentence (static) in *why.  After an error,
 * nothing is mapped. */
int sidecar_find(struct sidecar_file *, const struct rimf_sys *, const struct sidecar_place *,
                 size_t n_places, const void *build_id, size_t build_id_size, uint32_t wanted,
                 const char **why);
/* The same for one file, whatever build-id it is of. */
int sidecar_map(struct sidecar_file *, const struct rimf_sys *, const char *path, uint32_t user,
                uint32_t wanted, const char **why);
void sidecar_unmap(struct sidecar_file *, const struct rimf_sys *);

#endif
