/* SPDX-License-Identifier: MIT
 *
 * A caller must know nothing of the generic's body: not which registers it
 * leaves alone, not that it returns what it returns, uses what it uses, or has
 * no effect; for the body may be exchanged.  A failure means that the compiler carried a
 * fact from the generic to its callers.
 * compilers: gcc g++
 * not for: -masm=intel
 * not for clang: -fsanitize=thread
 */
#include "../descriptors.h"
#include <multiverse.h>
#define MV __attribute__((multiverse))

MV int sw;
int seen;

/* The variant for 1 clobbers every caller-saved register, the generic's other
 * branch none. */
static MV void clobbers(void)
{
    if (sw)
        __asm__ volatile("xor %%eax,%%eax; mov %%rax,%%rcx; mov %%rax,%%rdx; mov %%rax,%%rsi;"
                         "mov %%rax,%%rdi; mov %%rax,%%r8; mov %%rax,%%r9; mov %%rax,%%r10;"
                         "mov %%rax,%%r11; pxor %%xmm0,%%xmm0; pxor %%xmm7,%%xmm7" ::
                         : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "xmm0", "xmm7", "memory");
}
/* Clobbers hardly any register; its replacement all that a function may. */
static MV void quiet(void) { seen++; }
static MV int constant(void) { return 7; }          /* a return value to propagate */
static MV int narrow(int x) { return x & 1; }       /* a range */
static MV int no_effect(int x) { return x + 1; }    /* pure or const */
static MV int unused(int a, int b) { return a; }    /* an argument not used */
static MV int same_argument(int x) { return x * 2; }/* always called with 21 */
static MV void stores_nothing(int *p) { (void)p; }  /* does not change *p */
static MV void never_throws(void) { seen++; }
/* Two that do the same are two. */
MV int twin_a(int x) { return x * 17 + 3; }
MV int twin_b(int x) { return x * 17 + 3; }

__attribute__((noinline)) int keeps_live(int a, int b, int c, int d, int e, int f)
{
    clobbers();
    return a + 10 * b + 100 * c + 1000 * d + 10000 * e + 100000 * f;
}
__attribute__((noinline)) double keeps_floats(double x, double y)
{
    clobbers();
    return x * 2 + y;
}

__attribute__((noinline)) int keeps_more_live(int a, int b, int c, int d, int e, int f)
{
    quiet();
    return a + 10 * b + 100 * c + 1000 * d + 10000 * e + 100000 * f;
}

/* Replacements in the test's own hand. */
void other_quiet(void)
{
    __asm__ volatile("xor %%eax,%%eax; mov %%rax,%%rcx; mov %%rax,%%rdx; mov %%rax,%%rsi;"
                     "mov %%rax,%%rdi; mov %%rax,%%r8; mov %%rax,%%r9; mov %%rax,%%r10;"
                     "mov %%rax,%%r11" : : : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory");
}
int other_constant(void) { return 1000; }
int other_narrow(int x) { return x + 500; }
int other_effect(int x) { seen += x; return x; }
int other_unused(int a, int b) { return b; }
int other_argument(int x) { return x + 1; }
void other_stores(int *p) { *p = 99; }

/* Writes a jump into the pad of a variation point, as a commit does. */
#include <string.h>
#include <sys/mman.h>
static void redirect(const char *name, void *to)
{
    const struct found_function *f = find_named(name);
    CHECK(f);
    char *pad = (char *)f->pad, code[5] = {(char)0xe9};
    char *page = (char *)((unsigned long)pad & ~0xffful);
    int rel = (int)((char *)to - (pad + 5));
    memcpy(code + 1, &rel, 4);
    CHECK(!mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC));
    memcpy(pad, code, 5);
}

__attribute__((noinline)) int read_back(void) { int v = 5; stores_nothing(&v); return v; }
__attribute__((noinline)) int compare(int x) { return narrow(x) > 1 ? 1 : 0; }
__attribute__((noinline)) int twice_no_effect(int x) { return no_effect(x) + no_effect(x); }

int main(void)
{
    descriptors_read();
    CHECK(find_named("twin_a") && find_named("twin_b"));
    CHECK((void *)twin_a != (void *)twin_b && twin_a(2) == twin_b(2));
    for (sw = 0; sw < 2; sw++) {
        CHECK(multiverse_commit() >= 0);
        CHECK(keeps_live(1, 2, 3, 4, 5, 6) == 654321);
        CHECK(keeps_floats(1.5, 4) == 7);
    }
    CHECK(multiverse_revert() >= 0);
    never_throws();
    CHECK(keeps_more_live(1, 2, 3, 4, 5, 6) == 654321);
    redirect("quiet", (void *)other_quiet);
    CHECK(keeps_more_live(1, 2, 3, 4, 5, 6) == 654321);
    CHECK(constant() == 7); redirect("constant", (void *)other_constant); CHECK(constant() == 1000);
    CHECK(!compare(9)); redirect("narrow", (void *)other_narrow); CHECK(compare(9));
    seen = 0;
    CHECK(twice_no_effect(4) == 10); redirect("no_effect", (void *)other_effect);
    twice_no_effect(4); CHECK(seen == 8);
    no_effect(2); CHECK(seen == 10);
    CHECK(unused(1, 2) == 1); redirect("unused", (void *)other_unused); CHECK(unused(1, 2) == 2);
    CHECK(same_argument(21) == 42); redirect("same_argument", (void *)other_argument); CHECK(same_argument(21) == 22);
    CHECK(read_back() == 5); redirect("stores_nothing", (void *)other_stores); CHECK(read_back() == 99);
    return 0;
}
