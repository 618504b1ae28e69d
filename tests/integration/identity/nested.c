/* SPDX-License-Identifier: MIT
 *
 * A malloc of the program's that opens a library whenever the host loader allocates memory to open
 * another: what is announced then is not all relocated yet.
 *
 * A failure means that such a program crashes, or runs functions of neither.
 *
 * build: libinner.so -DNAME=inner
 * build: libouter.so -DNAME=outer
 * build: program -rdynamic
 * run:
 */
#include "identity.h"

#include <dlfcn.h>

#define CHOSEN_(x) x##_says
#define CHOSEN(x) CHOSEN_(x)

#ifdef NAME
int CHOSEN(NAME)(int);
int CHOSEN(NAME)(int n)
{
    RUNS;
    return (int)strlen("text") + n;
}
#else
static int nested;

static int ask(const char *library, const char *function)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_GLOBAL), *symbol;
    int (*says)(int), answer;

    RUNS;
    if (!handle || !(symbol = dlsym(handle, function)))
        _exit(3);
    memcpy(&says, &symbol, sizeof says);
    answer = says(nested);
    dlclose(handle);
    return answer;
}

void *malloc(size_t size)
{
    static void *(*next)(size_t);

    if (!next) {
        void *symbol = dlsym(RTLD_NEXT, "malloc");

        memcpy(&next, &symbol, sizeof next);
    }
    if (nested > 0) {
        nested = -nested;
        if (ask("libinner.so", "inner_says") != 4 + nested)
            _exit(4);
        nested = 1 - nested;
    }
    return next(size);
}

int main(void)
{
    int answer;

    RUNS;
    free(malloc(1));
    nested = 1;
    answer = ask("libouter.so", "outer_says") - nested;
    printf("%d, another opened in between: %d\n", answer, nested > 1);
    return 0;
}
#endif
