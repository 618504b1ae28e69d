/* SPDX-License-Identifier: MIT */
#include "program.h"

static int seen = -1;

__attribute__((constructor)) static void look(void)
{
    seen = which() + 20;
}

int late_constructor(void);
int late_constructor(void)
{
    return seen;
}

int late_call(void);
int late_call(void)
{
    return which() + 20;
}
