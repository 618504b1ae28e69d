/* SPDX-License-Identifier: MIT
 *
 * world.c: the kernel's stand-in.
 */
#include "kernel/linux/multiverse.h"
#include "mvld/descriptor.h"

#include "world.h"

int many __attribute__((multiverse("values", 0, 1))) = 1;
struct settings settings = {0};

MULTIVERSE __attribute__((noinline)) int take(int *lock)
{
    if (many)
        __atomic_fetch_add(lock, 1, __ATOMIC_SEQ_CST);
    return many;
}

MULTIVERSE __attribute__((noinline)) int level(void)
{
    return settings.level ? 10 : 20;
}

int call_take(int *lock)
{
    return take(lock) + 100;
}

static int doubled MULTIVERSE = 1;

static MULTIVERSE __attribute__((noinline)) int ask_doubled(void)
{
    return doubled;
}

int call_doubled(void)
{
    return ask_doubled() + 100;
}

/* Its callers contain its variants, and read the constant as an operand. */
static bool fast MULTIVERSE = false;
static int step __multiverse_constant = 3;

void set_inline(bool value, int constant)
{
    fast = value;
    step = constant;
}

static __multiverse_inline int steps(int n)
{
    return fast ? n * n : n / 7;
}

int call_inline(int n)
{
    return steps(n) + 100;
}

int read_step(void)
{
    return step + 100;
}

int call_level(void)
{
    return level() + 100;
}

int call_through(int *lock)
{
    int (*volatile pointer)(int *) = take;

    return pointer(lock) + 100;
}

__attribute__((section(".init.text"), noinline)) int call_from_init(int *lock)
{
    return take(lock) + 100;
}

/* Wherever in a word its calls would begin. */
#define CALL_AT(n) __asm__ volatile(".balign 8\n.skip " #n ", 0x90"); take(lock)

void call_everywhere(int *lock)
{
    CALL_AT(0); CALL_AT(1); CALL_AT(2); CALL_AT(3); CALL_AT(4); CALL_AT(5); CALL_AT(6); CALL_AT(7);
}

/* A table of operations, whose calls are asm. */

static int seven(void)
{
    return 7;
}

int eight(void)
{
    __asm__ volatile("" ::: "rcx"); /* two instructions: a call of it stays one */
    __asm__ volatile("xor %%ecx, %%ecx" ::: "rcx");
    return 8;
}

/* nopl 0(%rax,%rax): as the kernel's, where others put code. */
__asm__(".text\n.balign 16\n.globl nine\nnine:\n\t.byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n\tret\n\t.skip 16, 0xcc\n");

__asm__(".text\n.balign 16\n.globl ten\nten:\n\tmov $10, %eax\n\tret\n\t.skip 16, 0xcc\n");

/* As a kernel's code returns if a return would be mispredicted. */
__asm__(".text\n.balign 16\n.globl thunk\nthunk:\n\tret\n\t.skip 15, 0xcc\n"
        ".globl twelve\ntwelve:\n\tmov $12, %eax\n\t.byte 0xe9\n\t.long thunk - . - 4\n\t.skip 16, 0xcc\n");

struct operations operations = {.get = seven};

#define ANNOTATE_RETPOLINE_SAFE ""

__attribute__((used)) void stubs(void)
{
    MULTIVERSE_STUB(operations.get);
}

int call_operation(void)
{
    int result;

    __asm__ volatile("nop\n.balign 8\n.skip 6, 0x90\n" MULTIVERSE_CALL(operations.get) : "=a"(result) : : "rcx", "memory", "cc");
    return result;
}
