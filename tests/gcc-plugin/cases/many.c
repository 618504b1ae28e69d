/* SPDX-License-Identifier: MIT
 *
 * Twelve Boolean switches, a switch of many values, and a function bound to two
 * of its switches: the number of variants stays within the cap, compilation is
 * quick, and every combination still computes the right thing.  A failure means
 * an explosion of clones or a combination that is bound wrongly.
 * compilers: gcc g++
 */
#include "../descriptors.h"
#include <multiverse.h>
#include <stdbool.h>
#define MV __attribute__((multiverse))
MV bool s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11;
bool *const all[] = {&s0, &s1, &s2, &s3, &s4, &s5, &s6, &s7, &s8, &s9, &s10, &s11};
MV int twelve(int x)
{
    if (s0) x += 1; if (s1) x ^= 2; if (s2) x += 4; if (s3) x ^= 8; if (s4) x += 16; if (s5) x ^= 32;
    if (s6) x += 64; if (s7) x ^= 128; if (s8) x += 256; if (s9) x ^= 512; if (s10) x += 1024; if (s11) x ^= 2048;
    return x;
}
__attribute__((multiverse("bind", "s3", "s7"))) int bound(int x)
{
    return (s1 ? x : 2 * x) + (s3 ? 100 : 200) + (s7 ? 1000 : 2000);
}
MV int large;
MV int hundred(int x)
{
    switch (large) {
#define C(n) case n: return x * n + 1;
#define T(n) C(n##0) C(n##1) C(n##2) C(n##3) C(n##4) C(n##5) C(n##6) C(n##7) C(n##8) C(n##9)
    T(1) T(2) T(3) T(4) T(5) T(6) T(7) T(8) T(9) T(10)
    }
    return x;
}
int main(void)
{
    descriptors_read();
    const struct found_function *f = find_function((void *)twelve);
    CHECK(f && f->n_variants == 64);
    CHECK(find_function((void *)bound)->n_variants == 4);
    CHECK(find_function((void *)hundred)->n_variants <= 64 && find_function((void *)hundred)->n_variants > 0);
    for (unsigned bits = 0; bits < 4096; bits += 37) {
        for (int i = 0; i < 12; i++)
            *all[i] = bits >> i & 1;
        CHECK(((int (*)(int))variant_of((void *)twelve))(bits) == twelve(bits));
        CHECK(((int (*)(int))variant_of((void *)bound))(bits) == bound(bits));
        CHECK(variant_of((void *)twelve) != (void *)twelve);
    }
    for (large = 0; large < 120; large++)
        CHECK(((int (*)(int))variant_of((void *)hundred))(3) == hundred(3));
    CHECK(multiverse_commit() >= 0 && multiverse_revert() >= 0);
    return 0;
}
