/* SPDX-License-Identifier: MIT
 *
 * main.c: calls the library in each way that passes a gate, and prints the results; then it does what its
 * argument says.
 */
#include <execinfo.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct pair { long a, b; };
long vault_sum(long a, long b, long c, long d, long e, long f);
double vault_scaled(double a, double b);
struct pair vault_pair(long n);
int vault_call(int (*f)(int), int n), vault_unlisted(void);
volatile int *vault_address(void);

static long (*table[])(long, long, long, long, long, long) = {vault_sum};
static long (*volatile *volatile from)(long, long, long, long, long, long) = table;
static int frames;

static int called(int n)
{
    void *at[32];

    frames = backtrace(at, 32); /* called, vault_call, gate, main, what called main */
    return (int)vault_pair(n).a;
}

static void *thread(void *sum)
{
    for (int i = 0; i < 300; i++)
        *(long *)sum += vault_sum(i, 0, 0, 0, 0, 0);
    return NULL;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    pthread_t threads[4];
    long sums[4] = {0};
    int in;

    printf("%ld %ld %g %ld\n", vault_sum(1, 2, 3, 4, 5, 6), from[0](1, 1, 1, 1, 1, 1), vault_scaled(1.5, 2), vault_pair(3).b);
    in = vault_call(called, 5);
    printf("%d %d\n", in, frames);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, thread, &sums[i]);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("%ld\n", sums[0] + sums[1] + sums[2] + sums[3]);
    fflush(stdout);
    return !strcmp(what, "peek")       ? *vault_address()
           : !strcmp(what, "unlisted") ? vault_unlisted() : 0;
}
