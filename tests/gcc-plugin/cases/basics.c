/* SPDX-License-Identifier: MIT
 *
 * Every kind of switch, every value: a variant computes what the generic does.
 * A failure means that a read was replaced wrongly, that a guard names the wrong
 * values, or that a descriptor is broken.
 * compilers: gcc g++
 */
#include "../descriptors.h"
#include <stdbool.h>
#include <string.h>

#define MV __attribute__((multiverse))

MV bool flag;
MV unsigned char octet;
MV signed char small;
MV short half;
MV unsigned wide;
MV long long big;
MV unsigned long long ubig;
enum mode { FAST = -2, PLAIN = 0, SLOW = 7 };
MV enum mode mode;
#ifdef __cplusplus /* evaluates a parenthesised list before the plugin sees it */
__attribute__((multiverse("values", 1, 3, 5))) unsigned chosen;
#else
__attribute__((multiverse(("values", 1, 3, 5)))) unsigned chosen;
#endif
__attribute__((multiverse("values", -1, 4))) int bare;
static MV int hidden;
__attribute__((multiverse("tracked"))) bool tracked;

volatile int effects;

MV int f_flag(int x) { return flag ? x + 1 : x - 1; }
MV int f_not(void) { if (!octet) return 1; return 2; }
MV int f_small(void) { if (small == -1) return 11; if (small < -5) return 12; return 13; }
MV int f_half(int x) { switch (half) { case -3: return x; case 4: return x * 2; case 30000: return 3; } return 4; }
MV int f_wide(void) { if (wide > 10) return 1; return wide == 0xffffffffu ? 2 : 3; }
MV int f_big(void) { return big == 0x123456789abcLL ? 1 : big == -0x123456789abcLL ? 2 : 3; }
MV int f_ubig(void) { return ubig == 0xffffffffffffffffULL ? 1 : ubig == 0x8000000000000000ULL ? 2 : 3; }
MV int f_mode(void) { return mode == FAST ? 1 : mode == SLOW ? 2 : 3; }
MV unsigned f_chosen(void) { return chosen; }
MV int f_flat(void) { return bare; }
MV int f_hidden(int x) { effects++; return hidden ? x * 3 : x * 5; }
MV int f_two(int x) { int r = x; if (flag) r += 10; if (hidden == 2) r += 100; return r; }
MV int f_tracked(void) { return (flag ? 1 : 0) + (tracked ? 2 : 0); }
static inline __attribute__((always_inline)) int helper(int x) { return octet == 9 ? x + 90 : x; }
MV int f_inlined(int x) { return helper(x) + 1; }
MV double f_double(double d) { return flag ? d * 2 : d / 2; }
MV void f_void(void) { if (flag) effects += 5; }
static MV int f_static(int x) { return flag ? x : -x; }
struct large { long a[9]; };
MV struct large f_large(int x) { struct large l; memset(&l, x, sizeof l); if (flag) l.a[3] = 3; return l; }
MV int f_none(int x) { return x + 1; }

#define SAME(fn, ...) \
    do { \
        __typeof__(&fn) v_ = (__typeof__(&fn))variant_of((void *)fn); \
        CHECK(v_(__VA_ARGS__) == fn(__VA_ARGS__)); \
    } while (0)
#define BOUND(fn) CHECK(variant_of((void *)fn) != (void *)fn)
#define UNBOUND(fn) CHECK(variant_of((void *)fn) == (void *)fn)

int main(void)
{
    const unsigned how = ~32u; /* not: by a GOT slot or directly */

    descriptors_read();
    for (int i = 0; i < 2; i++) {
        flag = i;
        BOUND(f_flag); SAME(f_flag, 7);
        SAME(f_double, 3.5);
        SAME(f_static, 4);
        struct large (*large)(int) = (struct large (*)(int))variant_of((void *)f_large);
        struct large a = large(5), b = f_large(5);
        CHECK(!memcmp(&a, &b, sizeof a));
        int before = effects;
        ((void (*)(void))variant_of((void *)f_void))();
        CHECK(effects == before + (i ? 5 : 0));
    }
    for (int i = -1; i < 256; i++) {
        octet = i;
        SAME(f_not); SAME(f_inlined, 4);
        small = i; SAME(f_small);
    }
    octet = 0; BOUND(f_not);
    octet = 1; BOUND(f_not);
    octet = 9; BOUND(f_inlined);
    octet = 8; BOUND(f_inlined); SAME(f_inlined, 4);
    small = -1; BOUND(f_small); CHECK(((int (*)(void))variant_of((void *)f_small))() == 11);
    for (int i = -10; i < 10; i++) { half = i; SAME(f_half, 3); wide = i; SAME(f_wide); bare = i; SAME(f_flat); }
    half = 30000; BOUND(f_half); SAME(f_half, 1);
    half = -3; BOUND(f_half);
    wide = 0xffffffffu; BOUND(f_wide); SAME(f_wide);
    big = 0x123456789abcLL; BOUND(f_big); SAME(f_big);
    big = -0x123456789abcLL; BOUND(f_big); SAME(f_big);
    big = 0x56789abc; SAME(f_big); BOUND(f_big);
    ubig = ~0ULL; BOUND(f_ubig); SAME(f_ubig);
    ubig = 1ULL << 63; BOUND(f_ubig); SAME(f_ubig);
    mode = FAST; BOUND(f_mode); SAME(f_mode);
    mode = PLAIN; BOUND(f_mode); SAME(f_mode);
    mode = SLOW; BOUND(f_mode); SAME(f_mode);
    mode = (enum mode)3; UNBOUND(f_mode);
    for (unsigned i = 0; i < 8; i++) {
        chosen = i; SAME(f_chosen);
        CHECK((variant_of((void *)f_chosen) != (void *)f_chosen) == (i == 1 || i == 3 || i == 5));
    }
    bare = -1; BOUND(f_flat); bare = 4; BOUND(f_flat); bare = 0; UNBOUND(f_flat);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 2; k++) {
            hidden = i; flag = k;
            SAME(f_hidden, 4); SAME(f_two, 1);
        }
    hidden = 2; BOUND(f_two);

    /* The committed value stays in force when the switch changes. */
    flag = true;
    int (*f)(int) = (int (*)(int))variant_of((void *)f_flag);
    flag = false;
    CHECK(f(7) == 8);

    const struct found_function *t = find_function((void *)f_tracked);
    CHECK(t && t->n_variants == 2 * 3); /* flag x (unbound, 0, 1) */
    const struct found_function *none = find_function((void *)f_none);
    CHECK(none && none->n_variants == 0);

    unsigned width, flags;
    const char *name;
    CHECK(find_switch(&flag, &width, &flags, &name) && width == 1 && (flags & how) == 12 && !strcmp(name, "flag"));
    CHECK(find_switch(&small, &width, &flags, &name) && width == 1 && (flags & how) == 5);
    CHECK(find_switch(&mode, &width, &flags, &name) && width == 4 && (flags & how) == 5);
    CHECK(find_switch(&hidden, &width, &flags, &name) && flags == (5 | 32) && !strcmp(name, "hidden"));
    CHECK(find_switch(&tracked, &width, &flags, &name) && (flags & how) == 14);
    return 0;
}
