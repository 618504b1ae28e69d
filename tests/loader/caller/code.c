/* SPDX-License-Identifier: MIT
 *
 * Forms of a function that passes its third or fourth argument on, as compilers write them.  None of them runs.
 */
#include "loader/caller/private.h"

#include "rimf/x86/registers.h"

#include "../../check.h"

void asked(void), asked_end(void);
__asm__("asked: ret\nasked_end:\n");

/* FORM(name, code): a function, and the address behind it. */
#define FORM(name, code) \
    void name(void), name##_end(void); \
    __asm__(#name ": push %rbp\n mov %rsp, %rbp\n" code "\n call *%rax\n" #name "_end:\n")

/* Between them is a call, since nothing in a register that it may change counts. */
#define CALL_OTHER "call *%rcx\n"
#define ASK "call asked\n"

FORM(in_register, "mov %rdx, %r13\n" CALL_OTHER "mov %r13, %rdi\n" ASK);
FORM(at_once, "mov %rdx, %rbx\n mov %rdx, %rdi\n" ASK "mov %rbx, %rdi\n" ASK);
FORM(near_slot, "mov %rdi, %r12\n mov %rdx, -8(%rbp)\n mov %r8d, %r15d\n" CALL_OTHER "mov -8(%rbp), %rdi\n lea -32(%rbp), %rsi\n" ASK);
FORM(far_slot, "mov %rdx, -0xe8(%rbp)\n" CALL_OTHER "mov -0xe8(%rbp), %rdi\n" ASK "mov -0xe8(%rbp), %rdi\n" ASK);

FORM(fourth, "mov %rcx, %rbx\n mov %rdx, %r13\n" CALL_OTHER "mov %rbx, %rdi\n" ASK "mov %rbx, %rdi\n" ASK);
FORM(fourth_hashed, "mov %rcx, %rbx\n movzbl (%rdx), %ecx\n shl $4, %rcx\n" CALL_OTHER "mov %rbx, %rdi\n" ASK);
FORM(fourth_slot, "mov %rcx, -0x88(%rbp)\n" CALL_OTHER "mov -0x88(%rbp), %rdi\n" ASK);

FORM(not_kept, CALL_OTHER "mov %r13, %rdi\n" ASK);
FORM(another_register, "mov %rdx, %r13\n" CALL_OTHER "mov %r14, %rdi\n" ASK);
FORM(another_slot, "mov %rdx, -0xe8(%rbp)\n" CALL_OTHER "mov -0xe0(%rbp), %rdi\n" ASK);
FORM(half_a_slot, "mov %rdx, -8(%rbp)\n" CALL_OTHER "mov -8(%rbp), %edi\n" ASK);
FORM(of_another_base, "mov %rdx, -8(%r13)\n" CALL_OTHER "mov -8(%r13), %rdi\n" ASK);
FORM(changed_before, "mov $0, %edx\n mov %rdx, -8(%rbp)\n" CALL_OTHER "mov -8(%rbp), %rdi\n" ASK);
FORM(changed_behind, "mov %rdx, -8(%rbp)\n" CALL_OTHER "movq $0, -8(%rbp)\n mov -8(%rbp), %rdi\n" ASK);
FORM(changed_by_address, "mov %rdx, -8(%rbp)\n lea -8(%rbp), %rdi\n" CALL_OTHER "mov -8(%rbp), %rdi\n" ASK);
FORM(changed_by_vector, "mov %rdx, -8(%rbp)\n" CALL_OTHER "movaps %xmm0, -8(%rbp)\n mov -8(%rbp), %rdi\n" ASK);
FORM(changed_last, "mov %rdx, -8(%rbp)\n" CALL_OTHER "mov -8(%rbp), %rdi\n mov (%rdi), %rdi\n" ASK);
FORM(one_of_two, "mov %rdx, -8(%rbp)\n" CALL_OTHER "mov -8(%rbp), %rdi\n" ASK "mov %rax, %rdi\n" ASK);

static const struct {
    void (*at)(void), (*end)(void);
    unsigned asks, argument;
} forms[] = {
#define ROW(name, asks) {name, name##_end, asks, RDX}
#define ROW_4(name, asks) {name, name##_end, asks, RCX}
    ROW(in_register, 1), ROW(at_once, 2), ROW(near_slot, 1), ROW(far_slot, 2),
    ROW_4(fourth, 2), ROW_4(fourth_hashed, 1), ROW_4(fourth_slot, 1), ROW(fourth, 0), ROW_4(in_register, 0),
    ROW(not_kept, 0), ROW(another_register, 0), ROW(another_slot, 0), ROW(half_a_slot, 0), ROW(of_another_base, 0),
    ROW(changed_before, 0), ROW(changed_behind, 0), ROW(changed_by_address, 0), ROW(changed_by_vector, 0),
    ROW(changed_last, 0), ROW(one_of_two, 0),
};

int main(void)
{
    struct call_way way = {(uintptr_t)asked, 0};

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct caller_function function = {(uintptr_t)forms[i].at, (uintptr_t)forms[i].end - (uintptr_t)forms[i].at};

        CHECK(caller_asks(&function, way, forms[i].argument) == forms[i].asks, "form %zu", i);
    }
    return 0;
}
