/* SPDX-License-Identifier: MIT
 *
 * A library whose function the program calls, and another that it may call.
 */
int called(int n) { return n + 2; }
int other(int n) { return n + 300; }
