// SPDX-License-Identifier: MIT
//
// The same in C++: members, references, templates, thread_local.
#define MV __attribute__((multiverse))
struct Holder {
    MV int member;
    MV int bits : 3;                       // error: member 'bits' .* it is a bit-field
    MV int &reference;                     // error: neither an integer
    static MV int shared;
    static thread_local MV int threaded;   // error: thread-local
    MV Holder(int);                        // error: a constructor or destructor
    MV ~Holder();                          // error: a constructor or destructor
};
int Holder::shared;
MV thread_local int threaded;              // error: thread-local
int object;
MV int &reference = object;                // error: neither an integer
MV double real;                            // error: neither an integer
template <typename T> struct Box { static MV T value; }; // error: neither an integer
template <typename T> T Box<T>::value;
double use() { return Box<double>::value; }
int good() { return Box<int>::value; }
void locals() { MV bool flag = true; (void)flag; } // error: local to a function
__attribute__((multiverse(("values", "one")))) int words; // error: unknown argument 'one'
enum class Level { low, high };
__attribute__((multiverse("values", 1, 7))) int numbers;
__attribute__((multiverse("values", Level::low, Level::high))) Level level;
MV int (Holder::*method)(int);             // error: neither an integer
__attribute__((multiverse(("values", 1, 7)))) int inner; // error: must begin with a string
