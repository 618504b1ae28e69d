// SPDX-License-Identifier: MIT
//
// C++ in three objects (matrix_cxx.py): an inline variation point, a template and a
// method come as COMDAT in each, statics of one name are each its own, exceptions go
// through variants across objects.
#include <multiverse.h>

#include <stdexcept>

#define MV __attribute__((multiverse))

extern __attribute__((multiverse("values", 0, 1, 2))) int level; // 0, 1 or 2, in a library
MV inline int shared(int x) { return level == 1 ? x + 1 : level == 2 ? x + 2 : x; }
template <typename T> MV T scaled(T x) { return level == 1 ? x * 10 : level == 2 ? x * 20 : x; }
struct Counter {
    int n;
    MV int step() { n += level == 1 ? 1 : level == 2 ? 2 : 0; return n; }
};
// Throws for level 2; what it throws passes through `between` of the other object.
MV int thrower(int x);
MV int between(int x, int *destroyed);

struct Results {
    int inlined, scaled_int, stepped, own, thrown, destroyed;
    double scaled_double;
};
Results from_main(), from_a(), from_b();

#define USE(name, number)                                                                         \
    MV static int own(int x) { return level == 1 ? x + number : level == 2 ? x - number : x; }    \
    Results name()                                                                                \
    {                                                                                             \
        Results r = {};                                                                           \
        Counter c = {5};                                                                          \
        r.inlined = shared(40);                                                                   \
        r.scaled_int = scaled(3);                                                                 \
        r.scaled_double = scaled(0.5);                                                            \
        c.step();                                                                                 \
        r.stepped = c.step();                                                                     \
        r.own = own(1000) + own(0);                                                               \
        try {                                                                                     \
            r.thrown = between(7, &r.destroyed);                                                  \
        } catch (const std::runtime_error &) {                                                    \
            r.thrown = -1;                                                                        \
        }                                                                                         \
        return r;                                                                                 \
    }
