/* SPDX-License-Identifier: MIT
 *
 * random_base.h: what generated programs (random_source.py) and their driver share.
 */
#ifndef RANDOM_BASE_H
#define RANDOM_BASE_H

#include <stdbool.h>
#include <stdint.h>
#define MAX_SWITCHES 32
#ifdef __cplusplus
extern "C" {
#endif
enum signed_enum { S_A = -7, S_B = 0, S_C = 3, S_D, S_E = 0x7fffffff };
enum unsigned_enum { U_A, U_B, U_C = 6, U_D = 0x80000000u, U_E = 0xffffffffu };
struct a_switch { /* or a constant, or a function pointer */
    void *at;
    unsigned width;
    bool has_any_value;
    bool is_tracked;
    bool is_certain;        /* a constant that all code has from the last commit */
    bool binds;             /* it has a binding of its own, as a constant or a pointer */
    bool is_loaded, is_loaded_by_opened; /* a constant that clang's code reads, of the opened library */
    unsigned n_candidates, n_domain; /* n_domain 0: every value */
    const int64_t *candidates, *domain;
};
struct a_function {
    const char *name;
    uint64_t (*call)(uint64_t), (*function)(uint64_t);
    bool is_leaf, binds, is_opened; /* of the library that is opened at run time */
    unsigned n_switches;
    unsigned char switches[8];
};
extern const struct a_switch switches[];
extern struct a_function functions[];
extern const unsigned n_switches, n_functions;
extern uint64_t trace;
#ifdef __cplusplus
}
#define COPIES inline
#define REFERENCE(type) const type &
#define REFER(object) (object)
#define REFERRED(object) (object)
#else
#define COPIES
#define REFERENCE(type) const type *
#define REFER(object) (&(object))
#define REFERRED(object) (*(object))
#endif
#define MV __attribute__((multiverse))
#define T(n) (trace = trace * 33 + (n))

#endif
