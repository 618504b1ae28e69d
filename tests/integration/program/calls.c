/* SPDX-License-Identifier: MIT */
#include "program.h"

int seen_by_constructor = -1;

int call_which(void)
{
    return which() + 10;
}

int which_while(int value)
{
    int saved = mode;
    mode = value;
    int result = which();
    mode = saved;
    return result;
}

__attribute__((constructor)) static void look(void)
{
    seen_by_constructor = which_while(2);
}
