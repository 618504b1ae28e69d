/* SPDX-License-Identifier: MIT
 *
 * A library that tells closes.c when it is closed.
 */
void closed(void);

__attribute__((destructor)) static void tell(void)
{
    closed();
}
