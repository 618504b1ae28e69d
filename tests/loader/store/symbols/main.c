/* SPDX-License-Identifier: MIT
 *
 * What each reference leads to: as calls, pointers in data, variables, and what dlsym says
 * of them.
 */
#define _GNU_SOURCE
#include "symbols.h"

#include <dlfcn.h>
#include <stdio.h>

#define DECLARE(n) int f##n(void); extern int v##n;
EACH(DECLARE)
#define POINT(n) f##n,
static int (*const table[])(void) = {EACH(POINT)};
#define VARIABLE(n) &v##n,
static int *const variables[] = {EACH(VARIABLE)};
#define CALL(n) + f##n()
extern int (*const own[])(void);
extern int only;
char *where_absolute(void);
extern __thread int local;
int *where_local(void), answer(void), chosen(void), replaced(void), kept(void);
__attribute__((weak)) int nobody(void);

static void tell(const char *what, int i, const void *to)
{
    Dl_info info = {0};

    dladdr(to, &info);
    printf("%s %d: %s+%ld\n", what, i, info.dli_sname ? info.dli_sname : "?",
           (long)((const char *)to - (const char *)info.dli_saddr));
}

int main(void)
{
    int (*volatile there)(void) = nobody;
    char name[8];

    for (int i = 0; i < (int)(sizeof table / sizeof *table); i++) {
        tell("pointer", i, (const void *)table[i]);
        tell("own", i, (const void *)own[i]);
        tell("variable", i, variables[i]);
        snprintf(name, sizeof name, "f%d", i);
        if (dlsym(RTLD_DEFAULT, name) != (void *)table[i] || table[i] != own[i])
            printf("%s: two addresses\n", name);
        printf("%d %d\n", table[i](), *variables[i]);
    }
    local = 4;
    printf("%d %d %d %d %d %d %d %d %d\n", 0 EACH(CALL), only, *where_local(), chosen(),
           replaced(), kept(), there != 0, &only == dlsym(RTLD_DEFAULT, "only"),
           (void *)chosen == dlsym(RTLD_DEFAULT, "chosen"));
    printf("absolute %p\n", (void *)where_absolute());
    printf("answer %d\n", answer());
    return 0;
}
