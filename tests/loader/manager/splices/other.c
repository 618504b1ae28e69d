/* SPDX-License-Identifier: MIT
 *
 * other.c: who is called, in a library of its own.
 */
int other(int x);

int other(int x)
{
    return 3 * x + 1;
}
