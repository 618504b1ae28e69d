/* SPDX-License-Identifier: MIT
 *
 * Cancellation, deferred (in sleep, read, a condition, pthread_testcancel) and asynchronous
 * (in a loop), with cleanup handlers in several frames and libraries; pthread_exit in a callback
 * and at last in main; pthread_once. glibc unwinds the stack for each of these.
 *
 * A failure means that a thread that is ended aborts the process, or its locks stay taken.
 *
 * build: libcleanup.so -DLIBRARY -fexceptions
 * build: program libcleanup.so -pthread -fexceptions
 * build: unwound libcleanup.so -pthread -fexceptions -O0
 * run:
 * run: LD_BIND_NOW=1
 * run: program=unwound
 */
#include "identity.h"

#include <pthread.h>

void in_library(void (*f)(void));

static void say(void *text)
{
    RUNS;
    printf("  clean %s\n", (const char *)text);
}

#ifdef LIBRARY
void in_library(void (*f)(void))
{
    pthread_cleanup_push(say, (void *)"library");
    RUNS;
    f();
    pthread_cleanup_pop(1);
}
#else
static pthread_barrier_t ready;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int pipes[2];

static void in_sleep(void)
{
    pthread_barrier_wait(&ready);
    sleep(1000);
}

static void in_read(void)
{
    char byte;

    pthread_barrier_wait(&ready);
    if (read(pipes[0], &byte, 1) == 1)
        puts("read");
}

static void unlock(void *mutex)
{
    puts("  unlocks");
    pthread_mutex_unlock((pthread_mutex_t *)mutex);
}

static void in_condition(void)
{
    pthread_mutex_lock(&lock);
    pthread_cleanup_push(unlock, &lock);
    pthread_barrier_wait(&ready);
    for (;;)
        pthread_cond_wait(&never, &lock);
    pthread_cleanup_pop(1);
}

static void in_test(void)
{
    pthread_barrier_wait(&ready);
    for (;;)
        pthread_testcancel();
}

static void in_loop(void)
{
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    RUNS;
    pthread_barrier_wait(&ready);
    for (volatile unsigned i = 0;; i++)
        ;
}

static void initialise(void)
{
    puts("  once");
    pthread_exit((void *)3);
}

static void in_once(void)
{
    pthread_barrier_wait(&ready);
    pthread_once(&once, initialise);
}

static int exits(const void *a, const void *b)
{
    RUNS;
    (void)a;
    (void)b;
    pthread_exit((void *)4);
}

static void in_callback(void)
{
    int one = 1;

    pthread_barrier_wait(&ready);
    bsearch(&one, &one, 1, sizeof(one), exits);
}

static void *thread(void *f)
{
    pthread_cleanup_push(say, (void *)"outer");
    pthread_cleanup_push(say, (void *)"inner");
    RUNS;
    in_library(*(void (**)(void))f);
    pthread_cleanup_pop(1);
    pthread_cleanup_pop(0);
    return NULL;
}

static void at_exit(void)
{
    RUNS;
    puts("exit");
}

static void *outlives(void *main_thread)
{
    void *result;

    pthread_join(*(pthread_t *)main_thread, &result);
    RUNS;
    printf("main gave %ld\n", (long)result);
    return NULL;
}

int main(void)
{
    static const struct {
        const char *name;
        void (*f)(void);
        int cancel;
    } ways[] = {{"sleep", in_sleep, 1}, {"read", in_read, 1}, {"condition", in_condition, 1},
                {"test", in_test, 1}, {"loop", in_loop, 1}, {"once", in_once, 0},
                {"callback", in_callback, 0}};
    static pthread_t self;
    pthread_t id;
    void *result;

    setvbuf(stdout, NULL, _IONBF, 0);
    RUNS;
    pthread_barrier_init(&ready, NULL, 2);
    if (pipe(pipes))
        return 1;
    for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        void (*f)(void) = ways[i].f;

        puts(ways[i].name);
        pthread_create(&id, NULL, thread, &f);
        pthread_barrier_wait(&ready);
        if (ways[i].cancel)
            pthread_cancel(id);
        pthread_join(id, &result);
        printf("  %ld, lock %d\n", (long)result, pthread_mutex_trylock(&lock));
        pthread_mutex_unlock(&lock);
    }
    atexit(at_exit);
    self = pthread_self();
    pthread_create(&id, NULL, outlives, &self);
    pthread_cleanup_push(say, (void *)"main");
    pthread_exit((void *)9);
    pthread_cleanup_pop(0);
}
#endif
