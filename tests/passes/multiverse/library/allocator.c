/* SPDX-License-Identifier: MIT
 *
 * A program whose malloc looks at the list of objects while it holds a lock of its own, as one that records who allocates:
 * a commit that allocates with the list's lock held waits for ever for another thread (an alarm ends it then).
 */
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "../check.h"

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int started, stop;

static int nothing(struct dl_phdr_info *info, size_t size, void *cookie)
{
    (void)info, (void)size, (void)cookie;
    return 0;
}

static void record(void)
{
    if (!started) /* the host loader allocates, too */
        return;
    pthread_mutex_lock(&lock);
    dl_iterate_phdr(nothing, NULL);
    pthread_mutex_unlock(&lock);
}

void *malloc(size_t size)
{
    record();
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    record();
    return __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
    record();
    return __libc_realloc(old, size);
}

static void *allocates(void *unused)
{
    while (!stop)
        free(malloc(100));
    return unused;
}

int main(void)
{
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, allocates, NULL) == 0);
    alarm(20);
    started = 1;
    for (int i = 0; i < 2000; i++) {
        mode = i & 1;
        CHECK(multiverse_commit() >= 0, "(%s)", multiverse_error());
    }
    stop = 1;
    pthread_join(thread, NULL);
    check_calls("at last", 1001, 1001);
    return 0;
}
