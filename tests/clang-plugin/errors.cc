// SPDX-License-Identifier: MIT
//
// Wrong use in C++ is an error, at the line of the declaration.
#define MV __attribute__((multiverse))
struct S {
    MV S();                                    // error: constructor or destructor
    MV ~S();                                   // error: constructor or destructor
    static MV thread_local int shared;         // error: thread-local
};
MV int &reference = *new int;                  // error: neither an integer
template <typename T> MV T instance;           // error: neither an integer
float use() { return instance<float>; }
auto f = [](MV int x) { return x; };           // error: parameter 'x'
