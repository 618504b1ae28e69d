/* SPDX-License-Identifier: MIT */
#include <stdbool.h>
#define MV __attribute__((multiverse))
extern MV bool in_program;            /* defined in the program */
extern MV int in_library;             /* defined in the first library */
extern MV int (*hook)(int);           /* defined in the first library */
extern MV int decide(int x);          /* the first library: both switches */
extern MV int local(int x);           /* the program: the library's switch */
extern MV int sum(int n);             /* the first library, called by the second */
int calls(int x);                     /* the second library: call sites only */
int calls_hook(int x);
int calls_tail(int x);
int plus(int x), minus(int x);        /* the second library */
