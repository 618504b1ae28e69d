/* SPDX-License-Identifier: MIT */
#include "modules.h"
int in_library;
int (*hook)(int);
int decide(int x) { if (in_program) x += 1; if (in_library == 7) x += 10; return x; }
int sum(int n) { return in_program ? n : -n; }
