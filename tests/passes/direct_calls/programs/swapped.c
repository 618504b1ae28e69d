/* SPDX-License-Identifier: MIT
 *
 * Two functions; with -DNEW in the other order.
 */
int order_a(void)
{
    return 1;
}

#ifndef NEW
int first(void)
{
    return 1;
}
#endif

int second(void)
{
    return 2;
}

#ifdef NEW
int first(void)
{
    return 1;
}
#endif
