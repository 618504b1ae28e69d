/* SPDX-License-Identifier: MIT
 *
 * The library with the new functions.
 */
int value(int n)
{
    return 1000 + n;
}

int second(int n)
{
    return 2000 + n;
}
