/* SPDX-License-Identifier: MIT
 *
 * A library whose function the program calls, and another that it may call.
 */
static __attribute__((noipa)) int own(int n) { return n + 300; } /* only .symtab names it */
int called(int n) { return n + 2; }
int other(int n) { return own(n); }
