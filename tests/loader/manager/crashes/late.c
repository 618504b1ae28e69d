/* SPDX-License-Identifier: MIT
 *
 * A library that a program opens; for crashes.py.
 */
int late(void)
{
    return 5;
}
