/* SPDX-License-Identifier: MIT */
int shared_name(void);

int shared_name(void)
{
    return 1;
}
