/* SPDX-License-Identifier: MIT
 *
 * Its program headers are changed by headers.py.  It calls other objects, through the PLT and through
 * pointers in RELRO, has a thread-local variable, and loads something.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static __thread int local = 5;
static int (*const compare)(const char *, const char *) = strcmp;
static int numbers[] = {3, 1, 2}, zero[5000];

static int ascending(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

int main(int argc, char **argv)
{
    void *m = dlopen("libm.so.6", RTLD_NOW);
    double (*cosine)(double) = m ? (double (*)(double))dlsym(m, "cos") : NULL;

    qsort(numbers, 3, sizeof *numbers, ascending);
    zero[argc] += local++;
    printf("%d %d %d %d %d %.3f %d\n", numbers[0], numbers[1], numbers[2], zero[argc], local,
           cosine ? cosine(1.0) : -1, compare(argv[0], "program"));
    return 7;
}
