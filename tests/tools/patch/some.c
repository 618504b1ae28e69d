/* SPDX-License-Identifier: MIT
 *
 * The library whose functions are replaced, and those that must not be.
 */
#ifndef API
#define API __attribute__((noinline, noclone))
#endif

API int value(int n)
{
    return n * 3 + 1;
}

API int second(int n)
{
    return n * 5 + 2;
}

int (*pointer(void))(int)
{
    return value;
}

int inner(int n)
{
    return value(n) + 100;
}

static int (*choose(void))(int)
{
    return value;
}
int chosen(int n) __attribute__((ifunc("choose")));

/*      tiny:      31 c0          xor %eax, %eax          too short
 *                 c3             ret
 *      looping:   31 c0          xor %eax, %eax          its second instruction is entered again
 *                 ff c0       1: inc %eax
 *                 39 f8          cmp %edi, %eax
 *                 7c fa          jl 1b
 *                 c3             ret
 *      entered:   53             push %rbx               by `enters`, behind its first
 *                 89 f8          mov %edi, %eax
 *                 ff c0          inc %eax
 *                 5b             pop %rbx
 *                 c3             ret
 *      tabled:    53             push %rbx               its second by its own jump table
 *                 48 8d 05 …  1: lea table(%rip), %rax
 *                 48 63 3c b8    movslq (%rax,%rdi,4), %rdi
 *                 48 01 f8       add %rdi, %rax
 *                 ff e0          jmp *%rax
 *                 5b          2: pop %rbx
 *                 c3             ret
 *      worded:    53             push %rbx               its second is the value of a pointer
 *                 89 f8       1: mov %edi, %eax
 *                 ff c0          inc %eax
 *                 5b             pop %rbx
 *                 c3             ret
 *      before:    7? ??          jne over's second       short branches of neighbours
 *      over:      53             push %rbx
 *                 89 f8       1: mov %edi, %eax
 *                 ff c0          inc %eax
 *                 5b             pop %rbx
 *                 c3             ret
 *      under:     as over, and behind it
 *      after:     eb ??          jmp under's second
 *      crossing:  as over, its second byte on another page
 *      returned:  ff d6          call *%rsi              returns behind the first byte of a jump
 *                 90 90 90 c3
 *      chanced:   as over; what looks like branches into it are numbers
 *      bystander: 48 b8 90 e9 …  movabs $…, %rax         of a function
 *                 c3             ret
 *                 cc cc cc cc …                          behind bytes that make it no branch
 *      faults:    50             push %rax               a handler of SIGSEGV is run at the second
 *                 8b 07          mov (%rdi), %eax
 *                 5a             pop %rdx
 *                 90             nop
 *                 c3             ret */
__asm__(".text\n"
        ".macro function name\n.globl \\name\n.type \\name, @function\n\\name:\n.endm\n"
        ".macro ends name\n.size \\name, . - \\name\n.p2align 4\n.endm\n"
        "function tiny\nxor %eax, %eax\nret\nends tiny\n"
        "function looping\nxor %eax, %eax\n1: inc %eax\ncmp %edi, %eax\njl 1b\nret\nends looping\n"
        "function entered\npush %rbx\n.hidden behind\nbehind: mov %edi, %eax\ninc %eax\npop %rbx\nret\nends entered\n"
        "function enters\npush %rbx\n.skip 200, 0x90\njmp behind\nends enters\n"
        "function tabled\npush %rbx\n1: lea table(%rip), %rax\nmovslq (%rax,%rdi,4), %rdi\nadd %rdi, %rax\njmp *%rax\n"
        "2: pop %rbx\nret\nends tabled\n"
        ".pushsection .rodata\n.p2align 2\ntable: .long 2b - table, 1b - table\n.popsection\n"
        "function worded\npush %rbx\n3: mov %edi, %eax\ninc %eax\npop %rbx\nret\nends worded\n"
        ".pushsection .data.rel.ro,\"aw\"\n.p2align 3\n.quad 3b\n.popsection\n"
        "function before\ntest %edi, %edi\njne 1f\nret\nends before\n"
        "function over\npush %rbx\n1: mov %edi, %eax\ninc %eax\npop %rbx\nret\nends over\n"
        ".skip 200, 0xcc\n"
        "function under\npush %rbx\n2: mov %edi, %eax\ninc %eax\npop %rbx\nret\nends under\n"
        "function after\npush %rbx\njmp 2b\nends after\n"
        ".skip 200, 0xcc\n"
        ".p2align 12\n.skip 4095, 0xcc\n"
        "function crossing\npush %rbx\nmov %edi, %eax\ninc %eax\npop %rbx\nret\nends crossing\n"
        "function returned\ncall *%rsi\nnop\nnop\nnop\nret\nends returned\n"
        "function chanced\npush %rbx\n4: mov %edi, %eax\ninc %eax\npop %rbx\nret\nends chanced\n"
        ".skip 200, 0xcc\n.long 4b - . - 4\n.skip 200, 0xcc\n"
        "function bystander\n.byte 0x48, 0xb8, 0x90, 0xe9\n.long 4b - . - 4\n.short 0\nret\nends bystander\n"
        "function faults\npush %rax\nmov (%rdi), %eax\npop %rdx\nnop\nret\nends faults\n");
