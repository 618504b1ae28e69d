/* SPDX-License-Identifier: MIT
 *
 * threads: functions whose locks are left out while there is one thread still lock when there
 * are more.
 *
 * Alone, with threads, alone again, twice over.  Prints what came out, which depends on no
 * timing: the sum of the random numbers that all drew, the bytes that all wrote, blocks that two
 * had at once. With MULTIVERSED it also says at each step what the code is bound to.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef MULTIVERSED
#include <multiverse.h>
__attribute__((multiverse)) long random(void);
__attribute__((multiverse)) int fputc(int, FILE *);
static const char *bound(void)
{
    int n = multiverse_is_committed((void *)random) + multiverse_is_committed((void *)fputc);

    return n == 2 ? ", without locks" : n == 0 ? ", with locks" : ", some with locks";
}
#else
static const char *bound(void)
{
    return "";
}
#endif

#define THREADS 4
#define ROUNDS 40000
#define BLOCKS 64

struct work {
    uint64_t sum, written, spoilt;
    char mark;
};

static FILE *file;
static pthread_barrier_t barrier;

static void one_round(struct work *work, char **blocks, unsigned round)
{
    size_t which = round % BLOCKS, size = 1 + round % 100;

    work->sum += (uint64_t)random();
    work->written += fputc(work->mark, file) == work->mark;
    if (blocks[which]) {
        size_t old = 1 + (round - BLOCKS) % 100;
        for (size_t i = 0; i < old; i++)
            work->spoilt += blocks[which][i] != work->mark;
        free(blocks[which]);
    }
    blocks[which] = malloc(size);
    memset(blocks[which], work->mark, size);
}

static void do_work(struct work *work)
{
    char *blocks[BLOCKS] = {0};

    for (unsigned round = 0; round < ROUNDS; round++)
        one_round(work, blocks, round);
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
}

static void *thread(void *cookie)
{
    pthread_barrier_wait(&barrier);
    do_work(cookie);
    return NULL;
}

static void report(const char *who, const struct work *works, int n)
{
    struct work all = {0};

    for (int i = 0; i < n; i++) {
        all.sum += works[i].sum;
        all.written += works[i].written;
        all.spoilt += works[i].spoilt;
    }
    fflush(file);
    printf("%s: sum %llu, written %llu of %ld, spoilt %llu%s\n", who, (unsigned long long)all.sum,
           (unsigned long long)all.written, ftell(file), (unsigned long long)all.spoilt, bound());
}

static int with_threads(void)
{
    struct work works[THREADS] = {0};
    pthread_t threads[THREADS];

    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++) {
        works[i].mark = (char)('a' + i);
        if (pthread_create(&threads[i], NULL, thread, &works[i]))
            return 1;
    }
    pthread_barrier_wait(&barrier);
    printf("threads run%s\n", bound());
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    report("threads", works, THREADS);
    return 0;
}

int main(void)
{
    file = tmpfile();
    if (!file)
        return 1;
#ifdef MULTIVERSED
    if (multiverse_commit() < 4)
        return fprintf(stderr, "threads: %s\n", multiverse_error()), 1;
#endif
    for (int round = 0; round < 2; round++) {
        struct work alone = {.mark = 'x'};
        do_work(&alone);
        report("alone", &alone, 1);
        if (with_threads())
            return 1;
    }
    return 0;
}
