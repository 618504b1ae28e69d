/* SPDX-License-Identifier: MIT
 *
 * Bodies that are hard to copy: computed goto, asm goto, nested functions,
 * alloca and VLAs, setjmp, variadic functions, static locals, labels in static
 * tables, asm that defines symbols, writes of the switch.  A failure means that
 * a copy behaves differently from its generic; where no copy can be made there
 * must be none.
 * not for: -masm=intel
 */
#include "../descriptors.h"
#include <multiverse.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#define MV __attribute__((multiverse))
MV int sw;

MV int goto_computed(int n)
{
    void *next = n > 2 ? &&big : &&small;
    if (sw) n *= 2;
    goto *next;
big:
    return n + 1000;
small:
    return n;
}
MV int goto_table(int n)
{
    static const void *const table[] = {&&zero, &&one, &&two};
    if (sw) n = 2 - n;
    goto *table[n];
zero: return 10;
one: return 11;
two: return 12;
}
MV int goto_local_table(int n)
{
    const void *table[] = {&&zero, &&one, &&two};
    if (sw) n = 2 - n;
    goto *table[n];
zero: return 10;
one: return 11;
two: return 12;
}
MV int asm_goto(int n)
{
    __asm__ goto("cmp %0, %1\n\tjg %l2" : : "r"(n), "r"(3) : "cc" : less);
    return sw ? 100 : 200;
less:
    return sw ? 1 : 2;
}
MV int asm_label(int n)
{
    __asm__ volatile("asm_label_here: nop");
    return sw ? n : -n;
}
MV int asm_unique(int n)
{
    int r;
    __asm__ volatile("xor %0, %0\n.Lunique%=: inc %0\n\tcmp %1, %0\n\tjl .Lunique%=" : "=&r"(r) : "r"(n) : "cc");
    return sw ? r : -r;
}
MV int asm_numeric(int n)
{
    __asm__ volatile("test %0, %0; jz 1f; add $5, %0; 1:" : "+r"(n) : : "cc");
    return sw ? n : -n;
}
MV int nested(int n)
{
    int k = 3;
    int inner(int x) { k++; return x + k + sw; }
    return sw ? inner(n) + k : k;
}
MV int nested_goto(int n)
{
    __label__ out;
    void inner(void) { if (n > 2) goto out; }
    inner();
    return sw ? 1 : 2;
out:
    return sw ? 3 : 4;
}
MV int allocates(int n)
{
    char *p = __builtin_alloca(n + sw), vla[n + 1];
    memset(p, 1, n + sw);
    memset(vla, sw ? 2 : 3, n + 1);
    return p[0] + vla[n];
}
static jmp_buf env;
MV int jumps(int n)
{
    volatile int k = n;
    if (setjmp(env)) return k + (sw ? 10 : 20);
    k++;
    longjmp(env, 1);
}
MV int variadic(int n, ...)
{
    va_list ap;
    int s = 0;
    va_start(ap, n);
    while (n--) s += va_arg(ap, int) * (sw ? 2 : 1);
    va_end(ap);
    return s;
}
MV int counts(void) { static int calls; return sw ? ++calls : calls++; }
MV int writes(int n) { int before = sw; sw = n; return before * 10 + sw; }
MV int hands_out(int *(*keep)(int *)) { int *p = keep(&sw); *p = 4; return sw; }
MV int volatile_read(void) { return *(volatile int *)&sw; }
MV int relaxed(void) { return __atomic_load_n(&sw, __ATOMIC_RELAXED) ? 5 : 6; }
MV int acquire(void) { return __atomic_load_n(&sw, __ATOMIC_ACQUIRE) ? 5 : 6; }
MV __attribute__((target("avx2"))) int with_target(int n) { return sw ? n : n + 1; }
MV __attribute__((optimize("O3"))) int with_optimize(int n) { int s = 0; for (int i = 0; i < n; i++) s += sw ? i : 1; return s; }
MV __attribute__((hot)) int hot(int n) { return sw ? n : 2; }
MV __attribute__((cold)) int cold(int n) { return sw ? n : 2; }
MV __attribute__((section(".text.mine"))) int placed(int n) { return sw ? n : 3; }
MV __attribute__((aligned(64))) int aligned(int n) { return sw ? n : 4; }
static int constructed;
MV __attribute__((constructor)) void construct(void) { constructed += sw ? 100 : 1; }
MV __attribute__((regparm(0))) long vector_args(__attribute__((vector_size(16))) long v) { return sw ? v[0] : v[1]; }
MV int cases_to_table(void) { switch (sw) { case 0: return 4; case 1: return 91; case 2: return 17; case 3: return 33; case 4: return 2; } return -1; }
extern inline __attribute__((gnu_inline)) int not_here(int n);

static int *give(int *p) { return p; }
#define EACH(fn, ...) \
    do { \
        __typeof__(&fn) v_ = (__typeof__(&fn))variant_of((void *)fn); \
        CHECK(v_ != fn); \
        CHECK(v_(__VA_ARGS__) == fn(__VA_ARGS__)); \
    } while (0)
#define GENERIC_ONLY(fn) CHECK(find_function((void *)fn)->n_variants == 0)

int main(void)
{
    descriptors_read();
    CHECK(constructed == 1);
    for (int i = 0; i < 2; i++) {
        sw = i;
        for (int n = 0; n < 6; n++) {
            EACH(goto_computed, n);
            EACH(asm_goto, n);
            EACH(asm_unique, n);
            EACH(asm_numeric, n);
            EACH(allocates, n + 1);
            EACH(jumps, n);
            EACH(variadic, 3, n, 5, 6);
            EACH(with_optimize, n);
            EACH(nested, n);
        }
        for (int n = 0; n < 3; n++)
            CHECK(((__typeof__(&goto_local_table))variant_of((void *)goto_local_table))(n) == goto_local_table(n));
        EACH(relaxed); EACH(hot, 7); EACH(cold, 7); EACH(placed, 7); EACH(aligned, 7);
        int before = counts(), mine = ((int (*)(void))variant_of((void *)counts))();
        CHECK(mine == before + (i ? 1 : 1));
    }
    for (sw = -1; sw < 6; sw++) {
        CHECK(((int (*)(void))variant_of((void *)cases_to_table))() == cases_to_table());
        CHECK(variant_of((void *)cases_to_table) != (void *)cases_to_table);
    }
    GENERIC_ONLY(goto_table); GENERIC_ONLY(asm_label); GENERIC_ONLY(nested_goto);
    GENERIC_ONLY(writes); GENERIC_ONLY(hands_out); GENERIC_ONLY(volatile_read); GENERIC_ONLY(acquire);
    sw = 3; CHECK(writes(4) == 34 && sw == 4 && hands_out(give) == 4);
    for (int i = 0; i < 2; i++) {
        sw = i;
        CHECK(multiverse_commit() >= 0);
        CHECK(goto_table(0) == (i ? 12 : 10) && nested_goto(5) == (i ? 3 : 4) && asm_label(2) == (i ? 2 : -2));
        sw = !i;
        CHECK(volatile_read() == !i && acquire() == (i ? 6 : 5) && relaxed() == (i ? 5 : 6));
    }
    return 0;
}
