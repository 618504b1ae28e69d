/* SPDX-License-Identifier: MIT
 *
 * vault.c: its data is what nobody else is to read.
 */
#include <stdio.h>

static volatile int secret = 40, made[4096];
static int (*volatile held)(int);

static __attribute__((constructor)) void make(void) { made[4000] = ++secret; }
static __attribute__((destructor)) void end(void) { printf("end %d\n", secret + made[4000]); fflush(stdout); }

long vault_sum(long a, long b, long c, long d, long e, long f) { return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + secret; }
double vault_scaled(double a, double b) { return a * secret + b; }
struct pair { long a, b; } vault_pair(long n) { return (struct pair){n + secret, n - secret}; }
int vault_call(int (*f)(int), int n) { held = f; return held(n) + secret; }
int vault_unlisted(void) { return secret; }
volatile int *vault_address(void) { return &secret; }
