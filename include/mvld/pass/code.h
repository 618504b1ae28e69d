/* SPDX-License-Identifier: MIT
 *
 * mvld/pass/code.h: functions, and the instructions of those that are proven.  Included by mvld/pass.h.
 *
 * A function is a range that the unwind tables of its object describe, as `mvld analyze` found it.  Compilers
 * split unlikely code off; such a part is a function of its own here.  Code that no unwind table describes, and
 * the entries of the PLT, belong to no function.
 */
#ifndef MVLD_PASS_CODE_H
#define MVLD_PASS_CODE_H

#include <stddef.h>
#include <stdint.h>

struct mvld_object;

/* Code that moves as a whole: some functions of an object that follow each other. */
struct mvld_fragment {
    uintptr_t original; /* where it was mapped */
    size_t size;
};

enum mvld_proof {
    MVLD_PROOF_NONE,    /* where its instructions begin is not certain */
    MVLD_PROOF_DECODED, /* where each instruction begins; nothing leads into the middle of one */
    MVLD_PROOF_MOVABLE  /* likewise; and what of it depends on where it lies */
};

#define MVLD_FUNCTION_REACHED 1u /* others than proven functions lead to it: pointers, symbols, code that is
                                  * not understood */

struct mvld_function {
    const struct mvld_object *object;
    const char *name;              /* a symbol at its entry, or NULL; good until the pass's function returns */
    uintptr_t entry, end;          /* [entry, end), where it was mapped */
    struct mvld_fragment fragment; /* the smallest that it can move with; its size is 0 where it cannot move */
    enum mvld_proof proof;
    const char *why;               /* why no more is proven (static), or NULL */
    uint32_t flags;                /* MVLD_FUNCTION_* */
};

/* How control goes on behind an instruction. */
enum mvld_flow {
    MVLD_FLOW_NEXT,
    MVLD_FLOW_CALL,          /* call, of a known target; xbegin excepted */
    MVLD_FLOW_CALL_INDIRECT, /* call through a register or a word; a system call */
    MVLD_FLOW_JUMP,          /* jmp, to a known target */
    MVLD_FLOW_BRANCH,        /* jcc, loop, jrcxz, xbegin: to a known target, or on */
    MVLD_FLOW_JUMP_INDIRECT,
    MVLD_FLOW_END            /* ret, ud2, hlt, int3 */
};

enum mvld_others {
    MVLD_OTHERS_UNKNOWN, /* nothing that is proven leads there; what is not understood may, or an exception */
    MVLD_OTHERS_LEAD,    /* the function is entered here, or a branch or a jump table leads here */
    MVLD_OTHERS_NONE     /* only the instruction before leads here */
};

/* A general register in `live`: 0 to 15 for rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15. */
#define MVLD_LIVE(reg) (1u << (reg))
#define MVLD_LIVE_FLAGS (1u << 16) /* the status flags, and the direction flag where the function sets that */

struct mvld_instruction {
    uintptr_t address;
    uintptr_t target; /* of a call, a jump or a branch; 0: not known */
    uint8_t length;   /* bytes, prefixes included */
    uint8_t flow;     /* enum mvld_flow */
    uint8_t others;   /* enum mvld_others */
    uint32_t live;    /* MVLD_LIVE*: what may be read before it is written, from before this instruction on.
                       * Whatever is not decided counts as read: at calls, returns, and where control leaves
                       * the function, all of it. */
};

/* A function in code that a pass adds (code_add).  `frame` is what DWARF calls call frame instructions, as behind
 * `.cfi_startproc`: at its first byte the CFA is %rsp + 8, and the return address lies at CFA - 8.  The code
 * alignment factor is 1, the data alignment factor -8.  What needs expressions is not understood.
 *
 *     push %rbp               {0x41, 0x0e, 16, 0x86, 2,     behind 1 byte: CFA = %rsp + 16, %rbp at CFA - 16
 *     mov  %rsp, %rbp          0x43, 0x0d, 6}               3 bytes on: CFA = %rbp + 16
 *
 * None: it never moves %rsp. */
struct mvld_new_function {
    const char *name;
    uint32_t offset, size; /* bytes, in the code */
    const uint8_t *frame;
    size_t frame_size;     /* bytes, at most MVLD_FRAME_MAX */
};
#define MVLD_FRAME_MAX 255u
#define MVLD_FUNCTIONS_MAX 65536u /* of a code_add */

/* Code of a pass that runs in front of an instruction (code_splice): a function of the C ABI, in any thread, in
 * signal handlers, at any time.  It calls nothing but code of the pass, and uses general registers alone
 * (-mgeneral-regs-only); the stack may be aligned to 8 bytes only. */
typedef void mvld_splice_code(void *cookie);
#define MVLD_SPLICES_MAX 4096u /* places, of one pass at a time */

#endif
