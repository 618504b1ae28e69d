/* SPDX-License-Identifier: MIT
 *
 * Needs next to no stack itself.
 */
int main(void)
{
    return 0;
}
