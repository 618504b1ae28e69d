/* SPDX-License-Identifier: MIT
 *
 * Two libraries: libpatched.so, whose code a pass changes, and libother.so.
 */
#define GLUE(a, b) a##b
#define NAME(a, b) GLUE(a, b)
#define TEXT(a) #a
#define FUNCTION(prefix, name, code) \
    __asm__(".globl " TEXT(prefix) #name "\n.type " TEXT(prefix) #name ",@function\n.p2align 4\n" TEXT(prefix) #name \
            ": .cfi_startproc\n" code "ret\n.cfi_endproc\n.size " TEXT(prefix) #name ", .-" TEXT(prefix) #name)

FUNCTION(PREFIX, _answer, "mov $1, %eax\n");
/* The program's `zero`, plus 1. */
FUNCTION(PREFIX, _outer, "sub $8, %rsp\n.cfi_def_cfa_offset 16\ncall zero@PLT\ninc %eax\nadd $8, %rsp\n"
                         ".cfi_def_cfa_offset 8\n");
/* A return address in this library's code, where that runs. */
__attribute__((noipa)) void *NAME(PREFIX, _runs)(void *(*caller)(void))
{
    void *volatile at = caller();

    return at;
}
