/* SPDX-License-Identifier: MIT
 *
 * library.c: functions in front of whose instructions code runs.  `looped` is made by hand: it keeps a value in the
 * red zone and flags over an instruction that can be displaced, and it has a head of short instructions.
 */
#include <alloca.h>
#include <string.h>

__asm__(".globl looped\n"
        ".type looped, @function\n"
        "looped:\n"
        "    .cfi_startproc\n"
        "    endbr64\n"
        "    push %rbx\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    .cfi_rel_offset %rbx, 0\n"
        "    mov %rdi, %rbx\n"
        "    xor %eax, %eax\n"
        "    movq $0x11, -8(%rsp)\n"          /* executed once */
        "    movq $0x22, -128(%rsp)\n"        /* once */
        "1:  add -8(%rsp), %rax\n"            /* n times */
        "    cmp $0x12345678, %rax\n"         /* n: the carry goes on */
        "    mov $0x1, %ecx\n"                /* n */
        "    adc $0x10000000, %rax\n"         /* n */
        "    sub -128(%rsp), %rax\n"
        "    lea 0x7(%rax,%rcx,8), %rax\n"    /* n */
        "    dec %rbx\n"
        "    jne 1b\n"
        "    pop %rbx\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    .cfi_restore %rbx\n"
        "    ret\n"
        "    .cfi_endproc\n"
        "    .size looped, .-looped\n");

int other(int x);

__attribute__((noinline, optimize("no-omit-frame-pointer"))) int framed(int n)
{
    char *room = alloca((size_t)n + 1);

    memset(room, n, (size_t)n + 1);
    return room[n] * other(n) + other(room[0]);
}

__attribute__((noinline)) int chosen(int n)
{
    switch (n) {
    case 0: return other(5) + 1000001;
    case 1: return other(6) ^ 1000002;
    case 2: return other(7) * 1000003;
    case 3: return other(8) - 1000004;
    case 4: return other(9) | 1000005;
    }
    return -1;
}

static volatile double factor = 1.5;

__attribute__((noinline)) double scaled(double a, long b, long c, long d, long e, double f)
{
    return (a * factor + (double)(b * 1000000007 + c * d)) / (f + (double)(e ^ 0x1234567));
}
