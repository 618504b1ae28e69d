/* SPDX-License-Identifier: MIT */
#include "late.h"

#if NUMBER == 1
# define OTHER 2
#else
# define OTHER 1
#endif

__attribute__((multiverse("values", 0, 1, 2))) int JOIN(late_mode_, NUMBER);
__attribute__((multiverse)) int JOIN(late_own_, NUMBER)(void);
__attribute__((multiverse)) int JOIN(late_own_, OTHER)(void);

int JOIN(late_own_, NUMBER)(void)
{
    if (JOIN(late_mode_, NUMBER) == 0)
        return 100 * NUMBER;
    if (JOIN(late_mode_, NUMBER) == 1)
        return 100 * NUMBER + 1;
    return JOIN(late_mode_, NUMBER) == 2 ? 100 * NUMBER + 2 : 0;
}

static int call_which(void)
{
    return which();
}

static int call_own(void)
{
    return JOIN(late_own_, NUMBER)();
}

static int call_other(void)
{
    return JOIN(late_own_, OTHER)();
}

struct late JOIN(late_, NUMBER) = {-1, -2, &JOIN(late_mode_, NUMBER), call_which, call_own,
                                  call_other};
extern int commit_in_constructor;

__attribute__((constructor)) static void constructor(void)
{
    struct late *late = &JOIN(late_, NUMBER);
    int was = mode;

    mode = 2;
    late->of_constructor = which();
    mode = was;
    if (commit_in_constructor)
        late->committed_there = multiverse_commit();
}
