// SPDX-License-Identifier: MIT
//
// A small object with everything that the analyser reads: exceptions with landing pads,
// jump tables, PLT and GOT calls, tail calls, data of each kind.
extern "C" {
int outer(int);
int other(const char *);
extern int counter;
int (*pointer)(int) = outer;
static int table[4] = {1, 2, 3, 4};

struct guard {
    ~guard() { other("left"); }
};

__attribute__((visibility("default"))) int with_pads(int n)
{
    guard g;
    try {
        return outer(n) + counter;
    } catch (int i) {
        return other("caught") + i;
    }
}

__attribute__((visibility("default"))) int with_cases(int n)
{
    switch (n) {
    case 0: return other("zero");
    case 1: return outer(7);
    case 2: return counter;
    case 3: return table[1]++;
    case 4: return pointer(n);
    case 5: return with_pads(3);
    case 6: return 77;
    default: return n * 3;
    }
}

__attribute__((visibility("default"))) int tail(int n)
{
    return n ? outer(n) : other("none");
}
}
