/* SPDX-License-Identifier: MIT
 *
 * mvld/pass/code.h: functions, and the instructions of proven ones.  Included by mvld/pass.h.
 *
 * A function is an address range that an unwind table describes, as `mvld analyze` found it.  If a compiler
 * split off unlikely code, that part is a function of its own.  Code without an unwind table, and PLT entries,
 * belong to no function.
 */
#ifndef MVLD_PASS_CODE_H
#define MVLD_PASS_CODE_H

#include <stddef.h>
#include <stdint.h>

struct mvld_object;

/* Code that moves as a whole: one or several adjacent functions of an object. */
struct mvld_fragment {
    uintptr_t original; /* where it was mapped */
    size_t size;
};

enum mvld_proof {
    MVLD_PROOF_NONE,    /* instruction boundaries are unknown */
    MVLD_PROOF_DECODED, /* instruction boundaries are known; nothing branches into the middle of one */
    MVLD_PROOF_MOVABLE  /* the same, and everything that depends on its address is known */
};

/* How it can be reached, other than from proven functions. */
#define MVLD_FUNCTION_REACHED 1u  /* by any of: pointers, symbols, code that was not decoded */
#define MVLD_FUNCTION_HELD 2u     /* by more than symbols: something may hold its address, or a pass changed code of
                                   * its object, or multiverse does */
#define MVLD_FUNCTION_EXPORTED 4u /* by a dynamic symbol: dlsym finds it, and objects that come later */
#define MVLD_FUNCTION_BOUND 8u    /* an object of the process, or the host loader, refers to such a symbol */

struct mvld_function {
    const struct mvld_object *object;
    const char *name;              /* a symbol at its entry, or NULL; valid until the pass's function returns */
    uintptr_t entry, end;          /* [entry, end), as mapped originally */
    struct mvld_fragment fragment; /* the smallest fragment that it can move with; size 0: it cannot move */
    enum mvld_proof proof;
    const char *why;               /* why no more is proven (static), or NULL */
    uint32_t flags;                /* MVLD_FUNCTION_* */
};

/* How control continues after an instruction. */
enum mvld_flow {
    MVLD_FLOW_NEXT,
    MVLD_FLOW_CALL,          /* call of a known target; not xbegin */
    MVLD_FLOW_CALL_INDIRECT, /* call through a register or a word; system call */
    MVLD_FLOW_JUMP,          /* jmp to a known target */
    MVLD_FLOW_BRANCH,        /* jcc, loop, jrcxz, xbegin: to a known target, or to the next instruction */
    MVLD_FLOW_JUMP_INDIRECT,
    MVLD_FLOW_END            /* ret, ud2, hlt, int3 */
};

enum mvld_others {
    MVLD_OTHERS_UNKNOWN, /* nothing proven branches there; undecoded code or an exception may */
    MVLD_OTHERS_LEAD,    /* the function's entry, or the target of a branch or jump table */
    MVLD_OTHERS_NONE     /* reached from the previous instruction only */
};

/* A general register in `live`: 0 to 15 for rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15. */
#define MVLD_LIVE(reg) (1u << (reg))
#define MVLD_LIVE_FLAGS (1u << 16) /* the status flags; also the direction flag if the function sets it */

struct mvld_instruction {
    uintptr_t address;
    uintptr_t target; /* of a call, jump or branch; 0: unknown */
    uint8_t length;   /* bytes, with prefixes */
    uint8_t flow;     /* enum mvld_flow */
    uint8_t others;   /* enum mvld_others */
    uint32_t live;    /* MVLD_LIVE*: registers that may be read before they are written, from before this
                       * instruction.  Undecided registers count as live: all of them at calls, returns, and
                       * exits from the function. */
};

/* code_remove turns a function into traps: a call of it writes a sentence to standard error, if it fits, and raises
 * SIGILL or SIGTRAP.  Declared: made after the last pass, also in code that moves, all of the pass or
 * none.  Functions that refer to each other are removed together: when the pass has returned 0, remaining
 * code must not refer to removed functions, nor run into one (`fragment` tells which do); otherwise the
 * pass fails, with a sentence that names one.  `flags`: MVLD_REMOVE_EXPORTED.  A snapshot holds it.  For
 * the thread that loads, inside run.  Returns 0, or an error with a sentence that names object and place:
 * -EPERM: another stage; -EINVAL: no function, or no such flag; -ENODATA: not proven
 * (MVLD_PROOF_MOVABLE); -ENOTSUP: an object that must not be changed, or a snapshot that cannot hold it;
 * -EBUSY: its address may be held, it is exported or bound (MVLD_FUNCTION_*), or code of its object has
 * run; -EEXIST: declared twice, or code of a pass runs in it (code_splice); -ENOMEM. */

/* For code_remove: neither dlsym nor an object that comes later will look up what no object of the process refers
 * to. */
#define MVLD_REMOVE_EXPORTED 1u

/* A function in code that a pass adds (code_add).  `frame` has DWARF call frame instructions, as behind
 * `.cfi_startproc`: at the first byte the CFA is %rsp + 8, and the return address is at CFA - 8.  The code
 * alignment factor is 1, the data alignment factor -8.  DWARF expressions are not supported.
 *
 *     push %rbp               {0x41, 0x0e, 16, 0x86, 2,     after 1 byte: CFA = %rsp + 16, %rbp at CFA - 16
 *     mov  %rsp, %rbp          0x43, 0x0d, 6}               3 bytes later: CFA = %rbp + 16
 *
 * An empty frame means that the function never changes %rsp. */
struct mvld_new_function {
    const char *name;
    uint32_t offset, size; /* bytes, in the code */
    const uint8_t *frame;
    size_t frame_size;     /* bytes, at most MVLD_FRAME_MAX */
};
#define MVLD_FRAME_MAX 255u
#define MVLD_FUNCTIONS_MAX 65536u /* of a code_add */

/* code_splice calls `code` before the instruction at `address`, each time it is executed.  Registers, flags and the 128
 * bytes below the stack pointer are preserved.  Several splices at one place run in the order of
 * declaration, those of earlier passes first.  A splice at an endbr64 runs after it.
 *
 * The pass brings libconcat.so.1 (`library`), as for code_add.  Unwinders see the program's own frames
 * only.
 *
 * Declared: made after the last pass, all of one pass or none.  Until then every pass sees the instruction as it is.
 * If a pass changes its target, `code` runs before the changed instruction.  A later pass neither moves an object
 * with splices nor removes a function with splices.  For the thread that loads, inside run of the start; of a
 * dlopen only if there was a splice at the start.
 *
 * Possible for instructions of five bytes or more, and calls, of decoded functions, and for the entry of
 * functions.  Returns 0, or an error with a sentence that names object and place: -EPERM: another stage;
 * -EINVAL: no object, no code, or not the start of an instruction; -ENODATA: the function is not proven, has
 * moved, or is removed; -ENOTSUP: the instruction cannot be displaced, is too far from the code of libconcat.so.1,
 * or a snapshot is being made; -EBUSY: a debugger is attached; -EEXIST: a splice beside it replaces it; -E2BIG: more
 * than MVLD_SPLICES_MAX; -ENOMEM. */

/* Code of a pass that runs before an instruction (code_splice): a function of the C ABI.  It runs in any
 * thread, in signal handlers, at any time.  It may call only code of the pass and use only general registers
 * (-mgeneral-regs-only).  The stack may be aligned to 8 bytes only. */
typedef void mvld_splice_code(void *cookie);
#define MVLD_SPLICES_MAX 4096u /* places of one pass at a time */

#endif
