/* SPDX-License-Identifier: MIT
 *
 * How a program gets at a hidden or protected `decide`: by asking its library. */
int decide(void);
int (*decide_address(void))(void);

int (*decide_address(void))(void)
{
    return decide;
}
