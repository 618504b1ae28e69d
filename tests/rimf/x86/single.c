/* SPDX-License-Identifier: MIT
 *
 * Functions of a single instruction: what stands for a call of one does what the function does,
 * run here; everything else is left a call.  A failure means that a program computes with
 * other values, or that a fault, the stack or a debugger would tell the difference.
 */
#include "rimf/x86/single.h"

#include "../../check.h"

#include <string.h>
#include <sys/mman.h>

static uint8_t *page;

struct registers {
    unsigned long rax, rdi, rsi, r8, flags;
};

/* Runs the code with registers of its own. */
static struct registers run(const uint8_t *code, size_t size)
{
    register unsigned long r8 __asm__("r8") = 0x8888888888888888;
    unsigned long rax = 0x1111111111111111, rdi = 0x7777777777777777, rsi = 0x6666666666666666, flags;

    CHECK(mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0);
    memcpy(page, code, size);
    page[size] = 0xc3;
    CHECK(mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0);
    __asm__ volatile("sub $256, %%rsp\n\tcmp %%rax, %%rax\n\tcall *%[page]\n\tpushf\n\tpop %[flags]\n\t"
                     "add $256, %%rsp"
                     : "+a"(rax), "+D"(rdi), "+S"(rsi), "+r"(r8), [flags] "=&r"(flags)
                     : [page] "r"(page)
                     : "rcx", "rdx", "r9", "r10", "r11", "cc", "memory");
    return (struct registers){rax, rdi, rsi, r8, flags};
}

#define TAKEN(bytes) taken((const uint8_t *)(bytes), sizeof(bytes) - 1)
#define LEFT(bytes) left((const uint8_t *)(bytes), sizeof(bytes) - 1)

static void taken(const uint8_t *function, size_t size)
{
    uint8_t made[SINGLE_CALL];
    struct registers there, here;

    CHECK(single_read(function, size, made));
    CHECK(single_stands(made));
    for (size_t room = 0; room < size; room++)
        CHECK(!single_read(function, room, made));
    there = run(function, size);
    here = run(made, sizeof made);
    CHECK(memcmp(&there, &here, sizeof here) == 0);
}

static void left(const uint8_t *function, size_t size)
{
    uint8_t made[SINGLE_CALL] = {1, 2, 3, 4, 5};

    CHECK(!single_read(function, size, made));
    CHECK(memcmp(made, "\1\2\3\4\5", sizeof made) == 0);
}

static void functions(void)
{
    TAKEN("\xb8\x01\x00\x00\x00\xc3");                 /* mov $1, %eax */
    TAKEN("\xb8\xff\xff\xff\xff\xc3");
    TAKEN("\x31\xc0\xc3");                             /* xor %eax, %eax */
    TAKEN("\x33\xc0\xc3");
    TAKEN("\xf3\x0f\x1e\xfa\x31\xc0\xc3");             /* endbr64 */
    TAKEN("\x48\x89\xf8\xc3");                         /* mov %rdi, %rax */
    TAKEN("\x8b\xc7\xc3");                             /* mov %edi, %eax */
    TAKEN("\x4c\x89\xc0\xc3");                         /* mov %r8, %rax */
    TAKEN("\x49\x89\xf0\xc3");                         /* mov %rsi, %r8 */

    LEFT("\xc3");                                      /* nothing: debuggers wait there */
    LEFT("\xf3\x0f\x1e\xfa\xc3");
    LEFT("\xb8\x01\x00\x00\x00\x90");                  /* runs on */
    LEFT("\xb8\x01\x00\x00\x00\xc2\x08\x00");          /* takes from the stack */
    LEFT("\x41\xb8\x01\x00\x00\x00\xc3");              /* six bytes */
    LEFT("\x48\xb8\x01\x02\x03\x04\x05\x06\x07\x08\xc3");
    LEFT("\x66\xb8\x01\x00\xc3");                      /* sixteen bits */
    LEFT("\x8b\x07\xc3");                              /* mov (%rdi), %eax */
    LEFT("\x8b\x47\xc0\xc3");                          /* mov -64(%rdi), %eax */
    LEFT("\x89\x07\xc3");                              /* mov %eax, (%rdi) */
    LEFT("\x48\x8b\x04\x24\xc3");                      /* mov (%rsp), %rax */
    LEFT("\x48\x89\xe0\xc3");                          /* mov %rsp, %rax */
    LEFT("\x48\x8b\xc4\xc3");
    LEFT("\x48\x89\xfc\xc3");                          /* mov %rdi, %rsp */
    LEFT("\xbc\x01\x00\x00\x00\xc3");                  /* mov $1, %esp */
    LEFT("\x31\xe4\xc3");                              /* xor %esp, %esp */
    LEFT("\xe8\x01\x00\x00\x00\xc3");
    LEFT("\xe9\x01\x00\x00\x00\xc3");
    LEFT("\x0f\x0b\xc3");                              /* ud2 */
    LEFT("\x64\x8b\x07\xc3");                          /* thread-local */
    LEFT("\x31\xc0\x31\xff\xc3");                      /* two */
}

/* Calls, and what other passes leave, are not taken for one that was replaced. */
static void others(void)
{
    CHECK(!single_stands((const uint8_t *)"\xe8\x01\x00\x00\x00"));
    CHECK(!single_stands((const uint8_t *)"\xe9\x01\x00\x00\x00"));
    CHECK(!single_stands((const uint8_t *)"\x0f\x1f\x44\x00\x00"));
    CHECK(!single_stands((const uint8_t *)"\x2e\x2e\x2e\x2e\x2e"));
    CHECK(!single_stands((const uint8_t *)"\x2e\x2e\x31\xc0\xcc"));
    CHECK(!single_stands((const uint8_t *)"\xbc\x01\x00\x00\x00"));
}

int main(void)
{
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    functions();
    others();
    return 0;
}
