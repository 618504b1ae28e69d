/* SPDX-License-Identifier: MIT
 *
 * The library with the new functions, and what is none.
 */
int value(int n)
{
    return 1000 + n;
}

int second(int n)
{
    return 2000 + n;
}

int datum = 3;
_Thread_local int own_datum = 4;
