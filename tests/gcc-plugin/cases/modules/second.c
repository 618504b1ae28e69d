/* SPDX-License-Identifier: MIT */
#include "modules.h"
int calls(int x) { return decide(x) * 2 + local(x); }
int calls_hook(int x) { return hook(x) + hook(x + 1); }
int calls_tail(int x) { return sum(x); }
/* Near their callers, as all code is under mvld: a plain ld.so puts the program
 * farther away than a call reaches. */
int plus(int x) { return x; }
int minus(int x) { return -x; }
