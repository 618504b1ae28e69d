// SPDX-License-Identifier: MIT
//
// Linkers, --gc-sections, COMDAT functions of two units, weak and strong
// definitions, strip, static linking.  A failure means that a linker dropped a
// live record, kept one whose code is gone, or joined tables wrongly.
#include "../../descriptors.h"
#include "shared.h"
#include <cstring>
#include <multiverse.h>

MV int mode;
MV int (*pointer)(int);

MV int live(int x) { return mode ? x + 1 : x; }
MV int dead_function(int x) { return mode ? x * 1234567 : x; }
MV int dead_switch;
MV int dead_too() { return dead_switch; }
static int twice(int x) { return 2 * x; }
int other_inline(int x);
int other_small(int x);
int other_pointer(int x);
extern "C" MV int weak_or_strong(int x);
extern "C" int call_weak(int x);

int main()
{
    descriptors_read();
    pointer = twice;
    for (int i = 0; i < 2; i++) {
        mode = i;
        auto v = (int (*)(int))variant_of((void *)live);
        CHECK((void *)v != (void *)live && v(3) == live(3));
        auto w = (int (*)(int))variant_of((void *)comdat);
        CHECK((void *)w != (void *)comdat && w(3) == comdat(3));
        CHECK(other_inline(3) == comdat(3));
        CHECK(weak_or_strong(1) == (i ? 11 : 21) && call_weak(1) == weak_or_strong(1));
        auto s = (int (*)(int))variant_of((void *)weak_or_strong);
        CHECK((void *)s != (void *)weak_or_strong && s(1) == weak_or_strong(1));
    }
    CHECK(pointer(4) == 8 && other_pointer(4) == 9);
#ifndef __clang__ /* its plugin leaves pointers alone, and records no calls */
    const found_function *p = find_function(&pointer);
    CHECK(p && p->pointer == (void **)&pointer && p->n_sites >= 2);
    CHECK(((int (*)(int))p->body)(5) == 10);
    CHECK(find_function((void *)comdat)->n_sites >= 3);
    CHECK(find_function((void *)weak_or_strong)->n_sites >= 2);
#endif
    unsigned w, f;
    const char *n;
    CHECK(find_switch(&mode, &w, &f, &n) && !strcmp(n, "mode") && (f & 4));
    /* Calls in each unit, whichever unit's function is there. */
    unsigned char before[3][5];
    mode = 0;
    CHECK(small(4) == 8 && other_small(4) == 9);
    for (int i = 0; i < 3; i++)
        if (inline_call((void *)small, i))
            memcpy(before[i], inline_call((void *)small, i), 5);
#if defined __OPTIMIZE__ && !defined __clang__
    CHECK(inline_call((void *)small, 2));
#endif
    /* The run time finds the same. */
    mode = 1;
    CHECK(multiverse_commit() >= 3 && multiverse_is_committed((void *)comdat) == 1);
    mode = 0;
    CHECK(small(4) == 12 && other_small(4) == 13);
    for (int i = 0; i < 3; i++)
        if (const unsigned char *site = inline_call((void *)small, i))
            CHECK(memcmp(site, before[i], 5));
#ifndef __clang__
    CHECK(!inline_call((void *)small, 0) || multiverse_info_fn((void *)small)->n_callsites >= 6);
#endif
    CHECK(live(3) == 4 && other_inline(3) == 6 && weak_or_strong(1) == 11);
    printf("%u records, %u sites, dead function %s\n", count_records(), count_sites(),
           find_named("dead_function") ? "kept" : "dropped");
    return 0;
}
